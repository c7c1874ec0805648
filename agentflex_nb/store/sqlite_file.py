"""One SQLite file: who may write and when, what its faults mean, and which version its tables have.

Rule 1: one connection writes. Writers who come while it is busy are written together by the first of them, in one
transaction with one sync; nobody ever waits for company, and nothing but SQLite runs meanwhile.
Rule 2: a reader has a connection to itself, and sees one state of the file until it is done.
Rule 3: after a fork the child raises and closes nothing: closing would act on files that are the parent's.
"""

import os
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Literal, TypeVar

from ..core.errors import AgentFlexError, InvalidValueError, NewerFormatError, StoreDamagedError, StoreError

Durability = Literal["power", "process"]

_SYNCHRONOUS = {"power": "full", "process": "normal"}
_BUSY_SECONDS = 30.0
_BUSY_PAUSE = 0.002
_PAGE_BYTES = 512  # a commit touches a dozen pages and writes each whole; larger ones cost as much time and more disk
_CHECKPOINT_BYTES = 4_000_000
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")

# SQLite's word for a fault -> what to do about it
_MENDS = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and run the turn again",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only: allow writing, or choose another place",
    sqlite3.SQLITE_PERM: "the file may not be opened: allow it, or choose another place",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: see that its folder exists and may be written",
    sqlite3.SQLITE_BUSY: f"another process has been writing for more than {_BUSY_SECONDS:.0f} s: end it and try again",
    sqlite3.SQLITE_IOERR: "the disk did not answer: see that it is there and has space, and run the turn again",
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class _Ticket(Generic[T]):
    """One writer's work, and what came of it."""

    __slots__ = ("called", "done", "error", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.called = Lock()
        """Let go when the work is done, or when it is this writer's turn to write for everybody."""
        self.called.acquire()
        self.result: T | None = None
        self.error: Exception | None = None
        self.done = False

    def carry_out(self, connection: sqlite3.Connection) -> None:
        self.result = self.error = None
        try:
            self.result = self.work(connection)
        except AgentFlexError as refusal:
            self.error = refusal
        self.done = True


class SqliteFile:
    """A SQLite file that many threads use. It owns its connections."""

    def __init__(self, path: str | os.PathLike[str], durability: Durability, migrations: Sequence[str]) -> None:
        """Open the file, or make it.

        `migrations` are the scripts that lead from each version of its tables to the next. The first one begins with
        nothing and makes, among others, the table `meta(key, value)`.

        Raises:
            InvalidValueError: no such durability.
            NewerFormatError: the file's tables are newer than the last migration.
            StoreDamagedError: it is no such file, or cannot be read.
            StoreError: it cannot be opened.
        """
        if durability not in _SYNCHRONOUS:
            raise InvalidValueError(f"durability {durability!r}", durability, "'power' or 'process'", "choose one")
        self.path = Path(path).absolute()
        self._synchronous = _SYNCHRONOUS[durability]
        self._ended = ""
        self._waiting: deque[_Ticket[Any]] = deque()
        self._leader: _Ticket[Any] | None = None
        self._gate = Lock()  # guards the two lines above and the one below; held for a few instructions only
        self._idle: list[sqlite3.Connection] = []
        self._check_wal()
        self._writer = self._connect()
        try:
            self._migrate(migrations)
        except BaseException:
            self.close()
            raise
        _open_files.add(self)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work inside a transaction; when this returns it is on disk.

        What the work refuses with an AgentFlexError it must refuse before its first change, for the transaction may
        hold the work of others.

        Raises:
            StoreError: it could not be written; nothing was.
        """
        self._check_open()
        return self._take_turn(work)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file until the block ends.

        Raises:
            StoreError: it could not be read.
        """
        self._check_open()
        with self._gate:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect()
            connection.execute("begin")
            yield connection
        except sqlite3.Error as error:
            raise self._fault(error) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def close(self) -> None:
        """Wait for what is being written, and let go of the file. A second call does nothing."""
        with self._gate:
            if self._ended:
                return
            self._ended = "is closed: open it again"
        with suppress(StoreError):
            self._take_turn(lambda _: None)  # when it comes, everything before it is done
        with self._gate:
            for connection in (*self._idle, self._writer):
                connection.close()
            self._idle.clear()

    def _connect(self) -> sqlite3.Connection:
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            connection = None
            try:
                connection = sqlite3.connect(
                    self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                connection.execute(f"pragma page_size = {_PAGE_BYTES}")
                connection.execute("pragma journal_mode = wal")
                connection.execute(f"pragma synchronous = {self._synchronous}")
                connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_BYTES // _PAGE_BYTES}")
                return connection
            except sqlite3.Error as error:
                if connection is not None:
                    connection.close()
                # While two turn a new file to WAL, SQLite calls one of them off at once and lets none wait.
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise self._fault(error) from error
            time.sleep(_BUSY_PAUSE)

    def _take_turn(self, work: Callable[[sqlite3.Connection], T]) -> T:
        ticket = _Ticket(work)
        group: list[_Ticket[Any]] = []
        try:
            with self._gate:
                self._waiting.append(ticket)
                if self._leader is None:
                    self._leader = ticket
                    ticket.called.release()
            ticket.called.acquire()
            if not ticket.done:
                self._serve(group)
        finally:
            if self._leader is ticket or not ticket.done:
                self._pass_on(ticket, group)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]

    def _serve(self, group: list[_Ticket[Any]]) -> None:
        with self._gate:
            group.extend(self._waiting)
            self._waiting.clear()
        fault = self._attempt(group)
        for ticket in group if fault else ():
            # In company nobody knows whose fault it was: each again on its own.
            alone = self._attempt([ticket]) if len(group) > 1 else fault
            if alone:
                ticket.error, ticket.done = self._fault(alone), True

    def _attempt(self, group: Sequence[_Ticket[Any]]) -> Exception | None:
        writer = self._writer
        try:
            writer.execute("begin immediate")
            for ticket in group:
                ticket.carry_out(writer)
            writer.execute("commit")
        except BaseException as error:
            if writer.in_transaction or isinstance(error, sqlite3.Error):
                for ticket in group:
                    ticket.done = False
            if writer.in_transaction:
                writer.execute("rollback")
            if isinstance(error, Exception):
                return error
            raise  # the person at the kernel pressed stop
        return None

    def _pass_on(self, ticket: _Ticket[Any], group: Sequence[_Ticket[Any]]) -> None:
        """Call the next writer to lead, and those whose work is done to go on."""
        with self._gate:
            if not ticket.done and ticket in self._waiting:
                self._waiting.remove(ticket)
            self._waiting.extendleft(other for other in reversed(group) if not other.done and other is not ticket)
            if self._leader is not ticket:
                return
            self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None:
                self._leader.called.release()
        for other in group:
            if other.done and other is not ticket:
                other.called.release()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._ended.startswith("was forked"):
            _leave_open(connection)
            return
        with suppress(sqlite3.Error):
            connection.execute("rollback")
        with self._gate:
            if self._ended:
                connection.close()
            else:
                self._idle.append(connection)

    def _check_open(self) -> None:
        if self._ended:
            raise StoreError(f"{self.path} {self._ended}.")

    def _check_wal(self) -> None:
        # SQLite takes a log without a header for an empty one, and what was committed there would be gone unseen.
        log = self.path.with_name(self.path.name + "-wal")
        with suppress(OSError), log.open("rb") as file:
            head = file.read(4)
            if head and head not in _WAL_MAGIC:
                mend = f"copy both files, then move {log.name} away to open what was kept before"
                raise StoreDamagedError(str(self.path), f"the head of {log.name} is overwritten", mend)

    def _migrate(self, migrations: Sequence[str]) -> None:
        newest = len(migrations)

        def migrate(connection: sqlite3.Connection) -> None:
            for script in migrations[self._schema(connection) :]:
                for statement in script.split(";\n"):
                    connection.execute(statement)
            connection.execute("insert or replace into meta values ('schema', ?)", (str(newest),))

        with self.read() as connection:
            found = self._schema(connection)
        if found > newest:
            raise NewerFormatError(str(self.path), found, newest)
        if found < newest:
            self.write(migrate)

    def _schema(self, connection: sqlite3.Connection) -> int:
        """The version of the file's tables; 0 for a file without any."""
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        if tables and "meta" not in tables:
            raise StoreDamagedError(str(self.path), "it holds the tables of something else", "choose another path")
        return int(connection.execute("select value from meta where key = 'schema'").fetchone()[0]) if tables else 0

    def _fault(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if self._ended:
            return StoreError(f"{self.path} {self._ended}.")
        code = _code(error)
        if code in _DAMAGE:
            mend = "keep a copy of it and of the files beside it, then restore the last good one or start a new file"
            return StoreDamagedError(str(self.path), str(error), mend)
        return StoreError(f"{self.path}: {error}; {_MENDS.get(code, 'nothing was written, and what was stands')}.")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


_open_files: "weakref.WeakSet[SqliteFile]" = weakref.WeakSet()


def _leave_open(connection: sqlite3.Connection) -> None:
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # never collected, so never closed


def _after_fork_in_child() -> None:
    for file in list(_open_files):
        file._ended = "was forked with its process, and a child may not use it: open it in the child (spawn, not fork)"
        file._gate = Lock()  # the parent's thread that may have held it is not here
        for connection in (file._writer, *file._idle):
            _leave_open(connection)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
