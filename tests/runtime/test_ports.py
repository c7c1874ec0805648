"""The runtime's own idea of a store, and the stores that there are."""

import inspect

import pytest

from agentflex_nb.runtime.ports import AgentTurnStore
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore

VERBS = [name for name, value in vars(AgentTurnStore).items() if inspect.isfunction(value) and name[0] != "_"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("store", [MemoryStore, SqliteStore])
def test_a_store_takes_what_the_runtime_gives(store, verb):
    expected = inspect.signature(getattr(AgentTurnStore, verb)).parameters

    assert [(p.name, p.kind) for p in inspect.signature(getattr(store, verb)).parameters.values()] == [
        (p.name, p.kind) for p in expected.values()
    ]


def test_the_port_names_every_verb_that_the_runtime_uses():
    assert {"load", "commit", "append", "request_cancel", "is_cancel_requested", "events", "close"} <= set(VERBS)
