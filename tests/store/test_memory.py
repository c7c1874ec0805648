from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing.store_contract import StoreContract, Tale, loaded


class TestMemoryStore(StoreContract):
    def open(self, folder):
        return MemoryStore()


def test_it_keeps_the_values_themselves():
    """TR1: nothing is copied and nothing encoded."""
    store = MemoryStore()

    tale = Tale(store).step()

    assert loaded(store).turn is tale.turn
    assert store.events("t1")[0] is tale.events[0]
