import pytest

from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import KeptStoreContract


class TestLabStore(KeptStoreContract):
    def open(self, folder):
        return LabStore(folder / "lab.duckdb", "process")


class FoldsAtOnce:
    """A lab whose archive has everything before anything is asked: what has ended is never met in the live record."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        self._store.archive
        return getattr(self._store, name)


class TestLabStoreOutOfItsArchive(KeptStoreContract):
    def open(self, folder):
        return FoldsAtOnce(LabStore(folder / "lab.duckdb", "process"))
