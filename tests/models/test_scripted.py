"""The scripted model: what it plays, when, and that nothing of a turn lives on it."""

import time
from dataclasses import replace

import pytest

from agentflex_nb.core.errors import InvalidValueError, ModelError
from agentflex_nb.core.messages import Usage, user
from agentflex_nb.core.model import (
    Finish,
    ModelDelta,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    is_chat_model,
)
from agentflex_nb.models.scripted import ScriptedModel

REQUEST = ModelRequest(
    turn_id="t1", conversation_id=None, step=1, iteration=1, attempt=1, messages=(user("three little words"),)
)


def played(model: ScriptedModel, **changes: object) -> list[ModelDelta]:
    return list(model.stream(replace(REQUEST, **changes)))


def without_usage(*replies: object, **changes: object) -> list[ModelDelta]:
    return played(ScriptedModel(*replies, usage=False), **changes)


def test_a_text_is_streamed_word_by_word_and_finished():
    assert without_usage("It was\n shipped. ") == [
        TextDelta("It "),
        TextDelta("was\n "),
        TextDelta("shipped. "),
        Finish(reason="stop"),
    ]


def test_a_list_mixes_thoughts_text_and_parallel_calls():
    reply = [
        ScriptedModel.think("Both."),
        ScriptedModel.say("Looking"),
        ScriptedModel.call("lookup", order="O-1", name="Zoë"),
        ScriptedModel.call("clock"),
    ]

    assert without_usage(reply) == [
        ReasoningDelta("Both."),
        TextDelta("Looking"),
        ToolCallDelta(0, "call_0", "lookup", '{"order": "O-1", "name": "Zoë"}'),
        ToolCallDelta(1, "call_1", "clock", "{}"),
        Finish(reason="tool_calls"),
    ]


def test_a_raw_delta_is_played_as_it_is_and_its_own_finish_is_the_only_one():
    deltas = [TextDelta("half an emoji \ud83d"), Finish(reason="length"), TextDelta("late")]

    assert without_usage(deltas) == deltas
    assert without_usage(ToolCallDelta(3, None, "f", "")) == [
        ToolCallDelta(3, None, "f", ""),
        Finish(reason="tool_calls"),
    ]


def test_the_round_of_the_turn_chooses_the_reply_not_the_number_of_calls():
    """One model serves many turns at a time, and a resumed turn goes on in a new process (Y3)."""
    model = ScriptedModel("one", "two", usage=False)

    for iteration, word in [(2, "two"), (1, "one"), (1, "one"), (2, "two")]:
        assert played(model, iteration=iteration)[0] == TextDelta(word)
    assert played(ScriptedModel("one", "two", usage=False), iteration=2)[0] == TextDelta("two")


def test_replies_of_several_turns_interleave():
    model = ScriptedModel("a b", usage=False)
    first, second = model.stream(REQUEST), model.stream(replace(REQUEST, turn_id="t2"))

    assert [next(first), next(second), next(second), next(first)] == [TextDelta(w) for w in ("a ", "a ", "b", "b")]


def test_a_script_that_runs_out_says_what_was_asked_and_what_to_do():
    with pytest.raises(ModelError, match=r"model 'scripted' has 1 replies, and turn t1 asks for number 2: add a reply"):
        played(ScriptedModel("only"), iteration=2)
    with pytest.raises(ModelError, match="has 0 replies"):
        played(ScriptedModel())


def test_a_function_answers_the_request_and_as_the_last_one_all_later_rounds():
    model = ScriptedModel("one", lambda request: f"{request.iteration}:{request.messages[-1].content}", usage=False)

    assert [played(model, iteration=n, messages=(user("hi"),))[0] for n in (1, 2, 3)] == [
        TextDelta("one"),
        TextDelta("2:hi"),
        TextDelta("3:hi"),
    ]


@pytest.mark.parametrize("error", [ConnectionError("cut"), ConnectionError])
def test_an_exception_is_raised_where_it_stands(error: ConnectionError | type[ConnectionError]):
    """K25."""
    stream = ScriptedModel(["Ana", "lyz", error, "never"]).stream(REQUEST)

    assert [next(stream), next(stream)] == [TextDelta("Ana"), TextDelta("lyz")]
    with pytest.raises(ConnectionError):
        next(stream)


def test_an_instance_raised_many_times_keeps_no_earlier_frames():
    error = ConnectionError("cut")
    model = ScriptedModel(error)

    depths = set()
    for _ in range(3):
        with pytest.raises(ConnectionError) as caught:
            played(model)
        depths.add(len(caught.traceback))

    assert len(depths) == 1


def test_a_cut_ends_the_stream_without_a_finish():
    """K25."""
    assert played(ScriptedModel(["Ana", ScriptedModel.cut(), "never"])) == [TextDelta("Ana")]


def test_an_empty_list_says_nothing_at_all_and_an_empty_text_finishes():
    """R7, K27."""
    assert played(ScriptedModel([])) == []
    assert without_usage("") == [Finish(reason="stop")]


def test_tokens_are_words_and_the_same_on_every_run():
    reply = [ScriptedModel.think("two words"), ScriptedModel.call("f", n=1)]

    for _ in range(2):
        assert played(ScriptedModel(reply))[-2] == UsageDelta(Usage(input_tokens=3, output_tokens=4))


def test_usage_can_be_given_left_out_or_stand_in_the_reply():
    """K15."""
    own = UsageDelta(Usage(output_tokens=9))

    assert played(ScriptedModel("x", usage=Usage(input_tokens=1)))[-2] == UsageDelta(Usage(input_tokens=1))
    assert [type(delta) for delta in without_usage("x")] == [TextDelta, Finish]
    assert played(ScriptedModel([own, "x"])) == [own, TextDelta("x"), Finish(reason="stop")]


def test_delay_and_pause_take_their_time():
    begun = time.perf_counter()
    played(ScriptedModel(["a b", ScriptedModel.pause(0.02)], delay=0.01, usage=False))

    assert time.perf_counter() - begun >= 0.05  # three gaps between four pieces, and the pause


def test_it_keeps_the_requests_it_saw():
    model = ScriptedModel("x")
    played(model)
    played(model, turn_id="t2")

    assert [request.turn_id for request in model.requests] == ["t1", "t2"]


@pytest.mark.parametrize("wrong", [3, None, ["x", 3], [["nested"]], object()])
def test_a_reply_that_is_none_is_refused_when_the_script_is_written(wrong: object):
    with pytest.raises(InvalidValueError, match="reply 2 is"):
        ScriptedModel("fine", wrong)


def test_what_a_function_returns_is_checked_too():
    with pytest.raises(InvalidValueError, match="what reply 1 returned is NoneType"):
        played(ScriptedModel(lambda request: None))


def test_arguments_that_are_no_json_are_refused():
    with pytest.raises(InvalidValueError, match=r"arguments of f\.x is set"):
        ScriptedModel.call("f", x={1})


def test_a_script_does_not_change_when_its_list_does():
    reply = ["a"]
    model = ScriptedModel(reply, usage=False)
    reply.append("b")

    assert played(model) == [TextDelta("a"), Finish(reason="stop")]


def test_it_is_a_chat_model_with_a_readable_name():
    model = ScriptedModel(ScriptedModel.say("hello"), "x" * 200, name="gpt-fake")

    assert is_chat_model(model)
    assert repr(model).startswith("ScriptedModel(Say(text='hello'), 'xxx")
    assert repr(model).endswith("…, name='gpt-fake')")
