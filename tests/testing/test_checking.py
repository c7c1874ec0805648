"""`check`: silent where all is well; else it names the promise, the turns and the rows. Each is tried with a fault."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agentflex_nb as af
from agentflex_nb.core.events import AgentEvent, EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.turn import Turn
from agentflex_nb.experiments.checks import checks
from agentflex_nb.runtime.ports import StoredTurn
from agentflex_nb.testing import InvariantError, check

call = af.ScriptedModel.call


@af.tool
def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@af.tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


@af.tool
def ship(order: str) -> str:
    """Needs an address."""
    if af.AgentToolContext.current().form_data is None:
        raise af.FormRequired(ADDRESS.key, message="Where to?")
    return "shipped"


ADDRESS = af.AgentForm("address", "Where it goes", {"type": "object", "properties": {"city": {"type": "string"}}})
REPLY = [call("double", n=1), call("pay", amount=5), call("ship", order="O-1")]
AGENT = af.Agent("clerk", model=af.ScriptedModel(REPLY, "Done."), tools=[double, pay, ship], forms=[ADDRESS])


def play(runner: Any) -> None:
    """A turn that is approved and fills in a form, one that is cancelled, one that waits."""
    turn = runner.run(AGENT, "go")
    turn.approve()
    turn.submit({"city": "Oslo"})
    assert turn.text == "Done."
    runner.run(AGENT, "go").cancel("enough")
    runner.run(AGENT, "go")


@pytest.fixture
def runner() -> af.AgentRunner:
    runner = af.AgentRunner(af.MemoryStore())
    play(runner)
    return runner


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[af.Lab]:
    with af.Lab(tmp_path / "lab.duckdb", durability="process", display=False) as lab:
        play(lab)
        yield lab


def test_a_lab_its_runner_and_its_store_keep_their_promises(lab: af.Lab):
    """I1 to I7."""
    for subject in (lab, lab.runner, lab.store):
        check(subject)


def test_a_store_without_tables_is_read_turn_by_turn(runner: af.AgentRunner):
    """I1 to I7."""
    check(runner)
    check(runner.store)


def test_what_breaks_in_a_lab_is_named_with_its_turns_and_rows(lab: af.Lab):
    turn_id = lab.turns()["turn_id"].min()
    lab.sql("update turns set status = 'RUNNING' where turn_id = ?", [turn_id], write=True)

    with pytest.raises(InvariantError, match="no_turn_is_left_running") as error:
        check(lab)

    assert isinstance(error.value, AssertionError)
    assert error.value.turn_ids == [turn_id]
    [row] = error.value.broken["no_turn_is_left_running"]
    assert (row["turn_id"], row["status"]) == (turn_id, "RUNNING")
    assert turn_id in str(error.value)


def test_many_rows_are_carried_and_a_few_are_quoted():
    rows = [{"turn_id": f"t{n:02}"} for n in range(30)]

    error = InvariantError({"no_turn_is_left_running": rows})

    assert len(error.broken["no_turn_is_left_running"]) == len(error.turn_ids) == 30
    assert "t04" in str(error)
    assert "t05" not in str(error)
    assert "25 more" in str(error)


class Forged:
    """A store that shows what it has with one fault."""

    def __init__(
        self, store: Any, turn: Callable[[Turn], Turn], events: Callable[[list[AgentEvent]], list[AgentEvent]]
    ):
        self._store, self._turn, self._events = store, turn, events

    def find(self, statuses: Sequence[AgentStatus]) -> list[StoredTurn]:
        return [replace(stored, turn=self._turn(stored.turn)) for stored in self._store.find(statuses)]

    def events(self, turn_id: str, *, after: int = 0) -> list[AgentEvent]:
        return self._events(self._store.events(turn_id, after=after))


def same(value: Any) -> Any:
    return value


def changed(**fields: Any) -> Callable[[Turn], Turn]:
    return lambda turn: replace(turn, **fields)


def ended(**fields: Any) -> Callable[[Turn], Turn]:
    return lambda turn: replace(turn, **fields) if turn.status.is_terminal else turn


def without(*types: EventType) -> Callable[[list[AgentEvent]], list[AgentEvent]]:
    return lambda events: [event for event in events if event.type not in types]


def twice(type: EventType) -> Callable[[list[AgentEvent]], list[AgentEvent]]:
    return lambda events: [again for event in events for again in [event] * (1 + (event.type is type))]


def doubled_last(events: list[AgentEvent]) -> list[AgentEvent]:
    return [*events, replace(events[0], sequence=events[-1].sequence + 1)]


def not_running(events: list[AgentEvent]) -> list[AgentEvent]:
    def idle(event: AgentEvent) -> AgentEvent:
        return replace(event, data={**event.data, "status": "READY"}) if event.type == "MODEL_STARTED" else event

    return [idle(event) for event in events]


def results_swapped(turn: Turn) -> Turn:
    messages = list(turn.messages)
    places = [n for n, message in enumerate(messages) if message.role == "tool"]
    if len(places) > 1:
        messages[places[0]], messages[places[1]] = messages[places[1]], messages[places[0]]
    return replace(turn, messages=tuple(messages))


FAULTS = {
    "every_call_has_one_result": [
        (results_swapped, same),
        (lambda turn: replace(turn, pending=()), same),
        (lambda turn: replace(turn, messages=tuple(m for m in turn.messages if m.role != "tool")), same),
    ],
    "no_call_runs_twice": [(same, twice(EventType.TOOL_STARTED)), (same, without(EventType.TURN_RESUMED))],
    "no_turn_is_left_running": [(changed(status=AgentStatus.RUNNING), same)],
    "newest_snapshot_is_the_turn": [(changed(version=99), same), (same, without(EventType.SNAPSHOT_SAVED))],
    "history_can_go_on": [
        (ended(messages=()), same),
        (lambda turn: replace(turn, messages=turn.messages[:2]) if turn.status.is_terminal else turn, same),
    ],
    "one_final_event_comes_last": [(same, without(EventType.TURN_CANCELLED)), (same, doubled_last)],
    "log_tells_the_status": [(changed(status=AgentStatus.FAILED), same), (same, not_running)],
    "log_is_numbered_once": [(same, twice(EventType.MODEL_STARTED)), (same, twice(EventType.STEP_STARTED))],
}


def test_both_ways_to_check_know_the_same_promises():
    assert set(FAULTS) == set(checks())


@pytest.mark.parametrize(("name", "turn", "events"), [(name, *fault) for name in FAULTS for fault in FAULTS[name]])
def test_each_promise_is_missed_where_it_is_broken(runner: af.AgentRunner, name: str, turn: Any, events: Any):
    with pytest.raises(InvariantError) as error:
        check(Forged(runner.store, turn, events))

    assert name in error.value.broken
    assert all(row["turn_id"] in error.value.turn_ids for row in error.value.broken[name])
