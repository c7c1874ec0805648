"""The store of a lab: a live record in SQLite for turns that are under way, an archive in DuckDB for everything.

Rule 1: the live record acknowledges; the archive follows, and is complete before anything is asked of it.
Rule 2: whoever looks for a row looks into the live record first, then into the archive: rows move in that direction
only, so none is missed, and a row that was met twice is counted once.
Rule 3: at rest a lab is one file. `lab.duckdb` is the archive; beside it `lab.duckdb.live` (the live record) and
`lab.duckdb.lock` (who has it open) stand while it is open, and the live record after a crash.
"""

import atexit
import logging
import math
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from ..core.drift import AgentRecord
from ..core.errors import StoreError, TurnNotFoundError, VersionConflictError
from ..core.events import AgentEvent
from ..core.machine import AgentStatus
from ..core.messages import Message
from ..core.turn import Turn
from ..core.values import PackedValue
from ..runtime.ports import StoredTurn
from . import history
from .agents import keep_agent
from .archive import MEMORY, Archive, fault
from .fold import Fold, FoldFailure, check_agreement, fold
from .lock import LabLock
from .sqlite import SqliteStore
from .sqlite_file import Durability
from .values import pack, unpack

_log = logging.getLogger(__name__)

_EXIT_SECONDS = 4.0  # a kernel that shuts down is killed after five


class LabStore:
    """Implements AgentTurnStore over a live record and an archive. One process has a lab open, once."""

    def __init__(self, path: str | os.PathLike[str], durability: Durability = "power") -> None:
        """Open the lab at this path, or make it; ":memory:" keeps nothing.

        `durability` says what an acknowledged commit survives: "power" a power cut, "process" the end of the process.
        What a crash left in the live record is folded, and turns that wait are armed again.

        Raises:
            LabLockedError: it is open already, here or in another process; says where.
            NewerFormatError: a newer version of this package made it.
            StoreDamagedError, StoreError: it cannot be used; says why.
        """
        in_memory = str(path) == MEMORY
        self._folder = tempfile.mkdtemp(prefix="agentflex-") if in_memory else None
        self.path = Path(self._folder, "lab") if self._folder else Path(path).absolute()
        self._live_path = self.path.with_name(f"{self.path.name}.live")
        self._durability: Durability = "process" if in_memory else durability
        self._process, self._closed = os.getpid(), False
        self._lock = LabLock.take(self.path.resolve())
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            self._archive = Archive(MEMORY if in_memory else self.path)
            undo.callback(self._archive.close)
            self._lock.identify(self.path)
            self._live = SqliteStore(self._live_path, self._durability, length_of=self._archived_length())
            undo.callback(self._live.close)
            check_agreement(self._live, self._archive)
            self._fold = Fold(self._live, self._archive)
            self._fold.start()
            undo.callback(self._fold.close)
            self._fold.catch_up()
            for stored in history.unfinished(self._archive):
                self._live.import_turn(stored)
            undo.pop_all()
        _open_stores.add(self)

    # -- the record ----------------------------------------------------------------------------------------------------

    def load(self, turn_id: str) -> StoredTurn | None:
        return self._record.load(turn_id) or next(iter(history.load(self._archive, [turn_id])), None)

    def find(self, statuses: Sequence[AgentStatus]) -> list[StoredTurn]:
        live = {stored.turn.id: stored for stored in self._record.find(statuses)}
        ended = [status for status in statuses if status.is_terminal]  # the others are all alive
        archived = {stored.turn.id: stored for stored in history.find(self._archive, ended)} if ended else {}
        return sorted((archived | live).values(), key=lambda stored: stored.turn.identity.created_at)

    def commit(
        self,
        turn: Turn,
        events: Sequence[AgentEvent],
        *,
        expected: int,
        reserved: int,
        results: Sequence[tuple[str, PackedValue]] = (),
    ) -> None:
        try:
            self._record.commit(turn, events, expected=expected, reserved=reserved, results=results)
        except VersionConflictError as conflict:
            if conflict.found is not None or not self._recall(turn.id):
                raise
            self._record.commit(turn, events, expected=expected, reserved=reserved, results=results)
        self._fold.tell()

    def append(self, turn_id: str, events: Sequence[AgentEvent], *, reserved: int) -> None:
        try:
            self._record.append(turn_id, events, reserved=reserved)
        except TurnNotFoundError:
            if not self._recall(turn_id):
                raise
            self._record.append(turn_id, events, reserved=reserved)
        self._fold.tell()

    def request_cancel(self, turn_id: str) -> bool:
        try:
            raised = self._record.request_cancel(turn_id)
        except TurnNotFoundError:
            if not self._recall(turn_id):
                raise
            raised = self._record.request_cancel(turn_id)
        self._fold.tell()
        return raised

    def is_cancel_requested(self, turn_id: str) -> bool:
        return self._record.is_cancel_requested(turn_id)

    def events(self, turn_id: str, *, after: int = 0) -> list[AgentEvent]:
        live = self._record.events(turn_id, after=after)
        if live and live[0].sequence == after + 1:
            return live
        known = {event.sequence for event in live}
        archived = [event for event in history.events(self._archive, turn_id, after) if event.sequence not in known]
        return archived + live

    def active_turns(self, conversation_id: str) -> list[str]:
        return self._record.active_turns(conversation_id)

    def conversation(self, conversation_id: str) -> list[tuple[str | None, Message]]:
        live = self._record.said(conversation_id)
        before = live[0][0] if live else None
        archived = history.said(self._archive, conversation_id, before) if before != 0 else []
        return [(turn_id, message) for _, turn_id, message in archived + live]

    def remember(self, conversation_id: str, messages: Sequence[Message]) -> None:
        self._record.remember(conversation_id, messages)
        self._fold.tell()

    def result(self, call_id: str) -> PackedValue | None:
        return self._record.result(call_id) or history.result(self._archive, call_id)

    def pack(self, value: Any) -> PackedValue | None:
        return pack(value)

    def unpack(self, packed: PackedValue) -> Any:
        return unpack(packed)

    # -- the archive ---------------------------------------------------------------------------------------------------

    @property
    def archive(self) -> Archive:
        """The archive, with everything in it that was committed until now.

        Raises:
            StoreError: it could not be brought up to date; says why. Nothing is lost.
        """
        self._check()
        self._fold.catch_up()
        return self._archive

    def keep_agent(self, record: AgentRecord, now: datetime) -> None:
        """Write down what this version of an agent is, once.

        Raises:
            AgentDriftError: the lab knows the same id and version with another fingerprint; says in what they differ.
        """
        self._check()
        keep_agent(self._archive, record, now)

    @property
    def trouble(self) -> FoldFailure | None:
        """Why the archive is behind; None while all is well. Turns go on, and it is tried again."""
        return self._fold.failure

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Fold everything into one file, waiting turns included, and let go of it. A second call does nothing.

        Raises:
            StoreError: not everything could be folded; the live record stays beside the file until the next opening.
        """
        self._close(math.inf)

    def _close(self, patience: float) -> None:
        with _closing:
            if self._closed or os.getpid() != self._process:
                return
            self._closed = True
        self._fold.close()
        self._live.close()  # from here on nothing is acknowledged any more
        try:
            at_rest = self._fold_the_rest(time.monotonic() + patience)
            self._archive.close()  # its log is in the file then: only now nothing is left that only the record has
            if at_rest:
                self._live_path.unlink()
        finally:
            self._archive.close()
            self._lock.release()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _fold_the_rest(self, until: float) -> bool:
        """Fold what was committed last; whether the archive has all of it."""
        record = SqliteStore(self._live_path, self._durability)
        try:
            return fold(record, self._archive, lambda: time.monotonic() < until)
        except duckdb.Error as error:
            raise StoreError(
                f"{self.path} is closed, but its last events still lie in {self._live_path.name}: "
                f"{fault(str(self.path), error)}"
            ) from error
        finally:
            record.close()

    def _recall(self, turn_id: str) -> bool:
        """Take a turn that has ended back into the live record, for whoever still has something to say to it."""
        found = history.load(self._archive, [turn_id])
        for stored in found:
            self._record.import_turn(stored)
        return bool(found)

    @property
    def _record(self) -> SqliteStore:
        self._check()
        return self._live

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.path} was opened by process {self._process}: open it in this one (spawn, not fork)."
            )
        if self._closed:
            raise StoreError(f"{self.path} is closed: open it again.")

    def _archived_length(self) -> Callable[[str], int]:
        if not self._archive.rows("select 1 from conversation_messages limit 1"):
            return lambda _: 0  # all that will be in the archive is met here first
        return lambda conversation_id: history.length_of(self._archive, conversation_id)


_closing = threading.Lock()
_open_stores: "weakref.WeakSet[LabStore]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for store in list(_open_stores):
        try:
            store._close(_EXIT_SECONDS)
        except StoreError as error:
            _log.warning("%s", error)
