"""Pieces of what a model streams, as they become whole again.

Rule: pieces are joined only within their block: one attempt's text, its reasoning, or the arguments of one call.
"""

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


class Joining:
    """An event on its way to somebody who is not there yet; pieces of the same block join it.

    Belongs to the one that holds it. A million pieces of a word each cost little more than their text.
    """

    __slots__ = ("_block", "_first", "_last", "_pieces")

    def __init__(self, event: AgentEvent) -> None:
        self._first = self._last = event
        self._block = block_of(event)
        self._pieces: list[str] = []

    def takes(self, event: AgentEvent) -> bool:
        """Join the event if it is a piece of the same block; else nothing happens."""
        if self._block is None or self._block != block_of(event):
            return False
        if not self._pieces:
            self._pieces.append(self._first.data["content"])
        self._pieces.append(event.data["content"])
        self._last = event
        return True

    @property
    def whole(self) -> AgentEvent:
        """All of it as one event, which stands where the last piece stood."""
        if not self._pieces:
            return self._first
        first, last = self._first, self._last
        named = {"name": first.data["name"]} if "name" in first.data else {}  # only a call's first piece has it
        return replace(last, data=FrozenDict({**last.data, **named, "content": "".join(self._pieces)}))
