"""The record in memory, for runs without a file.

Rule 1: it keeps the values themselves, since they cannot change: nothing is copied and nothing encoded.
Rule 2: one lock guards everything, and nothing slow happens under it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from threading import Lock
from typing import Any

from ..core.errors import ConversationBusyError, StoreError, TurnNotFoundError, VersionConflictError
from ..core.events import AgentEvent
from ..core.machine import AgentStatus
from ..core.messages import Message
from ..core.turn import Turn
from ..core.values import PackedValue
from ..runtime.ports import StoredTurn
from .values import pack, unpack


class _Record:
    """A turn's newest state and its log."""

    __slots__ = ("cancel_requested", "log", "reserved", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.log: list[AgentEvent] = []
        self.reserved = 0
        self.cancel_requested = False

    def add(self, events: Sequence[AgentEvent], reserved: int) -> None:
        self.log.extend(events)
        if reserved > self.reserved:
            self.reserved = reserved

    def stored(self) -> StoredTurn:
        return StoredTurn(
            turn=self.turn,
            cancel_requested=self.cancel_requested,
            reserved=self.reserved,
            logged=self.log[-1].sequence if self.log else 0,
        )


class MemoryStore:
    """Implements AgentTurnStore. What it acknowledges survives nothing but the threads: it ends with the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._records: dict[str, _Record] = {}
        self._results: dict[str, PackedValue] = {}  # call -> the whole value that it returned
        self._active: dict[str, str] = {}  # conversation -> the one turn of it that has not ended
        self._conversations: dict[str, list[tuple[str | None, Message]]] = {}

    def load(self, turn_id: str) -> StoredTurn | None:
        with self._lock:
            self._check_open()
            record = self._records.get(turn_id)
            return record.stored() if record else None

    def commit(
        self,
        turn: Turn,
        events: Sequence[AgentEvent],
        *,
        expected: int,
        reserved: int,
        results: Sequence[tuple[str, PackedValue]] = (),
    ) -> None:
        with self._lock:
            self._check_open()
            record = self._records.get(turn.id)
            if record is None:
                record = self._opened(turn, expected)
            elif record.turn.version != expected:
                raise VersionConflictError(turn.id, expected, record.turn.version)
            conversation_id = turn.identity.conversation_id
            if conversation_id is not None and turn.status.is_terminal:
                self._project(conversation_id, turn)
            record.turn = turn
            record.add(events, reserved)
            self._results.update(results)

    def append(self, turn_id: str, events: Sequence[AgentEvent], *, reserved: int) -> None:
        with self._lock:
            self._check_open()
            self._record(turn_id).add(events, reserved)

    def request_cancel(self, turn_id: str) -> bool:
        with self._lock:
            self._check_open()
            record = self._record(turn_id)
            first, record.cancel_requested = not record.cancel_requested, True
            return first

    def is_cancel_requested(self, turn_id: str) -> bool:
        self._check_open()
        record = self._records.get(turn_id)
        return record is not None and record.cancel_requested

    def find(self, statuses: Sequence[AgentStatus]) -> list[StoredTurn]:
        wanted = frozenset(statuses)
        with self._lock:
            self._check_open()
            found = [record.stored() for record in self._records.values() if record.turn.status in wanted]
        return sorted(found, key=lambda stored: stored.turn.identity.created_at)

    def events(self, turn_id: str, *, after: int = 0) -> list[AgentEvent]:
        with self._lock:
            self._check_open()
            record = self._records.get(turn_id)
            return record.log[bisect_right(record.log, after, key=lambda event: event.sequence) :] if record else []

    def active_turns(self, conversation_id: str) -> list[str]:
        with self._lock:
            self._check_open()
            active = self._active.get(conversation_id)
            return [active] if active else []

    def conversation(self, conversation_id: str) -> list[tuple[str | None, Message]]:
        with self._lock:
            self._check_open()
            return list(self._conversations.get(conversation_id, ()))

    def remember(self, conversation_id: str, messages: Sequence[Message]) -> None:
        with self._lock:
            self._check_open()
            self._conversations.setdefault(conversation_id, []).extend((None, message) for message in messages)

    def result(self, call_id: str) -> PackedValue | None:
        self._check_open()
        return self._results.get(call_id)

    def pack(self, value: Any) -> PackedValue | None:
        return pack(value)

    def unpack(self, packed: PackedValue) -> Any:
        return unpack(packed)

    def close(self) -> None:
        self._closed = True

    def _opened(self, turn: Turn, expected: int) -> _Record:
        if expected >= 0:
            raise VersionConflictError(turn.id, expected, None)
        conversation_id = turn.identity.conversation_id
        if conversation_id is not None:
            if active := self._active.get(conversation_id):
                raise ConversationBusyError(conversation_id, [active])
            self._active[conversation_id] = turn.id
        record = self._records[turn.id] = _Record(turn)
        return record

    def _project(self, conversation_id: str, turn: Turn) -> None:
        if self._active.get(conversation_id) == turn.id:
            del self._active[conversation_id]
            said = self._conversations.setdefault(conversation_id, [])
            said.extend((turn.id, message) for message in turn.own_messages)

    def _record(self, turn_id: str) -> _Record:
        record = self._records.get(turn_id)
        if record is None:
            raise TurnNotFoundError(turn_id)
        return record

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this memory store is closed: make a new one.")
