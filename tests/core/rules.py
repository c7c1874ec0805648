"""The invariants of the contract, for one advance and for a whole log. A crash may leave gaps in the numbers only."""

from collections.abc import Sequence

from agentflex_nb.core.effects import RunTool
from agentflex_nb.core.events import AgentEvent, EventType
from agentflex_nb.core.machine import AgentPhase, AgentStatus, replay
from agentflex_nb.core.messages import Message, Role
from agentflex_nb.core.story import Advance
from agentflex_nb.core.turn import Turn

FINAL = {
    EventType.TURN_COMPLETED, EventType.TURN_FAILED, EventType.TURN_CANCELLED, EventType.MAX_ITERATIONS_REACHED,
    EventType.MAX_STEPS_REACHED, EventType.BUDGET_EXCEEDED,
}  # fmt: skip
DECISIVE = FINAL | {
    EventType.TURN_SUSPENDED, EventType.TURN_RESUMED, EventType.TURN_MIGRATED, EventType.CANCELLATION_REQUESTED,
    EventType.TOOL_APPROVAL_REQUESTED, EventType.TOOL_INPUT_REQUESTED, EventType.TOOL_STARTED,
}  # fmt: skip


def hold_for_advance(before: Turn, result: Advance) -> None:
    """E3, E27, I3, I7: numbers, versions, commits and effects of one advance."""
    after, types = result.turn, [event.type for event in result.events]

    assert [event.sequence for event in result.events] == list(range(before.sequence + 1, after.sequence + 1))
    assert result.commits == (after.version == before.version + 1) == (EventType.SNAPSHOT_SAVED in types)
    assert result.commits or after.version == before.version
    assert types.count(EventType.SNAPSHOT_SAVED) <= 1
    assert result.commits or not DECISIVE & {*types}, "what asks, decides or ends is saved before it is told"
    assert all(event.data["version"] == after.version for event in result.events if event.type == "SNAPSHOT_SAVED")
    assert len(result.effects) <= 1 or all(isinstance(effect, RunTool) for effect in result.effects)
    assert not result.effects or (after.status is AgentStatus.RUNNING and after.step_open)
    if EventType.TURN_MIGRATED in types:
        assert (len(after.migrations), after.messages) == (len(before.migrations) + 1, before.messages)
        assert after.suspension is before.suspension
    else:
        assert (after.identity, after.migrations) == (before.identity, before.migrations)
    assert result.commits or not result.kept, "a whole result is saved with its text"
    assert after.messages[: len(before.messages)] == before.messages, "a history only grows"
    assert after.answers[: len(before.answers)] == before.answers


def hold_for_log(events: Sequence[AgentEvent], turn: Turn) -> None:
    """E3, E6, E8, E12, I1, I6, I7 over a turn's whole log."""
    assert replay(events) is turn.status, "the log alone tells the status"
    numbers = [event.sequence for event in events]
    assert numbers == sorted({*numbers})
    assert {(e.turn_id, e.root_turn_id, e.agent_id) for e in events} == {
        (turn.id, turn.identity.root_turn_id, turn.identity.agent_id)
    }
    _versions_change_by_migrations(events, turn)
    final = [event for event in events if event.type in FINAL]
    assert len(final) == turn.status.is_terminal
    assert not final or final == [events[-1]], "nothing follows the end"
    assert sum(event.type is EventType.TURN_STARTED for event in events) <= 1
    _steps_come_in_pairs(events, turn)
    _the_state_is_whole(turn)
    _calls_are_answered(turn)
    _what_was_started_is_never_denied(events, turn)


def accepted(messages: Sequence[Message]) -> bool:
    """Whether a model takes this history: each call answered, at once and in order, the last word an assistant's."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if message.role is Role.TOOL:
            return False
        for call in message.tool_calls:
            if not rest or rest[0].role is not Role.TOOL or rest.pop(0).tool_call_id != call.id:
                return False
    return bool(messages) and messages[-1].role is Role.ASSISTANT


def _versions_change_by_migrations(events: Sequence[AgentEvent], turn: Turn) -> None:
    version = events[0].agent_version
    for event in events:
        if event.type is EventType.TURN_MIGRATED:
            assert event.data["from_version"] == version
            version = event.data["to_version"]
        assert event.agent_version == version
    assert version == turn.identity.agent_version


def _steps_come_in_pairs(events: Sequence[AgentEvent], turn: Turn) -> None:
    marks = [event for event in events if event.type in (EventType.STEP_STARTED, EventType.STEP_COMPLETED)]
    told = [(event.type, event.data["step"]) for event in marks]
    whole = [(t, n) for n in range(1, turn.step_count + 1) for t in (EventType.STEP_STARTED, EventType.STEP_COMPLETED)]
    assert told == (whole[:-1] if turn.step_open else whole)


def _the_state_is_whole(turn: Turn) -> None:
    assert turn.status.is_blocked == (turn.suspension is not None) == bool(turn.questions)
    assert turn.status.is_terminal == (turn.phase is AgentPhase.FINISHED) == (turn.ended_at is not None)
    assert not turn.step_open or turn.status is AgentStatus.RUNNING
    if turn.status.is_terminal:
        assert not turn.pending
        assert turn.asked is None
        assert accepted(turn.messages)
    if turn.phase is AgentPhase.MODEL:
        assert not turn.pending
    assert turn.step_open or {tool.name for tool in turn.resolved} <= {pending.call.name for pending in turn.pending}
    call_ids = [call.id for message in turn.messages for call in message.tool_calls]
    assert len(call_ids) == len({*call_ids})


def _what_was_started_is_never_denied(events: Sequence[AgentEvent], turn: Turn) -> None:
    """X3, P17: neither the model nor the log is told that nothing happened where something may have."""
    starts = (EventType.TOOL_STARTED, EventType.EXTERNAL_TOOL_REQUESTED)
    started = {event.data["tool_call_id"] for event in events if event.type in starts}
    for event in events:
        if event.type is EventType.TOOL_DENIED:
            assert event.data["started"] == (event.data["tool_call_id"] in started)
    for message in turn.own_messages:
        if message.role is Role.TOOL and message.tool_call_id in started:
            assert not message.content.startswith(("Not run", '{"status": "DENIED", "code"'))
            assert "Nothing was run" not in message.content


def _calls_are_answered(turn: Turn) -> None:
    """I1: answered at once and in call order, or still pending, and then in call order behind those that are."""
    messages = list(turn.messages)
    newest = next((n for n in reversed(range(len(messages))) if messages[n].tool_calls), None)
    if newest is None:
        return
    waiting = [pending.call.id for pending in turn.pending]
    behind = [message for message in messages[newest + 1 :] if message.role is Role.TOOL]
    assert [m.tool_call_id for m in behind] + waiting == [call.id for call in messages[newest].tool_calls]
    assert not waiting or messages[newest + 1 :] == behind, "nobody speaks between a call and its result"
    closed = [*messages[:newest], Message(role=Role.ASSISTANT)]
    assert accepted(closed)
