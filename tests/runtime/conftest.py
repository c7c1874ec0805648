"""A desk to work at: a store, a runner, what its listener heard. As a test ends, the invariants I1 to I7 must hold."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentflex_nb.core.events import AgentEvent, EventType
from agentflex_nb.core.machine import AgentStatus, replay
from agentflex_nb.core.messages import Message, Role
from agentflex_nb.core.turn import Turn
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.handle import AgentTurn
from agentflex_nb.runtime.ports import AgentTurnStore
from agentflex_nb.runtime.registry import registry_of
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing import CountingClock, counting_ids

FINAL = {
    EventType.TURN_COMPLETED,
    EventType.TURN_FAILED,
    EventType.TURN_CANCELLED,
    EventType.MAX_ITERATIONS_REACHED,
    EventType.MAX_STEPS_REACHED,
    EventType.BUDGET_EXCEEDED,
}
STEPS = {EventType.STEP_STARTED, EventType.STEP_COMPLETED}
WHOLE = AgentTurnOptions(streaming=False)


class Desk:
    """A store, a runner on it, and what a listener of that runner heard."""

    def __init__(self, store: AgentTurnStore) -> None:
        self.store = store
        self.clock = CountingClock()
        self.heard: list[AgentEvent] = []
        self.handles: list[AgentTurn] = []
        self.unfinished: set[str] = set()
        """Turns that a test leaves as a crash would."""
        self.conversations = 0
        self._new_id = counting_ids("t")
        self.runner = self.another_runner(listeners=[self.heard.append])

    def another_runner(self, **given: Any) -> AgentRunner:
        """A runner on the same store, with the same agents unless a loader is given."""
        if hasattr(self, "runner"):
            given.setdefault("loader", self.runner.loader)
        given = {"clock": self.clock, "wait": self.clock.wait, "new_id": self._new_id, **given}
        return AgentRunner(given.pop("store", self.store), **given)

    def agent(self, *replies: Any, id: str = "shop", **given: Any) -> Agent:
        """An agent whose model says these replies."""
        return Agent(id, model=given.pop("model", None) or ScriptedModel(*replies), **given)

    def run(self, *replies: Any, input: Any = "go", options: AgentTurnOptions = WHOLE, **given: Any) -> AgentTurn:
        """Run a turn of such an agent in a conversation of its own."""
        turn = self.runner.create(
            self.agent(*replies, **given), input, conversation_id=self.conversation(), options=options
        )
        self.handles.append(turn)
        return self.runner.run_until_blocked(turn)

    def conversation(self) -> str:
        """The name of a new conversation."""
        self.conversations += 1
        return f"c{self.conversations}"

    def forget_values(self) -> None:
        """As a new kernel: what tools returned is no longer at hand as objects."""
        registry_of(self.store).recent.clear()

    def log(self, turn: AgentTurn) -> list[str]:
        """The types of the turn's events, as they are saved."""
        return [event.type.value for event in self.store.events(turn.id)]

    def events(self, turn: AgentTurn, type: EventType) -> list[AgentEvent]:
        """The saved events of one type."""
        return [event for event in self.store.events(turn.id) if event.type is type]

    def check(self) -> None:
        """I1 to I7, for every turn of the store, read from the store."""
        for stored in self.store.find(list(AgentStatus)):
            turn, events = stored.turn, self.store.events(stored.turn.id)
            if turn.id not in self.unfinished:
                check_log(turn, events)
                assert turn.status.is_terminal or turn.status.is_blocked or turn.status is AgentStatus.READY, "I3"
                check_history(turn)
        for handle in self.handles:
            if handle.id not in self.unfinished:
                stored = self.store.load(handle.id)
                assert stored is not None
                assert stored.turn == handle.to_snapshot(), "I4"
        for number in range(1, self.conversations + 1):
            if not self.store.active_turns(f"c{number}") and self.store.conversation(f"c{number}"):
                follow_up = self.agent("Still here.", id="follower")
                turn = self.another_runner().run(follow_up, "and now?", conversation_id=f"c{number}")
                assert turn.text == "Still here.", "I5"


def check_log(turn: Turn, events: list[AgentEvent]) -> None:
    """I6 and I7; and E3: numbers grow by one, unless the turn was picked up after a crash."""
    finals = [n for n, event in enumerate(events) if event.type in FINAL]
    assert len(finals) == turn.status.is_terminal, "I6: one final event"
    assert not finals or not any(event.type in STEPS for event in events[finals[0] :]), "I6: no step after it"
    assert replay(events) is turn.status, "I7"
    numbers = [event.sequence for event in events]
    gaps = [(a, b) for a, b in pairwise(numbers) if b - a != 1]
    assert all(b - a >= 500 for a, b in gaps), f"E3: {numbers}"
    opened: list[int] = [event.data["step"] for event in events if event.type is EventType.STEP_STARTED]
    closed: list[int] = [event.data["step"] for event in events if event.type is EventType.STEP_COMPLETED]
    assert closed == sorted(set(closed)), "E6: no step number comes twice"
    assert gaps or opened == closed or turn.status is AgentStatus.RUNNING, "E6: steps come in pairs"


def check_history(turn: Turn) -> None:
    """I1: every call has one result, after its message and in order, or waits."""
    pending = {pending.call.id for pending in turn.pending}
    expected: list[str] = []
    for message in turn.messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id == expected.pop(0), "I1: results come in the order of the calls"
        else:
            assert not expected, "I1: a call has no result"
            expected = [call.id for call in message.tool_calls]
    assert set(expected) <= pending, "I1: a call has neither a result nor waits"
    if turn.status.is_terminal:
        last: Message = turn.messages[-1]
        assert (last.role, pending, turn.suspension) == (Role.ASSISTANT, set(), None)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentTurnStore]:
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "turns.sqlite", "process")
    yield store
    store.close()


@pytest.fixture
def desk(store: AgentTurnStore) -> Iterator[Desk]:
    desk = Desk(store)
    yield desk
    desk.check()


@pytest.fixture
def memory_desk() -> Iterator[Desk]:
    """For what no store can change."""
    desk = Desk(MemoryStore())
    yield desk
    desk.check()


@pytest.fixture
def at_once() -> Callable[..., list[Any]]:
    """Run functions in threads that start together; what each returned or raised, in order."""

    def run(*functions: Callable[[], Any], seconds: float = 20) -> list[Any]:
        barrier, results = threading.Barrier(len(functions)), [None] * len(functions)

        def work(number: int, function: Callable[[], Any]) -> None:
            barrier.wait()
            try:
                results[number] = function()
            except BaseException as error:
                results[number] = error

        threads = [
            threading.Thread(target=work, args=(n, function), daemon=True) for n, function in enumerate(functions)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)
            assert not thread.is_alive(), "a thread hangs"
        return results

    return run
