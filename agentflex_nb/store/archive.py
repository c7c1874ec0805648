"""The archive: the DuckDB file of a lab, where everything that happened lies as tables.

Rule 1: every use has a cursor of its own, whose results are read to the end and which is closed: a cursor that two
threads share returns the other one's rows, and an open result keeps DuckDB from checkpointing.
Rule 2: what asks (`query`) runs in a transaction that cannot write; only the fold and `query(write=True)` write.
Rule 3: after a fork the child raises and closes nothing: closing would delete the parent's log.
"""

import ctypes
import difflib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from ..core.errors import LabLockedError, NewerFormatError, QueryError, StoreDamagedError, StoreError

SCHEMA = 2
"""Of the tables; one higher with every change that yesterday's code would misread."""

MEMORY = ":memory:"

_CONFIG: dict[str, Any] = {
    "storage_compatibility_version": "v1.5.0",  # readable by DuckDB 1.5 too
    "python_enable_replacements": "false",  # a query never meets a variable of whoever happens to call
    "autoinstall_known_extensions": "false",  # nothing is ever fetched from anywhere
    "checkpoint_threshold": "1TB",  # the fold checkpoints when nobody waits
    "wal_autocheckpoint_entries": "0",
    "memory_limit": "50%",
}
_READS = frozenset({"SELECT", "EXPLAIN", "MULTI"})  # MULTI: a PIVOT
# how a question begins, whatever is to be explained: EXPLAIN ANALYZE would run a COPY, and a PIVOT may stand in one
_ASKS = frozenset(
    ("select", "from", "with", "pivot", "unpivot", "values", "table", "describe", "desc", "show", "summarize", "(")
)

Params = Sequence[Any] | Mapping[str, Any] | None
Cursor = duckdb.DuckDBPyConnection
T = TypeVar("T")


@cache
def sql(name: str) -> str:
    """The text of sql/<name>.sql."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text("utf-8")


class Archive:
    """An open archive. Any thread may use it."""

    def __init__(self, path: str | os.PathLike[str] = MEMORY) -> None:
        """Open the file, or make it; ":memory:" keeps nothing.

        Raises:
            LabLockedError: another program has the file open.
            NewerFormatError: a newer version of this package made its tables.
            StoreDamagedError: it is no DuckDB file, or cannot be read.
            StoreError: it cannot be opened or written, or holds tables of the same names that are not a lab's.
        """
        self.path = str(path)
        self._ended = ""
        self._guard = threading.Lock()
        self._connection = self._connect()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        _open_archives.add(self)

    # -- asking --------------------------------------------------------------------------------------------------------

    def query(
        self, text: str, params: Params = None, *, tables: Mapping[str, Any] | None = None, write: bool = False
    ) -> pa.Table:
        """The result of one statement, whole. `params` fill `?` or `$name`; `tables` lends it DataFrames under names.

        Stops when the person at the kernel presses stop.

        Raises:
            QueryError: the statement cannot be answered: says what DuckDB found, and what it may have meant.
            StoreError: the archive is closed.
        """

        if not isinstance(text, str):
            raise QueryError(repr(text), f"{text!r} as a query", "pass SQL as text")

        def ask(cursor: Cursor) -> pa.Table:
            self._check(cursor, text, write)
            for name, table in (tables or {}).items():
                cursor.register(self._lent(name), table)
            cursor.execute("begin" if write else "begin transaction read only")
            relation = cursor.sql(text, params=_plain(params))
            answer = relation.to_arrow_table() if relation is not None else pa.table({})
            cursor.execute("commit")
            return answer

        with self.cursor() as cursor:
            try:
                return _interruptible(cursor, ask)
            except duckdb.Error as error:
                raise self._refusal(error, text) from error

    def rows(self, text: str, params: Params = None) -> list[tuple[Any, ...]]:
        """The rows of one of the package's own statements.

        Raises:
            StoreError: it could not be read.
        """
        with self.cursor() as cursor:
            try:
                return cursor.execute(text, params).fetchall()
            except duckdb.Error as error:
                raise fault(self.path, error) from error

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """A connection for one thread, until the block ends; what it has not committed by then is undone.

        Raises:
            StoreError: the archive is closed, or was forked with its process.
        """
        with self._guard:
            if self._ended:
                raise StoreError(f"{self.path} {self._ended}.")
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            if not self._ended.startswith("was forked"):
                cursor.close()

    # -- the file ------------------------------------------------------------------------------------------------------

    @property
    def log_bytes(self) -> int:
        """How much DuckDB has written beside the file since the last checkpoint."""
        with suppress(OSError):
            return Path(f"{self.path}.wal").stat().st_size  # never opened: closing it would drop DuckDB's lock
        return 0

    def checkpoint(self) -> bool:
        """Carry what lies beside the file into it. False if somebody is writing: try again later."""
        with self.cursor() as cursor:
            try:
                cursor.execute("checkpoint")
            except duckdb.TransactionException:
                return False
            except duckdb.Error as error:
                raise fault(self.path, error) from error
        return True

    def reopen(self) -> None:
        """Open the file anew, after a fault that DuckDB does not survive. What was committed stands."""
        with self._guard:
            self._connection.close()
            self._connection = self._connect()

    def close(self) -> None:
        """Let go of the file. A second call does nothing."""
        with self._guard:
            if not self._ended:
                self._ended = "is closed: open it again"
                self._connection.close()

    def _connect(self) -> Cursor:
        try:
            connection = duckdb.connect(self.path, config=_CONFIG)
        except duckdb.Error as error:
            raise fault(self.path, error) from error
        connection.execute("set global TimeZone = 'UTC'")
        return connection

    def _prepare(self) -> None:
        with self.cursor() as cursor:
            found = {name for (name,) in cursor.execute("select table_name from duckdb_tables()").fetchall()}
            ours = set(re.findall(r"^create table (\w+)", sql("schema"), flags=re.MULTILINE))
            if "lab" in found:
                version = cursor.execute("select value from lab where key = 'schema'").fetchall()
                if not version:
                    raise StoreDamagedError(self.path, "its table 'lab' names no schema", "choose another file")
                if int(version[0][0]) > SCHEMA:
                    raise NewerFormatError(self.path, int(version[0][0]), SCHEMA)
                for older in range(int(version[0][0]), SCHEMA):
                    self._upgrade(cursor, older)
            elif taken := sorted(found & ours):
                raise StoreError(f"{self.path} has tables of its own named {', '.join(taken)}: choose another file.")
            else:
                cursor.execute("begin")
                cursor.execute(sql("schema"))
                cursor.execute("insert into lab values ('schema', ?)", [str(SCHEMA)])
                cursor.execute("commit")
            cursor.execute(sql("views"))
        if self.log_bytes:
            self.checkpoint()  # a log that was replayed would be replayed again after the next crash

    @staticmethod
    def _upgrade(cursor: Cursor, schema: int) -> None:
        """Bring the tables of an earlier version to the next one, all of it or nothing."""
        cursor.execute("begin")
        cursor.execute(sql(f"upgrade_{schema}"))
        cursor.execute("update lab set value = ? where key = 'schema'", [str(schema + 1)])
        cursor.execute("commit")

    # -- refusing ------------------------------------------------------------------------------------------------------

    def _check(self, cursor: Cursor, text: str, write: bool) -> None:
        statements = cursor.extract_statements(text)
        if len(statements) != 1:
            raise QueryError(text, f"{len(statements)} statements", "one at a time")
        kind, word = statements[0].type.name, _first_word(text)
        if not write and (kind not in _READS or word not in _ASKS):
            met = f"a statement that may change something ({kind if kind not in _READS else word.upper()})"
            raise QueryError(text, met, "pass write=True if it should")

    def _lent(self, name: str) -> str:
        if not name.isidentifier() or name.lower() in self.names():
            raise QueryError(name, "a lent table without a name of its own", f"a name that is not {name!r}")
        return name

    def names(self) -> list[str]:
        """The tables and views that a query can name."""
        return [
            name
            for (name,) in self.rows("select table_name from information_schema.tables where table_schema = 'main'")
        ]

    def _refusal(self, error: duckdb.Error, text: str) -> Exception:
        said = str(error).split("\n\nLINE")[0]
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            return fault(self.path, error)
        if missing := re.search(r"Table with name (\S+) does not exist", said):
            near = difflib.get_close_matches(missing[1].lower(), self.names(), 1)
            mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(self.names()))}"
            return QueryError(
                text, f"no table or view {missing[1]}", f"{mend} A DataFrame is lent with tables={{name: df}}"
            )
        if "launched in read-only mode" in said:
            return QueryError(text, "a statement that may change something", "pass write=True if it should")
        return QueryError(text, said, "correct the query")


def fault(path: str, error: duckdb.Error) -> StoreError:
    """What a fault of DuckDB means to whoever uses the file."""
    said = str(error).splitlines()[0]
    if held := re.search(r"Conflicting lock is held in (.*?) ?\(PID (\d+)\)", said):
        return LabLockedError(
            path, f"process {held[2]} ({Path(held[1]).name})", "close the file there, or end that process"
        )
    for pattern, mend in _DAMAGE:
        if re.search(pattern, said):
            return StoreDamagedError(path, said, mend)
    for pattern, mend in _MENDS:
        if re.search(pattern, said):
            return StoreError(f"{path}: {said}; {mend}.")
    return StoreError(f"{path}: {said}; nothing was written, and what was stands.")


def _first_word(text: str) -> str:
    """How a statement begins, without comments and without EXPLAIN and its options."""
    data = text.encode()
    tokens = [at for at, kind in duckdb.tokenize(text) if kind.name != "comment"]
    words = [_WORD.match(data, at) for at in tokens]
    read = [word.group().decode().lower() if word else "" for word in words]
    while read and read[0] == "explain":
        read = read[1:]
        if read and read[0] == "analyze":
            read = read[1:]
        elif read and read[0] == "(":
            read = read[read.index(")") + 1 :] if ")" in read else []
    return read[0] if read else ""


_WORD = re.compile(rb"\w+|\(|\)")

# what DuckDB says -> what to do
_KEEP = "keep a copy of it and of the .wal beside it, then restore the last good one or choose another file"
_DAMAGE = (
    (r"not a valid DuckDB database file|sqlite_scanner", "it is another kind of file: choose another path"),
    (r"Corrupt|replaying WAL", _KEEP),
)
_MENDS = (
    (
        r"Read-only file system|Permission denied|Cannot open file .*: Permission",
        "allow writing here, or choose another place",
    ),
    (r"No such file or directory", "make its folder first, or choose another place"),
    (r"Is a directory", "give the name of a file"),
    (r"No space left", "free some space; nothing is lost, and it goes on by itself"),
    (r"has been invalidated", "it is opened again by itself; what was committed stands"),
)


def _plain(value: Any) -> Any:
    """A parameter as DuckDB knows it: scalars of array libraries, enums and sets are unwrapped."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        return value.item()
    return value


def _interruptible(cursor: Cursor, work: Callable[[Cursor], T]) -> T:
    """Do the work in a thread: a DuckDB call in the main thread often does not hear Ctrl-C."""
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()  # join() of Python 3.11 takes an interrupted wait for the thread's end

    def run() -> None:
        try:
            results.append(work(cursor))
        except BaseException as error:  # carried over to whoever waits below
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="agentflex-query").start()
    try:
        while not done.wait(1.0):
            pass
    except KeyboardInterrupt:
        cursor.interrupt()
        while not done.wait(0.05):
            cursor.interrupt()  # again: the first one may have come before there was anything to stop
        raise
    if errors:
        raise errors[0]
    return results[0]


_open_archives: "weakref.WeakSet[Archive]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for archive in list(_open_archives):
        archive._ended = (
            "was forked with its process, and a child may not use it: open it in the child (spawn, not fork)"
        )
        archive._guard = threading.Lock()  # the parent's threads, who may have held it, are not here
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(archive._connection))  # never collected, so never closed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
