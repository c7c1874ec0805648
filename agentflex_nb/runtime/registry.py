"""What this process knows of a store's turns: the newest state of each, its mailbox, and who drives it now."""

import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..core.turn import Turn
from .ports import AgentTurnStore
from .publisher import Mailbox

if TYPE_CHECKING:
    from .drive import Drive


class KnownTurn:
    """One turn, as this process knows it. Handles and drives of the same turn share it."""

    __slots__ = ("__weakref__", "changed", "drive", "mailbox", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.mailbox = Mailbox()
        self.drive: Drive | None = None
        self.changed = threading.Condition()

    def learn(self, turn: Turn) -> None:
        """Keep the newer state."""
        if (turn.version, turn.sequence) >= (self.turn.version, self.turn.sequence):
            self.turn = turn

    def take(self, drive: "Drive") -> bool:
        """Make it the one that drives the turn; False if another one does."""
        with self.changed:
            if self.drive is not None:
                return False
            self.drive = drive
            return True

    def release(self, drive: "Drive") -> None:
        """The drive is over."""
        with self.changed:
            if self.drive is drive:
                self.drive = None
                self.changed.notify_all()

    def wait(self, timeout: float | None) -> bool:
        """Wait until nobody drives the turn; False if time ran out."""
        with self.changed:
            return self.changed.wait_for(lambda: self.drive is None, timeout)


class TurnRegistry:
    """The known turns of one store. A turn that nobody holds is forgotten; the store has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, KnownTurn] = WeakValueDictionary()

    def know(self, turn: Turn) -> KnownTurn:
        """The shared entry of this turn, brought up to date."""
        with self._lock:
            known = self._known.get(turn.id)
            if known is None:
                known = self._known[turn.id] = KnownTurn(turn)
        known.learn(turn)
        return known

    def get(self, turn_id: str) -> KnownTurn | None:
        """The entry, if somebody holds it."""
        return self._known.get(turn_id)


_registries: WeakKeyDictionary[AgentTurnStore, TurnRegistry] = WeakKeyDictionary()
_lock = threading.Lock()


def registry_of(store: AgentTurnStore) -> TurnRegistry:
    """The one registry of this store in this process, whatever runners use it."""
    with _lock:
        return _registries.setdefault(store, TurnRegistry())
