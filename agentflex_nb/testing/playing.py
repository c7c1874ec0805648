"""Driving the pure core by hand: inputs in, the turn and its whole log out."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..core.advance import advance, open_turn
from ..core.agent import AgentDefinition
from ..core.effects import Effect
from ..core.events import AgentEvent
from ..core.inputs import Input
from ..core.messages import Message, user
from ..core.turn import Turn, TurnIdentity
from .time import CountingClock


@dataclass(frozen=True, slots=True)
class Played:
    """What a row of inputs led to: the turn, every event in order, and what it asks for now."""

    turn: Turn
    events: tuple[AgentEvent, ...]
    effects: tuple[Effect, ...]

    @property
    def types(self) -> list[str]:
        """The names of the events, in order."""
        return [event.type.value for event in self.events]


def play(
    definition: AgentDefinition,
    *inputs: Input,
    messages: Iterable[Message] = (user("hello"),),
    streaming: bool = True,
    turn_id: str = "t1",
) -> Played:
    """Open a turn and say the inputs one after another, without a runner, a store or a clock."""
    clock = CountingClock()
    identity = TurnIdentity(
        id=turn_id,
        root_turn_id=turn_id,
        agent_id=definition.id,
        agent_version=definition.version,
        created_at=clock(),
        instructions=definition.instructions,
        policy=definition.execution_policy,
        streaming=streaming,
    )
    result = open_turn(definition, identity, tuple(messages), clock())
    events = list(result.events)
    for said in inputs:
        result = advance(definition, result.turn, said, clock())
        events += result.events
    return Played(result.turn, tuple(events), result.effects)
