"""The way through a policy: texts become whole before they are shown, and the order of a turn is kept."""

import pytest

from agentflex_nb.core.agent import AgentDefinition, ToolDefinition
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.events import EventType
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import Cancel, DeltaKind, ModelFailed, ModelReplied, Proceed, Streamed
from agentflex_nb.core.messages import ToolCall, assistant
from agentflex_nb.listeners.passage import Passage, filtered
from agentflex_nb.listeners.policy import HIDDEN, DisplayPolicy
from agentflex_nb.testing import play

SECRET = DisplayPolicy(redact=r"sk-\d+")
PAY = AgentDefinition(
    id="a",
    version="1",
    name="a",
    tools=(ToolDefinition(name="pay", description="Pay.", parameters=FrozenDict(type="object")),),
)


def text(piece, kind=DeltaKind.TEXT, **data):
    return Streamed(kind, piece, FrozenDict(data))


def through(policy, events):
    passage = Passage(policy)
    return [shown for event in events for shown in passage(event)]


def spoken(events):
    return [event.data["content"] for event in events if event.type is EventType.MODEL_TEXT_DELTA]


def test_a_secret_in_pieces_is_hidden():
    """Y6"""
    said = [text("the key is s"), text("k-12"), text("34, keep it")]
    events = play(PAY, Proceed(), *said, ModelReplied(message=assistant("the key is sk-1234, keep it"))).events

    seen = through(SECRET, events)

    assert spoken(seen) == [f"the key is {HIDDEN}, keep it"]
    assert [event.sequence for event in seen] == sorted({event.sequence for event in seen})
    assert [event.type for event in seen if event.type is not EventType.MODEL_TEXT_DELTA] == [
        event.type for event in events if event.type is not EventType.MODEL_TEXT_DELTA
    ]


def test_nothing_is_held_where_nothing_must_be_whole():
    """Y6"""
    events = play(PAY, Proceed(), text("a"), text("b")).events

    assert through(DisplayPolicy(errors=False), events) == list(events)
    assert through(None, events) == list(events)


def test_what_happens_meanwhile_waits_its_turn():
    """E5: a cancellation in the middle of a reply is told after the text before it, and the text is whole."""
    said = [text("s"), Cancel(), text("k-12"), ModelReplied(message=assistant("sk-12"))]
    events = play(PAY, Proceed(), *said).events

    seen = through(SECRET, events)

    assert spoken(seen) == [HIDDEN]
    assert [event.sequence for event in seen] == sorted(event.sequence for event in seen)
    assert seen[-1].type is EventType.TURN_CANCELLED
    assert EventType.CANCELLATION_REQUESTED in [event.type for event in seen]


def test_calls_that_are_written_side_by_side_are_joined_each_by_itself():
    """E16, Y6"""
    kind = DeltaKind.TOOL_CALL
    said = [
        text('{"key": "sk-', kind, index=0, name="pay"),
        text('{"key": "s', kind, index=1, name="pay"),
        text('1"}', kind, index=0, name=""),
        text('k-2"}', kind, index=1, name=""),
    ]
    calls = tuple(ToolCall(id="", name="pay", arguments=FrozenDict(key=f"sk-{n}")) for n in (1, 2))
    events = play(PAY, Proceed(), *said, ModelReplied(message=assistant(tool_calls=calls))).events

    seen = [event for event in through(SECRET, events) if event.type is EventType.MODEL_TOOL_CALL_DELTA]

    assert [(event.data["index"], event.data["name"], event.data["content"]) for event in seen] == [
        (0, "pay", '{"key": "[hidden]"}'),
        (1, "pay", '{"key": "[hidden]"}'),
    ]


def test_a_reply_that_breaks_off_is_told_as_far_as_it_came():
    """E14"""
    failure = ErrorSummary(kind="ConnectionError", message="cut")
    events = play(PAY, Proceed(), text("so sk-1"), ModelFailed(error=failure)).events

    seen = through(SECRET, events)

    assert spoken(seen) == [f"so {HIDDEN}"]
    assert seen[-1].type is EventType.TURN_FAILED


def test_turns_are_held_apart_and_nothing_is_kept_of_those_that_ended():
    passage = Passage(SECRET)
    logs = [
        play(PAY, Proceed(), text("sk-"), text("1"), ModelReplied(message=assistant("sk-1")), turn_id=id).events
        for id in ("t1", "t2")
    ]

    seen = [shown for pair in zip(*logs, strict=True) for event in pair for shown in passage(event)]

    assert spoken(seen) == [HIDDEN, HIDDEN]
    assert passage._held == {}


def test_a_filtered_listener_hears_what_may_be_heard_under_its_own_name(stage):
    """Y6"""
    heard = []

    def keep(event):
        heard.append(event)
        raise LookupError("counted under its name")

    stage.runner.add_event_listener(filtered(keep, SECRET), key="keep")
    stage.run("my key is sk-12")

    assert spoken(heard) == [f"my key is {HIDDEN}"]
    assert spoken(stage.heard) == ["my key is sk-12"]
    assert stage.runner.listener_errors == {"keep": len(heard)}


def test_a_filtered_function_is_registered_once_however_often_its_cell_runs(stage):
    for _ in range(2):
        stage.runner.add_event_listener(filtered(told_twice, SECRET))
    stage.run("hi")

    assert len(told) == len(stage.heard)


told = []


def told_twice(event):
    told.append(event)


@pytest.mark.parametrize("listener", [[].append, print])
def test_anything_that_can_be_called_can_be_filtered(listener, capsys):
    events = play(PAY).events

    assert [filtered(listener, SECRET)(event) for event in events] == [None] * len(events)
