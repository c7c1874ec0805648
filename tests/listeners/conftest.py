"""Turns for listeners, told by a real runner on a clock that counts."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentflex_nb.core.events import AgentEvent
from agentflex_nb.core.messages import Usage
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.handle import AgentTurn
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing import CountingClock, check, counting_ids

call = ScriptedModel.call


class Stage:
    """A runner, its clock, and every event that it told."""

    def __init__(self) -> None:
        self.clock = CountingClock()
        self.store = MemoryStore()
        self.heard: list[AgentEvent] = []
        self._new_id = counting_ids("t")
        self.runner = self.another_runner()
        self.runner.add_event_listener(self.heard.append)
        clock = self.clock

        @tool
        def lookup(order: str) -> str:
            """Look an order up, in two seconds."""
            clock.advance(1)
            AgentToolContext.current().emit_progress("reading", order=order, page=4111)
            clock.advance(1)
            return f"order {order} of ann@example.org"

        @tool(approval=True)
        def refund(order: str, amount: float) -> str:
            """Refund an order, in four seconds."""
            clock.advance(4)
            return f"{amount} sent"

        @tool
        def explode(order: str) -> str:
            """Fail."""
            raise LookupError(f"no {order} at 10.0.0.7")

        self.tools = [lookup, refund, explode]

    def another_runner(self) -> AgentRunner:
        """Of another process, as it were: it has heard nothing."""
        loader = self.runner.loader if hasattr(self, "runner") else None
        return AgentRunner(
            self.store, loader=loader, clock=self.clock, monotonic=self.clock.monotonic, wait=self.clock.wait,
            new_id=self._new_id,
        )  # fmt: skip

    def agent(self, *replies: Any, **given: Any) -> Agent:
        """An agent whose model takes three seconds for each of these replies."""

        def reply(request: Any) -> Any:
            self.clock.advance(3)
            return replies[sum(message.role == "assistant" for message in request.messages)]

        model = ScriptedModel(reply, name="m1", usage=Usage(input_tokens=100, output_tokens=10))
        return Agent("shop", **{"model": model, "tools": self.tools, "version": "v1", **given})

    def run(self, *replies: Any, streaming: bool = True, **given: Any) -> AgentTurn:
        """A turn of such an agent."""
        return self.runner.run(self.agent(*replies, **given), "go", options=AgentTurnOptions(streaming=streaming))


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    check(stage.runner)
