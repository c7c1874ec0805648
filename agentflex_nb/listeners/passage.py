"""The way of events through a policy, one after another: a listener behind it hears only what it may.

Rule: where a policy must see texts whole, the pieces of a reply are held back until it has ended, and come as one; what
happens meanwhile comes after them, so that the order of the turn is kept.
"""

from functools import wraps

from ..core.deltas import Joining, block_of
from ..core.events import AgentEvent, EventType
from ..core.machine import AgentStatus
from ..runtime.ports import AgentEventListener
from .policy import DisplayPolicy

_ENDS = frozenset({EventType.MODEL_STARTED, EventType.MODEL_COMPLETED, EventType.MODEL_FAILED})


class Passage:
    """Events go in, and come out as they may be seen. Each listener needs one of its own.

    The events of one turn go in one at a time, in order; those of several turns may do so at once.
    """

    def __init__(self, policy: DisplayPolicy | None = None) -> None:
        self.policy = policy or DisplayPolicy()
        self._held: dict[str, list[Joining]] = {}

    def __call__(self, event: AgentEvent) -> tuple[AgentEvent, ...]:
        """What may be seen now: often the event itself, sometimes nothing, sometimes what was held back before it."""
        held: list[Joining] = []
        if self.policy.holds_back:
            if self._holds(event):
                return ()
            held = self._held.pop(event.turn_id, [])
        passing = [*sorted([joining.whole for joining in held], key=lambda event: event.sequence), event]
        return tuple([shown for each in passing if (shown := self.policy.apply(each, whole=True)) is not None])

    def _holds(self, event: AgentEvent) -> bool:
        """Hold the event back, if it is a piece of a reply, or happens while pieces are held."""
        held = self._held.get(event.turn_id)
        if block_of(event) is None:
            if held is None or event.type in _ENDS or event.data["status"] != AgentStatus.RUNNING:
                return False
            held.append(Joining(event))
        elif held is None:
            self._held[event.turn_id] = [Joining(event)]
        elif not any(joining.takes(event) for joining in held):
            held.append(Joining(event))
        return True


def filtered(listener: AgentEventListener, policy: DisplayPolicy) -> AgentEventListener:
    """The listener, told only what the policy lets pass.

    It goes by the listener's name, so a cell that is run twice registers it once.
    """
    passage = Passage(policy)

    @wraps(listener)
    def tell(event: AgentEvent) -> object:
        left: object = None
        for shown in passage(event):
            left = listener(shown)
        return left

    return tell
