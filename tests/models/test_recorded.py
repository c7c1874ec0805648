"""The recorded model: which saved message it says again, wherever and however it is asked."""

from collections.abc import Sequence

import pytest

from agentflex_nb.core.errors import ModelError, RecordingEndedError
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.messages import Message, Origin, ToolCall, assistant, system, tool_result, user
from agentflex_nb.core.model import Finish, ModelDelta, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from agentflex_nb.models.recorded import RecordedModel


def call(name: str, /, provider_id: str = "call_0", malformed: str | None = None, **arguments: object) -> ToolCall:
    return ToolCall(id="x", name=name, arguments=FrozenDict(arguments), malformed=malformed, provider_id=provider_id)


LOOKUP = call("lookup", order="O-1")
SHOP = (
    system("Help."),
    user("Where is it?"),
    assistant("", tool_calls=(LOOKUP,)),
    tool_result(LOOKUP, "shipped"),
    assistant("On its way."),
    user("ok"),
    assistant("Anything else?"),
    user("ok"),
    assistant("Bye."),
)


def said(model: RecordedModel, messages: Sequence[Message], conversation_id: str | None = "c") -> list[ModelDelta]:
    request = ModelRequest(
        turn_id="t",
        conversation_id=conversation_id,
        step=1,
        iteration=1,
        attempt=1,
        messages=tuple(messages),
    )
    return list(model.stream(request))


@pytest.mark.parametrize(
    ("asked", "text"),
    [(SHOP[:4], "On its way."), (SHOP[:6], "Anything else?"), (SHOP[:8], "Bye."), (SHOP[1:6], "Anything else?")],
)
def test_the_reply_is_the_message_that_follows_the_place_of_the_request(asked: Sequence[Message], text: str):
    assert said(RecordedModel({"c": SHOP}), asked) == [TextDelta(text), Finish(reason="stop")]


def test_nothing_is_counted_so_the_order_and_number_of_requests_do_not_matter():
    model = RecordedModel({"c": SHOP})

    for _ in range(2):
        assert said(model, SHOP[:8])[0] == TextDelta("Bye.")
        assert said(model, SHOP[:4])[0] == TextDelta("On its way.")


def test_calls_reasoning_and_provider_data_come_back():
    first, second = call("a", "call_7", n=1, name="Zoë"), call("b", "call_7", malformed="{half")
    reply = assistant("Both.", reasoning="Hm.", tool_calls=(first, second), provider_data=FrozenDict(signature="s"))

    assert said(RecordedModel([user("go"), reply]), [user("go")]) == [
        ReasoningDelta("Hm."),
        TextDelta("Both."),
        ToolCallDelta(0, "call_7", "a", '{"n": 1, "name": "Zoë"}'),
        ToolCallDelta(1, "call_7", "b", "{half"),
        Finish(reason="tool_calls", provider_data=FrozenDict(signature="s")),
    ]


def test_an_empty_reply_is_a_reply():
    """K27."""
    assert said(RecordedModel([user("hi"), assistant("")]), [user("hi")]) == [Finish(reason="stop")]


@pytest.mark.parametrize("left_out", range(1, 6))
def test_a_window_that_left_out_the_oldest_messages_changes_nothing(left_out: int):
    assert said(RecordedModel({"c": SHOP}), SHOP[left_out:6])[0] == TextDelta("Anything else?")


def test_the_longest_run_of_messages_tells_equal_ones_apart():
    """Two users' messages say "ok"; what stands before them decides."""
    model = RecordedModel({"c": SHOP})

    assert said(model, SHOP[4:6])[0] == TextDelta("Anything else?")
    assert said(model, SHOP[6:8])[0] == TextDelta("Bye.")


def test_tools_may_give_other_results_today():
    today = (*SHOP[:3], tool_result(LOOKUP, "lost"))

    assert said(RecordedModel({"c": SHOP}), today)[0] == TextDelta("On its way.")


def test_what_a_runtime_added_to_close_a_history_does_not_count():
    closed = (*SHOP[:5], assistant("[The turn failed.]", origin=Origin.RUNTIME), SHOP[5])

    assert said(RecordedModel({"c": SHOP}), closed)[0] == TextDelta("Anything else?")
    assert said(RecordedModel({"c": closed + SHOP[6:]}), SHOP[:6])[0] == TextDelta("Anything else?")


@pytest.mark.parametrize("stops_at", [2, 4, 6])
def test_a_recording_that_stops_says_so(stops_at: int):
    with pytest.raises(
        RecordingEndedError, match=f"recording ended: conversation 'c' has no reply after its message {stops_at - 1}"
    ):
        said(RecordedModel({"c": SHOP[:stops_at]}), SHOP[:stops_at])


def test_a_recording_that_goes_on_without_a_reply_has_ended_there_too():
    """A user may speak again although nobody answered."""
    with pytest.raises(RecordingEndedError, match="no reply after its message 1"):
        said(RecordedModel([user("hello?"), user("anyone?"), assistant("yes")]), [user("hello?")])


def test_a_message_that_was_never_recorded_is_no_place():
    with pytest.raises(ModelError, match="'c' has no place where a user says 'Refund me!'") as caught:
        said(RecordedModel({"c": SHOP}), [user("Refund me!")])

    assert not isinstance(caught.value, RecordingEndedError)


def test_an_unknown_conversation_is_named_with_some_that_are_known():
    with pytest.raises(ModelError, match=r"'d' is not among the 1 recorded ones \('c'\): run it with conversation_id="):
        said(RecordedModel({"c": SHOP}), SHOP[:2], conversation_id="d")
    with pytest.raises(ModelError, match="None is not among"):
        said(RecordedModel({"c": SHOP}), SHOP[:2], conversation_id=None)


def test_one_conversation_alone_answers_under_any_id():
    model = RecordedModel(SHOP, name="gpt-4o")

    assert said(model, SHOP[:6], conversation_id=None) == said(model, SHOP[:6], conversation_id="whatever")
    assert (model.name, repr(model)) == ("gpt-4o", "RecordedModel(8 messages, name='gpt-4o')")
