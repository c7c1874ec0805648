"""What this process knows of a store's turns: one entry a turn, as long as somebody holds it."""

import threading
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..core.turn import Turn
from .ports import AgentTurnStore
from .results import RecentValues
from .scribe import KnownTurn


class TurnRegistry:
    """The known turns of one store. A turn that nobody holds is forgotten; the store has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.recent = RecentValues()
        """What tools returned lately, as objects."""
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

    def __len__(self) -> int:
        """How many turns somebody holds."""
        return len(self._known)


_registries: WeakKeyDictionary[AgentTurnStore, TurnRegistry] = WeakKeyDictionary()
_lock = threading.Lock()


def registry_of(store: AgentTurnStore) -> TurnRegistry:
    """The one registry of this store in this process, whatever runners use it."""
    with _lock:
        return _registries.setdefault(store, TurnRegistry())
