"""What may leave: redacted, bounded, sampled, hidden. In doubt nothing leaves; what people find their way by stays."""

import json
import re
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.agent import AgentDefinition, AgentExecutionPolicy, AgentRetryPolicy, ToolDefinition
from agentflex_nb.core.errors import ErrorSummary, InvalidValueError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.frozen import FrozenDict, freeze, well_formed
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    DeltaKind,
    ModelReplied,
    Proceed,
    Streamed,
    ToolFailed,
    ToolProgressed,
)
from agentflex_nb.core.messages import Message, Origin, Role, ToolCall, assistant, user
from agentflex_nb.core.verdicts import ALLOWED, Strictness, Verdict
from agentflex_nb.lab import Lab
from agentflex_nb.listeners.passage import Passage
from agentflex_nb.listeners.policy import HIDDEN, DisplayPolicy
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.runner import AgentTurnOptions
from agentflex_nb.runtime.tools import tool
from agentflex_nb.testing import play
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.view import show_all

call = ScriptedModel.call
MAIL = r"[\w.]+@[\w.]+"
LOUD = DisplayPolicy(redact=[lambda text: text.upper()])
"""Sees every text, and changes each with a letter in it."""


def shown(policy, events):
    return [event for event in (policy.apply(each, whole=True) for each in events) if event is not None]


def played(stage):
    """A turn with every kind of text in it, from a free call over a refusal to an error."""
    stage.run([call("lookup", order="ann@example.org"), call("refund", order="O-1", amount=4111.0)], "Refunded ann.")
    turn = stage.runner.restore("t1")
    turn.reject("ann@example.org said no", by="bob@example.org", ticket=4111)
    stage.run([call("explode", order="O-9")])
    stage.run(ConnectionError("10.0.0.7 is down"))
    return stage.heard


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts(part)


# -- Y6 ----------------------------------------------------------------------------------------------------------------


def test_without_a_wish_everything_passes_as_it_is(stage):
    """Y6"""
    events = played(stage)

    assert all(DisplayPolicy().apply(event) is event for event in events)


def test_a_pattern_is_hidden_wherever_it_stands(stage):
    """Y6: arguments, results, progress, questions, reasons, who answered."""
    events = played(stage)
    assert any("@" in text for event in events for text in texts(event.data))

    seen = shown(DisplayPolicy(redact=[MAIL, re.compile(r"10\.0\.0\.\d+")]), events)

    assert len(seen) == len(events)
    left = [text for event in seen for text in texts(event.data)]
    assert [text for text in left if "@" in text or "10.0" in text] == []
    assert sum(HIDDEN in text for text in left) > 5


def test_numbers_that_were_supplied_are_looked_at_too(stage):
    """Y6: a card's number is no text in JSON. What we count ourselves stays a number."""
    seen = shown(DisplayPolicy(redact=["4111", "100"]), played(stage))

    data = [event.data for event in seen]
    assert "4111" not in json.dumps(data)
    assert {event["usage"]["input_tokens"] for event in data if event.get("usage")} == {100, None}


def test_what_others_find_their_way_by_stays(stage):
    """Y6: ids, statuses and times are the same, so an answer still finds its question."""
    for before, after in zip(stage_events := played(stage), shown(LOUD, stage_events), strict=True):
        assert replace(after, data=before.data) == before
        for name in ("status", "phase", "step_count", "tool_call_id", "correlation_id", "command_type", "usage"):
            assert after.data.get(name) == before.data.get(name)
        pairs = zip(before.data.get("questions", ()), after.data.get("questions", ()), strict=True)
        for asked, seen in pairs:
            assert {"id", "type", "call_id", "schema", "code"} <= {k for k in asked if asked[k] == seen[k]}


def test_names_of_fields_are_text_too(stage):
    """Y6"""
    stage.run(call("lookup", **{"order": "1", "ann@example.org": "x"}))

    assert "ann@" not in json.dumps([event.data for event in shown(DisplayPolicy(redact=MAIL), stage.heard)])


def test_a_tool_may_name_its_progress_as_it_likes_and_hides_no_field_of_ours(stage):
    """Y6, E17"""
    stage.run([call("lookup", order="sk-1")], "x")
    (progress,) = [event for event in shown(LOUD, stage.heard) if event.type is EventType.TOOL_PROGRESS]

    assert (progress.data["tool_call_id"], progress.data["status"]) == ("t1.1.0", "RUNNING")
    assert (progress.data["tool_name"], progress.data["message"]) == ("LOOKUP", "READING")
    assert (progress.data["ORDER"], progress.data["PAGE"]) == ("SK-1", 4111)


@pytest.mark.parametrize("bad", [lambda text: 1 / 0, lambda text: None, lambda text: b"bytes"])
def test_a_redactor_that_raises_or_returns_no_text_hides_all(stage, bad):
    """Y6"""
    policy = DisplayPolicy(redact=[bad])

    assert policy.text("ann@example.org") == HIDDEN
    assert "ann" not in json.dumps([event.data for event in shown(policy, played(stage))])


def test_long_texts_are_bounded_after_they_are_redacted():
    """Y6"""
    policy = DisplayPolicy(redact=["secret"], max_chars=8)

    assert policy.text("12345 secret") == "12345 [h… (14 characters in all)"
    assert policy.text("12345678") == "12345678"


def test_reasoning_is_hidden(stage):
    """Y6"""
    stage.run([ScriptedModel.think("hm, ann"), "Hello."], "x")
    kinds = {event.type for event in stage.heard}
    assert EventType.MODEL_REASONING_DELTA in kinds

    seen = shown(DisplayPolicy(reasoning=False), stage.heard)

    assert {event.type for event in seen} == kinds - {EventType.MODEL_REASONING_DELTA}
    assert DisplayPolicy(reasoning=False).message(assistant("Hello.", reasoning="hm")).reasoning == ""


def test_words_of_errors_are_hidden_and_their_kind_is_not(stage):
    """Y6: also where a question quotes them."""
    seen = shown(DisplayPolicy(errors=False), played(stage))

    assert "10.0.0.7" not in json.dumps([event.data for event in seen])
    kinds = {event.data["error"]["kind"] for event in seen if event.data.get("error")}
    assert kinds == {"LookupError", "ConnectionError"}


def test_a_model_that_asks_for_help_hides_why(stage):
    """Y6, O4"""
    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))
    stage.run(ConnectionError("10.0.0.7 is down"), execution_policy=policy)
    (asked,) = [event for event in shown(DisplayPolicy(errors=False), stage.heard) if event.type == "TURN_SUSPENDED"]

    assert asked.data["metadata"]["model_failure"]["type"] == "ConnectionError"
    assert "10.0" not in json.dumps(asked.data)


def test_a_sample_is_the_same_turns_everywhere():
    """Y6"""
    ids = [f"t{n}" for n in range(4_000)]
    few = {id for id in ids if DisplayPolicy(sample=0.1).shows(id)}

    assert few == {id for id in ids if DisplayPolicy(sample=0.1, redact="x").shows(id)}
    assert 300 < len(few) < 500
    assert few < {id for id in ids if DisplayPolicy(sample=0.5).shows(id)}
    assert [sum(DisplayPolicy(sample=share).shows(id) for id in ids) for share in (0, 1)] == [0, 4_000]


def test_a_turn_is_shown_to_those_who_may_see_it(stage):
    """Y6: a predicate that raises shows nothing."""
    asked = []

    def may_see(viewer, turn_id):
        asked.append((viewer, turn_id))
        if viewer == "eve":
            raise PermissionError
        return viewer == "alice"

    stage.run("Hello.")
    seen = {who: shown(DisplayPolicy(viewer=who, may_see=may_see), stage.heard) for who in ("alice", "bob", "eve")}

    assert (seen["alice"], seen["bob"], seen["eve"]) == (stage.heard, [], [])
    assert set(asked) == {("alice", "t1"), ("bob", "t1"), ("eve", "t1")}


def test_a_piece_of_text_alone_does_not_pass_where_texts_must_be_whole(stage):
    """Y6: half a secret passes every pattern."""
    stage.run("Hello.")
    (piece,) = [event for event in stage.heard if event.type is EventType.MODEL_TEXT_DELTA]

    assert DisplayPolicy(redact=MAIL).apply(piece) is None
    assert DisplayPolicy(max_chars=5).apply(piece) is None
    assert DisplayPolicy(errors=False).apply(piece).data["content"] == "Hello."


# -- messages and rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Postcard(Message):
    stamp: str = ""


def test_messages_of_any_class_are_redacted_in_every_part():
    """Y6"""
    asked = ToolCall(id="t1.1.0", name="lookup", arguments=freeze({"who": ["ann@example.org"]}), malformed="ann@x.y {")
    card = Postcard(
        role=Role.ASSISTANT,
        content="ann@example.org",
        reasoning="ann@example.org?",
        tool_calls=(asked,),
        stamp="from ann@example.org",
        provider_data=FrozenDict(signature="ann@example.org"),
    )

    seen = DisplayPolicy(redact=MAIL).message(card)

    assert type(seen) is Postcard
    assert (seen.role, seen.tool_calls[0].id, seen.stamp) == (Role.ASSISTANT, "t1.1.0", f"from {HIDDEN}")
    assert "ann" not in repr(seen)


def test_what_the_runtime_wrote_about_an_error_is_hidden_with_errors():
    """Y6"""
    closing = replace(assistant("10.0.0.7 is down"), origin=Origin.RUNTIME)

    assert DisplayPolicy(errors=False).message(closing).content == HIDDEN
    assert DisplayPolicy(errors=False).message(user("hello")).content == "hello"


def test_rows_of_a_lab_are_exported_as_they_may_be_seen(tmp_path):
    """Y6: also the JSON in their columns; it stays JSON."""
    agent = Agent("a", model=ScriptedModel([ScriptedModel.think("hm"), 'say "ann@example.org"\n'], name="m"))
    with Lab(tmp_path / "lab.duckdb", durability="process", display=False) as lab:
        turn = lab.run(agent, "I am ann@example.org", options=AgentTurnOptions(metadata={"from": "ann@example.org"}))
        policy = DisplayPolicy(redact=MAIL, reasoning=False, errors=False)
        tables = {name: getattr(lab, name)().to_dict("records") for name in ("turns", "events", "messages")}
        export = {name: [policy.row(row) for row in rows] for name, rows in tables.items()}

        assert "ann@" in repr(tables)
        assert "ann@" not in repr(export)
        kept = [row for row in export["events"] if row is not None]
        assert {row["type"] for row in kept} == {row["type"] for row in tables["events"]} - {
            "MODEL_TEXT_DELTA",
            "MODEL_REASONING_DELTA",
        }
        assert [json.loads(row["data"])["status"] for row in kept if row["type"] == "TURN_COMPLETED"] == ["COMPLETED"]
        assert {row["turn_id"] for row in kept} == {turn.id}
        assert {row["reasoning"] for row in export["messages"] if row["role"] == "assistant"} == {HIDDEN}
        assert DisplayPolicy(sample=0).row(tables["turns"][0]) is None
        unchanged = DisplayPolicy().row(tables["turns"][0])
        assert unchanged is not None
        assert repr(unchanged) == repr(tables["turns"][0])
        assert len(lab.events()) == len(tables["events"])


def test_a_cell_that_only_looks_like_json_is_text():
    """Y6"""
    assert DisplayPolicy(redact="ann").row({"turn_id": "t1", "note": "{ann"}) == {"turn_id": "t1", "note": "{[hidden]"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"redact": ["("]}, "redact"),
        ({"redact": [7]}, "redact"),
        ({"sample": 1.5}, "sample"),
        ({"sample": float("nan")}, "sample"),
        ({"max_chars": 0}, "max_chars"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields, path):
    with pytest.raises(InvalidValueError) as error:
        DisplayPolicy(**fields)

    assert error.value.path == path


# -- whatever comes ----------------------------------------------------------------------------------------------------

SECRET = "sk-0123456789"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just(f"x{SECRET}"), inner, max_size=3),
    max_leaves=12,
)
REDACTING = DisplayPolicy(redact=r"sk-\d{10}")


@given(said=st.dictionaries(st.text() | st.sampled_from(["error", "id", "model_failure", "status", SECRET]), JSON))
def test_no_secret_leaves_whatever_a_model_a_tool_or_a_person_said(said):
    """Y6"""
    ask = Verdict(strictness=Strictness.ASK, message=SECRET, reason=SECRET, metadata=freeze(said))
    call = ToolCall(id="", name="pay", arguments=freeze({**said, "key": SECRET}))
    tools = (ToolDefinition(name="pay", description="Pay.", parameters=FrozenDict(type="object"), guarded=True),)
    events = play(
        AgentDefinition(id="a", version="1", name="a", tools=tools),
        Proceed(),
        ModelReplied(message=assistant(SECRET, tool_calls=(call,))),
        CallsChecked({"t1.1.0": ask}),
        AgentResumeCommand.approve_tool("t1.1.0", **{"by": SECRET, "said": said}),
        Proceed(),
        CallsChecked({"t1.1.0": ALLOWED}),
        ToolProgressed("t1.1.0", SECRET, freeze(said)),
        ToolFailed("t1.1.0", ErrorSummary(kind="E", message=SECRET, provider_code=SECRET, request_id=SECRET), SECRET),
        streaming=False,
    ).events
    assert SECRET in json.dumps([event.data for event in events])

    left = json.dumps([event.data for event in shown(REDACTING, events)])

    assert SECRET not in left
    view = show_all(View(turn_id="t1"), shown(REDACTING, events))
    assert view.status == events[-1].data["status"]


@given(before=st.text(), after=st.text(), cuts=st.lists(st.integers(0, 40)))
def test_no_secret_leaves_however_a_model_cuts_its_text(before, after, cuts):
    """Y6"""
    text = f"{well_formed(before)}{SECRET}{well_formed(after)}"
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [Streamed(DeltaKind.TEXT, text[a:b]) for a, b in pairwise(places)]
    definition = AgentDefinition(id="a", version="1", name="a")
    events = play(definition, Proceed(), *pieces, ModelReplied(message=assistant(text))).events
    passage = Passage(REDACTING)

    left = [event for told in events for event in passage(told)]

    (said,) = [event.data["content"] for event in left if event.type is EventType.MODEL_TEXT_DELTA]
    assert said == text.replace(SECRET, HIDDEN)


def test_half_a_secret_at_the_edge_of_a_cut_result_is_left_away(stage):
    """Y6: an event carries the first 2,000 characters of a result."""

    @tool
    def read() -> str:
        """A long page, with a secret where it is cut."""
        return "x" * 1_995 + SECRET + "y" * 100

    stage.run([call("read")], "Done.", tools=[read])
    (result,) = [event.data["result"] for event in stage.heard if event.type is EventType.TOOL_COMPLETED]
    assert result.endswith("sk-01")

    (seen,) = [event.data["result"] for event in shown(REDACTING, stage.heard) if "result" in event.data]

    assert "sk-" not in seen
    assert len(seen) == 1_800


def test_a_policy_is_a_value():
    words = ["a", "b"]
    policy = DisplayPolicy(redact=words)
    words.append("c")

    assert policy == DisplayPolicy(redact=("a", "b"))
    assert hash(policy) == hash(DisplayPolicy(redact=("a", "b")))
    assert DisplayPolicy(redact="a") == DisplayPolicy(redact=["a"])
