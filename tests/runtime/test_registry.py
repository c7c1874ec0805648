"""One entry a turn, as long as somebody holds it."""

import gc
from dataclasses import replace
from datetime import UTC, datetime

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.turn import Turn, TurnIdentity
from agentflex_nb.runtime.registry import TurnRegistry, registry_of
from agentflex_nb.store.memory import MemoryStore


def a_turn(id="t1", **given) -> Turn:
    identity = TurnIdentity(
        id=id, root_turn_id=id, agent_id="a", agent_version="1", created_at=datetime(2026, 1, 1, tzinfo=UTC),
        policy=AgentExecutionPolicy(),
    )  # fmt: skip
    return Turn(identity=identity, **given)


def test_runners_of_one_store_share_a_registry_which_ends_with_the_store():
    store = MemoryStore()
    registry = registry_of(store)

    assert registry_of(store) is registry
    assert registry_of(MemoryStore()) is not registry


def test_what_is_known_of_a_turn_only_gets_newer():
    registry = TurnRegistry()
    known = registry.know(a_turn(version=3, sequence=10))

    assert registry.know(a_turn(version=2, sequence=99)) is known
    assert known.turn.version == 3
    registry.know(a_turn(version=3, sequence=11))
    assert known.turn.sequence == 11


def test_a_turn_that_nobody_holds_is_forgotten():
    registry = TurnRegistry()
    known = registry.know(a_turn())
    assert (registry.get("t1"), len(registry)) == (known, 1)

    del known
    gc.collect()

    assert (registry.get("t1"), len(registry)) == (None, 0)


def test_many_threads_get_the_same_entry(at_once):
    registry = TurnRegistry()

    def know():
        kept = [registry.know(a_turn(f"t{n}", version=n)) for n in range(200)]
        return [id(known) for known in kept], kept

    results = at_once(*[know] * 8)

    assert len({tuple(ids) for ids, _ in results}) == 1


def test_learning_from_many_threads_ends_with_the_newest(at_once):
    known = TurnRegistry().know(a_turn())
    turns = [replace(known.turn, version=version, sequence=version) for version in range(400)]

    at_once(*[lambda part=part: [known.learn(turn) for turn in turns[part::8]] for part in range(8)])

    assert known.turn.version == 399
