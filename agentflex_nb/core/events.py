"""What happened. Events are immutable, numbered within their turn, and carry only JSON data."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .frozen import FrozenDict


class EventType(StrEnum):
    """Every kind of event; the words are the same in Python, in SQL and on the page."""

    TURN_STARTED = "TURN_STARTED"
    TURN_COMPLETED = "TURN_COMPLETED"
    TURN_FAILED = "TURN_FAILED"
    TURN_CANCELLED = "TURN_CANCELLED"
    TURN_SUSPENDED = "TURN_SUSPENDED"
    TURN_RESUMED = "TURN_RESUMED"
    TURN_MIGRATED = "TURN_MIGRATED"
    CANCELLATION_REQUESTED = "CANCELLATION_REQUESTED"
    SNAPSHOT_SAVED = "SNAPSHOT_SAVED"

    STEP_STARTED = "STEP_STARTED"
    STEP_COMPLETED = "STEP_COMPLETED"
    MAX_STEPS_REACHED = "MAX_STEPS_REACHED"

    MODEL_STARTED = "MODEL_STARTED"
    MODEL_TEXT_DELTA = "MODEL_TEXT_DELTA"
    MODEL_REASONING_DELTA = "MODEL_REASONING_DELTA"
    MODEL_TOOL_CALL_DELTA = "MODEL_TOOL_CALL_DELTA"
    MODEL_COMPLETED = "MODEL_COMPLETED"
    MODEL_FAILED = "MODEL_FAILED"
    MAX_ITERATIONS_REACHED = "MAX_ITERATIONS_REACHED"

    TOOL_STARTED = "TOOL_STARTED"
    TOOL_PROGRESS = "TOOL_PROGRESS"
    TOOL_COMPLETED = "TOOL_COMPLETED"
    TOOL_FAILED = "TOOL_FAILED"
    TOOL_DENIED = "TOOL_DENIED"
    TOOL_INTERRUPTED = "TOOL_INTERRUPTED"
    TOOL_APPROVAL_REQUESTED = "TOOL_APPROVAL_REQUESTED"
    TOOL_INPUT_REQUESTED = "TOOL_INPUT_REQUESTED"
    EXTERNAL_TOOL_REQUESTED = "EXTERNAL_TOOL_REQUESTED"
    EXTERNAL_TOOL_COMPLETED = "EXTERNAL_TOOL_COMPLETED"
    EXTERNAL_TOOL_FAILED = "EXTERNAL_TOOL_FAILED"
    EXTERNAL_TOOL_CANCEL_REQUESTED = "EXTERNAL_TOOL_CANCEL_REQUESTED"

    CHILD_STARTED = "CHILD_STARTED"
    PLAN_CREATED = "PLAN_CREATED"
    PLAN_UPDATED = "PLAN_UPDATED"
    TASK_STARTED = "TASK_STARTED"
    TASK_COMPLETED = "TASK_COMPLETED"
    TASK_FAILED = "TASK_FAILED"

    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"

    CONTEXT_COMPRESSION_STARTED = "CONTEXT_COMPRESSION_STARTED"
    CONTEXT_COMPRESSION_COMPLETED = "CONTEXT_COMPRESSION_COMPLETED"
    CONTEXT_COMPRESSION_FAILED = "CONTEXT_COMPRESSION_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """One thing that happened in a turn. (turn_id, sequence) is its identity, its order and its key in the store."""

    turn_id: str
    root_turn_id: str
    parent_turn_id: str | None
    agent_id: str
    agent_version: str
    sequence: int
    """1 for the first event of a turn, growing by one."""
    type: EventType
    occurred_at: datetime
    """Aware, in UTC."""
    data: FrozenDict
    """Always status, phase, step_count, max_steps; beside them what the type says (docs/glossary.md)."""

    @property
    def event_id(self) -> str:
        """The event's id in one word: the turn's id and the sequence number."""
        return f"{self.turn_id}:{self.sequence}"
