from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import KeptStoreContract
class TestSqliteStore(KeptStoreContract):
    def open(self, folder):
        return SqliteStore(folder / "live.db")
