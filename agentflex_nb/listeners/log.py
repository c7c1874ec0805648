"""Events in the standard `logging`: one record an event, one line a record.

Rule: a message is written by us. Text from outside stands in quotes, its quotes and control characters escaped, so that
it can neither end a line nor pretend to be a field.
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..core.deltas import DELTAS
from ..core.events import AgentEvent, EventType
from .passage import Passage
from .policy import DisplayPolicy

_LONGEST = 200  # characters of one text in a message; all of it stands in the record's `event_data`
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+-]+")

_LEVELS: Mapping[EventType, int] = {
    **dict.fromkeys(DELTAS, logging.DEBUG),
    EventType.SNAPSHOT_SAVED: logging.DEBUG,
    EventType.TOOL_PROGRESS: logging.DEBUG,
    EventType.MODEL_FAILED: logging.WARNING,
    EventType.TOOL_FAILED: logging.WARNING,
    EventType.EXTERNAL_TOOL_FAILED: logging.WARNING,
    EventType.TASK_FAILED: logging.WARNING,
    EventType.CONTEXT_COMPRESSION_FAILED: logging.WARNING,
    EventType.RETRY_SCHEDULED: logging.WARNING,
    EventType.MAX_STEPS_REACHED: logging.WARNING,
    EventType.MAX_ITERATIONS_REACHED: logging.WARNING,
    EventType.BUDGET_EXCEEDED: logging.WARNING,
    EventType.TURN_FAILED: logging.ERROR,
}
"""Events that are no everyday matter, or less than that."""


class LogListener:
    """Writes a record for each event; add it to a runner or a lab.

    A record's message is short; its attributes hold the rest: `event_type`, `turn_id`, `root_turn_id`,
    `parent_turn_id`, `agent_id`, `agent_version`, `sequence`, `occurred_at`, `turn_status` and `event_data`.

    Args:
        logger: Where the records go; by default "agentflex_nb.events".
        level: Of everyday events. Pieces of text, progress and saves are DEBUG, what failed is WARNING, a failed turn
            ERROR.
        policy: What may be logged; by default everything.
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, level: int = logging.INFO, policy: DisplayPolicy | None = None
    ) -> None:
        self._logger = logger or logging.getLogger("agentflex_nb.events")
        self._level = level
        self._passage = Passage(policy)

    def __call__(self, event: AgentEvent) -> None:
        """Log the event."""
        for shown in self._passage(event):
            level = _LEVELS.get(shown.type, self._level)
            if self._logger.isEnabledFor(level):
                self._logger.log(level, "%s", _message(shown), extra=_fields(shown))


class JsonLines(logging.Formatter):
    """Each record as one JSON object on a line of its own, a record of an event with all of its attributes."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in record.__dict__.items() if name in _FIELDS}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


_FIELDS = frozenset(
    {"event_type", "turn_id", "root_turn_id", "parent_turn_id", "agent_id", "agent_version", "sequence",
     "occurred_at", "turn_status", "event_data"}
)  # fmt: skip


def _fields(event: AgentEvent) -> dict[str, Any]:
    return {
        "event_type": event.type.value,
        "turn_id": event.turn_id,
        "root_turn_id": event.root_turn_id,
        "parent_turn_id": event.parent_turn_id,
        "agent_id": event.agent_id,
        "agent_version": event.agent_version,
        "sequence": event.sequence,
        "occurred_at": event.occurred_at.isoformat(),
        "turn_status": event.data["status"],
        "event_data": event.data,
    }


def _message(event: AgentEvent) -> str:
    data = event.data
    told = {"turn": event.turn_id, "agent": event.agent_id, "seq": event.sequence, "status": data["status"]}
    told |= {word: data[name] for name, word in _TOLD.items() if data.get(name)}
    if isinstance(error := data.get("error"), Mapping):
        told |= {"error": error["kind"], "said": error["message"]}
    return " ".join([event.type.value, *(f"{word}={_quoted(value)}" for word, value in told.items())])


# what a message tells of an event's data, where it is there -> under which name
_TOLD = {"tool_name": "tool", "tool_call_id": "call", "message": "message", "reason": "reason", "version": "version"}


def _quoted(value: object) -> str:
    """The value as it can stand in a line: in quotes, unless it is a plain word."""
    text = str(value)
    if _PLAIN.fullmatch(text) and len(text) <= _LONGEST:
        return text
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    escaped = short.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped]) + '"'
