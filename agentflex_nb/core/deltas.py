"""Pieces of what a model streams, as they become whole again.

Rule: pieces are joined only within their block: one attempt's text, its reasoning, or the arguments of one call.
"""

from collections.abc import Sequence
from dataclasses import replace

from .events import AgentEvent, EventType
from .frozen import FrozenDict

DELTAS = frozenset(
    {EventType.MODEL_TEXT_DELTA, EventType.MODEL_REASONING_DELTA, EventType.MODEL_TOOL_CALL_DELTA},
)

Block = tuple[EventType, int, int | None]
"""What a piece belongs to: the kind, the attempt, and for a call its place in the reply."""


def block_of(event: AgentEvent) -> Block | None:
    """The block that the event is a piece of; None for an event that is no piece."""
    if event.type not in DELTAS:
        return None
    return event.type, event.data["attempt"], event.data.get("index")


def joined(first: AgentEvent, last: AgentEvent, pieces: Sequence[str]) -> AgentEvent:
    """The pieces of one block as one event, which stands where the last of them stood."""
    named = {"name": first.data["name"]} if "name" in first.data else {}  # only a call's first piece has it
    return replace(last, data=FrozenDict({**last.data, **named, "content": "".join(pieces)}))
