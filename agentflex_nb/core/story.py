"""The one mutable thing of the core: a turn while `advance` tells what happens to it. It never outlives the call."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .agent import AgentDefinition, ToolDefinition
from .effects import Effect
from .events import AgentEvent, EventType
from .frozen import FrozenDict
from .machine import AgentStatus, follow
from .messages import Message
from .turn import PendingCall, Turn
from .values import PackedValue


@dataclass(frozen=True, slots=True)
class Advance:
    """What one input led to: the next turn, what happened, and what must be done before it can go on."""

    turn: Turn
    events: tuple[AgentEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    commits: bool = False
    """Whether the turn must be saved, with these events, before anything is published or performed."""
    kept: tuple[tuple[str, PackedValue], ...] = ()
    """Whole results by call id, to be saved with it."""


class Story:
    """The fields of a turn, open for change, and the events told so far."""

    def __init__(self, definition: AgentDefinition, turn: Turn, now: datetime) -> None:
        self.definition, self.now = definition, now
        self.identity = turn.identity
        self.status, self.phase = turn.status, turn.phase
        self.version, self.sequence = turn.version, turn.sequence
        self.step_count, self.step_open = turn.step_count, turn.step_open
        self.iteration_count, self.tool_call_count = turn.iteration_count, turn.tool_call_count
        self.attempt = turn.attempt
        self.started_at, self.ended_at = turn.started_at, turn.ended_at
        self.messages, self.pending, self.resolved = turn.messages, turn.pending, turn.resolved
        self.suspension, self.asked, self.answers = turn.suspension, turn.asked, turn.answers
        self.migrations = turn.migrations
        self.usage, self.cancel, self.interrupt = turn.usage, turn.cancel, turn.interrupt
        self.active_seconds, self.seen_at = turn.active_seconds, turn.seen_at
        if turn.status is AgentStatus.RUNNING and turn.seen_at is not None and now > turn.seen_at:
            self.active_seconds += (now - turn.seen_at).total_seconds()
            self.seen_at = now
        self.output, self.finish_reason, self.error = turn.output, turn.finish_reason, turn.error
        self.saved = False
        self.events: list[AgentEvent] = []
        self.kept: tuple[tuple[str, PackedValue], ...] = ()

    def tool(self, name: str) -> ToolDefinition | None:
        """The tool of this name, the agent's own or one that was resolved for this turn."""
        known = self.definition.tool_by_name.get(name)
        return known or next((tool for tool in self.resolved if tool.name == name), None)

    def tell(self, type: EventType, waits_for: str = "", /, **data: Any) -> None:
        """Something happened: the status follows, the event gets its number. The data must be frozen.

        Data of the same name as the event's own fields gives way to them.
        """
        self.status = follow(self.status, type, waits_for)
        self.sequence += 1
        self.events.append(event_of(self, type, self.sequence, self.now, data))

    def save(self) -> None:
        """Tell that the state is saved, once: the event stands in the commit that it announces."""
        if not self.saved:
            self.saved = True
            self.version += 1
            self.tell(EventType.SNAPSHOT_SAVED, version=self.version)

    def say(self, *messages: Message) -> None:
        """Add to the history."""
        self.messages = (*self.messages, *messages)

    def put(self, pending: PendingCall) -> None:
        """Replace the waiting call of the same id."""
        self.pending = tuple([pending if known.call.id == pending.call.id else known for known in self.pending])

    def forget_uncalled(self) -> None:
        """Of the tools that were resolved, keep those that waiting calls name."""
        names = {pending.call.name for pending in self.pending}
        self.resolved = tuple([tool for tool in self.resolved if tool.name in names])

    def end(self, *effects: Effect) -> Advance:  # every field of a turn stands here and in __init__
        """The turn as it stands now, and what to do next."""
        if self.resolved and not self.step_open:
            self.forget_uncalled()  # nobody can call the others any more
        turn = Turn(
            identity=self.identity, status=self.status, phase=self.phase, version=self.version, sequence=self.sequence,
            step_count=self.step_count, step_open=self.step_open, iteration_count=self.iteration_count,
            tool_call_count=self.tool_call_count, attempt=self.attempt, started_at=self.started_at,
            messages=self.messages, pending=self.pending, resolved=self.resolved,
            suspension=self.suspension, asked=self.asked, answers=self.answers, migrations=self.migrations,
            usage=self.usage, cancel=self.cancel, output=self.output,
            finish_reason=self.finish_reason, error=self.error, ended_at=self.ended_at, interrupt=self.interrupt,
            active_seconds=self.active_seconds,
            seen_at=(self.seen_at or self.now) if self.status is AgentStatus.RUNNING else None,
        )  # fmt: skip
        return Advance(turn, tuple(self.events), effects, self.saved, self.kept)


def event_of(turn: Turn | Story, type: EventType, sequence: int, at: datetime, data: Mapping[str, Any]) -> AgentEvent:
    """An event of a turn as it stands, with the data that every event has beside its own."""
    identity = turn.identity
    return AgentEvent(
        turn_id=identity.id,
        root_turn_id=identity.root_turn_id,
        parent_turn_id=identity.parent_turn_id,
        agent_id=identity.agent_id,
        agent_version=identity.agent_version,
        sequence=sequence,
        type=type,
        occurred_at=at,
        data=FrozenDict(
            {
                **data,
                "status": turn.status._value_,
                "phase": turn.phase._value_,
                "step_count": turn.step_count,
                "max_steps": identity.policy.max_steps,
            }
        ),
    )
