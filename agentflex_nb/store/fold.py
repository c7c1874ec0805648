"""The fold: one thread carries what the live record holds into the archive.

Rule 1: a set of rows, the tables derived from them, and the cursor that says how far they reach are one transaction of
the archive. The live record lets go of them afterwards; whatever dies between the two, nothing is folded twice or lost.
Rule 2: only this thread writes to the archive, and only it checkpoints: when nobody waits for it.
Rule 3: a fold that fails loses nothing and stops no run. It is tried again, it says so (`failure`), and whoever needs
the archive to be complete (`catch_up`) gets the error instead of an older answer.
Rule 4: the two are held against each other when they are opened (`check_agreement`): both databases open a log that has
lost its end without a word, and go on from an older state.
"""

import concurrent.futures.thread  # noqa: F401 - pyarrow loads pandas, which needs it, also at exit: too late to load
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from ..core.errors import StoreDamagedError, StoreError
from .archive import Archive, Cursor, fault, sql
from .unfolded import FoldCursor, Row, Unfolded

_log = logging.getLogger(__name__)

_PAUSE = 0.05  # seconds between the first commit and its fold: what comes in company costs less
_SHARE = 6  # after a fold, the thread rests this many times as long as it took ...
_LONGEST_PAUSE = 0.8  # ... but not longer
_IDLE = 2.0  # seconds without work after which the archive is checkpointed
_LOG_BYTES = 64_000_000  # beside the archive, after which it is checkpointed under load
_RETRY = (0.2, 1.0, 5.0)  # seconds until a failed fold is tried again; the last one repeats
_BATCH = {"rows": 20_000, "text": 30_000_000}

_TEXT, _INT, _FLAG = pa.string(), pa.int64(), pa.bool_()

# table of the live record -> its columns as the statements in sql/ know them; a head's others stand in its state
_JOURNAL = {"id": _INT, "turn_id": _TEXT, "version": _INT, "state": _TEXT, "events": _TEXT}
_MESSAGES = {"id": _INT, "hash": _TEXT, "body": _TEXT}
_TURN_MESSAGES = {"id": _INT, "turn_id": _TEXT, "position": _INT, "hash": _TEXT, "step": _INT}
_CONVERSATIONS = {"id": _INT, "conversation_id": _TEXT, "position": _INT, "turn_id": _TEXT, "hash": _TEXT}
_RESULTS = {"tool_call_id": _TEXT, "turn_id": _TEXT, "media_type": _TEXT, "body": pa.binary()}
_HEADS = {"turn_id": _TEXT, "reserved": _INT, "cancel_requested": _FLAG}

DERIVED = ("steps", "model_calls", "suspensions", "tool_calls", "turns")
"""Tables that follow from the log and the snapshots, in the order in which they are derived."""


class LiveRecord(Protocol):
    """The record that is folded."""

    record_id: str

    def unfolded(self, cursor: FoldCursor, *, rows: int = ..., text: int = ...) -> Unfolded: ...
    def reach(self) -> tuple[int, int]: ...
    def forget(self, cursor: FoldCursor) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldFailure:
    """Why the archive is behind."""

    error: Exception
    attempts: int
    """In a row."""

    def __str__(self) -> str:
        return f"the archive is behind its record, tried {self.attempts} times: {self.error}"


def folded(cursor: Cursor, record_id: str) -> tuple[FoldCursor, int]:
    """How far this record has been folded, and the newest event_pk."""
    found = cursor.execute("from folded").fetchall()
    if not found:
        return FoldCursor(), 0
    known, *ends, newest = found[0]
    return (FoldCursor(*ends) if known == record_id else FoldCursor()), newest


def check_agreement(record: LiveRecord, archive: Archive) -> None:
    """Refuse an archive that lacks what its record has let go of, and a record that lacks what its archive has.

    Raises:
        StoreDamagedError: one of them has lost its end; says which, and what to do.
    """
    with archive.cursor() as cursor:
        reached, _ = folded(cursor, record.record_id)
    forgotten, newest = record.reach()
    here, beside = archive.path, f"{Path(archive.path).name}.live"
    if reached.journal < forgotten:
        met = f"it has {reached.journal} of the {forgotten} changes that were folded into it: its log lost its end"
        mend = f"restore it and its .wal from a copy; or move {beside} away to open what is left, of an earlier time"
        raise StoreDamagedError(here, met, mend)
    if newest < reached.journal:
        met = f"it ends with change {newest}, and {Path(here).name} has {reached.journal}: its log lost its end"
        mend = f"move {beside} away: all that is left in it is in {Path(here).name} too"
        raise StoreDamagedError(f"{here}.live", met, mend)


def take(cursor: Cursor, record_id: str, rows: Unfolded) -> None:
    """Put rows of the live record into the archive, with all that follows from them, in one transaction."""
    cursor.execute("begin")
    try:
        _, newest = folded(cursor, record_id)
        newest = _take(cursor, rows, newest)
        cursor.execute("delete from folded")
        cursor.execute("insert into folded values (?, ?, ?, ?, ?, ?)", [record_id, *rows.cursor, newest])
        cursor.execute("commit")
    except BaseException:
        cursor.execute("rollback")
        raise


def _take(cursor: Cursor, rows: Unfolded, newest: int) -> int:
    for name, columns, taken in (
        ("messages", _MESSAGES, rows.messages),
        ("turn_messages", _TURN_MESSAGES, rows.turn_messages),
        ("conversation_messages", _CONVERSATIONS, rows.conversation_messages),
        ("results", _RESULTS, rows.results),
    ):
        if taken:
            with _lent(cursor, f"live_{name}", columns, taken):
                cursor.execute(sql(f"take_{name}"))
    if not rows.journal:
        return newest
    with _lent(cursor, "journal", _JOURNAL, rows.journal):
        taken_events = cursor.execute(sql("take_events"), {"newest": newest}).fetchall()[0][0]
        cursor.execute(sql("take_snapshots"), {"newest": newest})
    heads = [(head[0], head[8], bool(head[10])) for head in rows.heads]
    with _lent(cursor, "heads", _HEADS, heads):
        derive(cursor, sorted({row[1] for row in rows.journal}), newest)
    return newest + int(taken_events)


def derive(cursor: Cursor, turn_ids: Sequence[str], newest: int) -> None:
    """Make the derived rows of these turns again; `newest` is the event_pk up to which they were derived before."""
    with _lent(cursor, "touched", {"turn_id": _TEXT}, [(turn_id,) for turn_id in turn_ids]):
        known, oldest = cursor.execute(
            "select count(*), least(min(first_event_pk), $newest + 1) from turns semi join touched using (turn_id)",
            {"newest": newest},
        ).fetchall()[0]
        for table in DERIVED:
            if known:
                cursor.execute(f"delete from {table} where turn_id in (from touched)")
            cursor.execute(sql(f"derive_{table}"), {"oldest": oldest})


@contextmanager
def _lent(cursor: Cursor, name: str, columns: Mapping[str, pa.DataType], rows: Sequence[Row]) -> Iterator[None]:
    """Rows as a table that the statements of this cursor can name, until the block ends."""
    parts = zip(*rows, strict=True) if rows else ((),) * len(columns)
    arrays = [pa.array(part, kind) for part, kind in zip(parts, columns.values(), strict=True)]
    cursor.register(name, pa.table(arrays, names=list(columns)))
    yield
    cursor.unregister(name)  # not after a failure: that would hide it, and the cursor ends with it


def fold(record: LiveRecord, archive: Archive, proceed: Callable[[], bool] = lambda: True) -> bool:
    """Carry everything over, set by set, as long as `proceed` says so; whether the archive has all of it.

    Raises:
        StoreError: the record could not be read, or let go of what is folded.
        duckdb.Error: the archive could not be written; the set under way was not taken.
    """
    with archive.cursor() as cursor:
        reached, _ = folded(cursor, record.record_id)
        record.forget(reached)  # what a crash kept from being let go of
        complete = False
        while not complete and proceed():
            rows = record.unfolded(reached, **_BATCH)
            if rows.cursor != reached:
                take(cursor, record.record_id, rows)
                reached = rows.cursor
                record.forget(reached)
            complete = rows.complete
    return complete


class Fold:
    """The thread that folds, from `start` to `close`."""

    def __init__(self, record: LiveRecord, archive: Archive) -> None:
        self._record, self._archive = record, archive
        self._changed = threading.Condition()
        self._written = self._folded = 0  # commits that were told, and how many of them are certainly in the archive
        self._begun = self._ended = 0  # attempts to fold
        self._waiters = 0
        self._resting = self._ending = False
        self.failure: FoldFailure | None = None
        """Why the archive is behind; None while all is well."""
        self._thread = threading.Thread(target=self._run, name="agentflex-fold", daemon=True)

    def start(self) -> None:
        """Begin to fold what is there and what will come."""
        self.tell()
        self._thread.start()

    def tell(self) -> None:
        """Something was committed to the live record; the archive will have it soon."""
        with self._changed:
            self._written += 1
            if self._resting:
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Wait until the archive has all that was committed before this call.

        Raises:
            StoreError: it could not be folded; says why. Nothing is lost, and the fold goes on trying.
        """
        with self._changed:
            goal, begun = self._written, self._begun
            self._waiters += 1
            self._changed.notify_all()
            try:
                while self._folded < goal:
                    if self.failure and self._ended > begun:  # one that began after this call
                        raise StoreError(str(self.failure)) from self.failure.error
                    if not self._thread.is_alive():
                        raise StoreError(f"{self._archive.path} is closed: open it again.")
                    self._changed.wait(_IDLE)
            finally:
                self._waiters -= 1

    def close(self) -> None:
        """Finish the set under way and end the thread. A second call does nothing."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _PAUSE
        while not self._ending:
            if self._await_work():
                self._await_company(pause)
                pause = self._attempt()
            elif not self._ending:
                self._checkpoint(1)

    def _await_work(self) -> bool:
        with self._changed:
            self._resting = True
            self._changed.wait_for(lambda: self._folded < self._written or self._ending, _IDLE)
            self._resting = False
            return self._folded < self._written

    def _await_company(self, pause: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiters or self._ending, pause)

    def _attempt(self) -> float:
        """Fold once, and say how long to rest before the next time."""
        with self._changed:
            self._begun += 1
            began, goal, failure = time.monotonic(), self._written, None
        try:
            if not fold(self._record, self._archive, lambda: not self._ending):
                goal = self._folded
        except Exception as error:
            failure = FoldFailure(error=self._mended(error), attempts=self.failure.attempts + 1 if self.failure else 1)
            if failure.attempts == 1:
                _log.warning("%s", failure)
        with self._changed:
            self.failure = failure
            self._ended = self._begun
            self._folded = self._folded if failure else goal
            self._changed.notify_all()
        if failure:
            return _RETRY[min(failure.attempts, len(_RETRY)) - 1]
        self._checkpoint(_LOG_BYTES)
        return min(max(_PAUSE, _SHARE * (time.monotonic() - began)), _LONGEST_PAUSE)

    def _checkpoint(self, at_least: int) -> None:
        if self._archive.log_bytes >= at_least:
            try:
                self._archive.checkpoint()
            except StoreError as error:
                _log.warning("the archive could not be checkpointed, and is opened again: %s", error)
                self._reopen()

    def _mended(self, error: Exception) -> Exception:
        """The error as it is told; the archive is opened again if DuckDB gave up."""
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self._reopen()
        return fault(self._archive.path, error) if isinstance(error, duckdb.Error) else error

    def _reopen(self) -> None:
        try:
            self._archive.reopen()
        except StoreError as error:  # the next attempt to fold meets it again, and tells
            _log.warning("the archive could not be opened again: %s", error)
