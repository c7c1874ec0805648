"""What the runtime needs from other rooms, as Protocols. They are implemented in store/ and models/ and by users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..core.events import AgentEvent
from ..core.machine import AgentStatus
from ..core.messages import Message
from ..core.turn import Turn
from ..core.values import PackedValue

AgentEventListener = Callable[[AgentEvent], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """A turn as the store has it."""

    turn: Turn
    cancel_requested: bool = False
    reserved: int = 0
    """The highest sequence number set aside for the turn; a runner that picks it up starts above."""
    logged: int = 0
    """The highest sequence number in the turn's log; 0 for an empty one."""


class AgentTurnStore(Protocol):
    """The record of turns. Every method may be called from any thread.

    What a method has done when it returns is done for good ("acknowledged"): it survives the process.
    """

    def load(self, turn_id: str) -> StoredTurn | None:
        """The newest state of a turn, or None."""
        ...

    def commit(
        self,
        turn: Turn,
        events: Sequence[AgentEvent],
        *,
        expected: int,
        reserved: int,
        results: Sequence[tuple[str, PackedValue]] = (),
    ) -> None:
        """Save a state and every event that led to it, in one transaction, if the stored version is `expected`.

        -1 expects that the turn is not stored; a first save yields version 0. `turn.version` is the new version.
        Messages are appended, not rewritten: only those beyond the ones already stored are written.
        A turn that ends is projected into its conversation (its own messages, once) in the same transaction.
        The cancel flag is left as it is. `results` are whole values that tools have returned, by call id.

        Raises:
            VersionConflictError: the stored version is another one; nothing was written.
            ConversationBusyError: a first save in a conversation that has another turn which has not ended.
            StoreError: it could not be written; nothing was written.
        """
        ...

    def append(self, turn_id: str, events: Sequence[AgentEvent], *, reserved: int) -> None:
        """Save events alone, without a new version, and set numbers up to `reserved` aside.

        Raises:
            StoreError: it could not be written; nothing was written.
        """
        ...

    def request_cancel(self, turn_id: str) -> bool:
        """Raise the turn's cancel flag; False if it was raised before. It never goes down.

        Raises:
            TurnNotFoundError: no such turn.
        """
        ...

    def is_cancel_requested(self, turn_id: str) -> bool:
        """Whether the flag is up; False for an unknown turn."""
        ...

    def find(self, statuses: Sequence[AgentStatus]) -> list[StoredTurn]:
        """The turns in one of these statuses, oldest first."""
        ...

    def events(self, turn_id: str, *, after: int = 0) -> list[AgentEvent]:
        """The turn's events with a sequence number above `after`, in order."""
        ...

    def active_turns(self, conversation_id: str) -> list[str]:
        """The ids of the conversation's turns that have not ended, oldest first."""
        ...

    def conversation(self, conversation_id: str) -> list[tuple[str | None, Message]]:
        """Every message of a conversation in order, each with the turn it came from (None: from outside a turn)."""
        ...

    def remember(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """Add messages to a conversation that belong to no turn."""
        ...

    def result(self, call_id: str) -> PackedValue | None:
        """The whole value that a call returned, if one was saved."""
        ...

    def pack(self, value: Any) -> PackedValue | None:
        """The value as it can be saved; None if it cannot be, or is too large. Raises nothing."""
        ...

    def unpack(self, packed: PackedValue) -> Any:
        """The value again.

        Raises:
            StoreError: its kind is not known here, or it cannot be read.
        """
        ...

    def close(self) -> None:
        """Finish what is under way and let go of files. A second call does nothing."""
        ...
