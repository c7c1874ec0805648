"""Who writes to a turn: the core says what a word leads to, the store keeps it, listeners hear of it.

Rule 1: state, numbers and mailbox change together, under the turn's lock; listeners and user code run without it.
Rule 2: what asks, decides or ends is on disk before anybody hears of it. A failed commit stops everything.
Rule 3: the stop button waits while something is written or told.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.advance import advance, pick_up
from ..core.agent import AgentDefinition
from ..core.effects import Effect
from ..core.errors import CommandRefusedError, IllegalTransitionError, RefusalReason
from ..core.events import AgentEvent
from ..core.inputs import Input, Interrupted
from ..core.machine import AgentStatus
from ..core.messages import NO_USAGE, Usage
from ..core.story import Advance
from ..core.turn import Turn
from .interrupts import held
from .ports import AgentTurnStore, StoredTurn
from .publisher import Mailbox, Publisher
from .results import ToolResults
from .workers import in_ticks

RUNNABLE = frozenset({AgentStatus.READY, AgentStatus.RUNNING})
STOPPABLE = RUNNABLE | {AgentStatus.RETRY_SCHEDULED}
"""Where the stop button ends a turn: it runs, or a run waits to try it again."""
_AHEAD = 1_000  # sequence numbers set aside at a time, so that none is ever used twice after a crash


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunnerOptions:
    """How a runner works. Times are seconds."""

    text_beat: float = 0.04
    """Pieces of text that arrive within it become one event; 0 makes each piece an event of its own."""
    max_retry_wait: float = 60.0
    """How long `run` waits for a retry that is due later; beyond it returns, and a timer goes on."""


Wait = Callable[[threading.Condition, Callable[[], bool], float], object]
"""Waits, with the condition's lock held, until the predicate holds or so many seconds are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a runner lends to everything that works on its turns."""

    store: AgentTurnStore
    publisher: Publisher
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    wait: Wait
    options: AgentRunnerOptions
    results: ToolResults


driving: ContextVar[tuple[str, ...]] = ContextVar("agentflex_driving", default=())
"""The turns that are moved by this code or by what called it, in whatever thread: none of them can be waited for."""


class KnownTurn:
    """One turn, as this process knows it. Handles and drives of the same turn share it."""

    __slots__ = (
        "__weakref__",
        "_changed",
        "drive",
        "failure",
        "left_at",
        "lock",
        "mailbox",
        "tended_by",
        "turn",
        "waited_by",
    )

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.mailbox = Mailbox()
        self.lock = threading.RLock()
        """Held while the turn is written: state, numbers and mailbox change together, whoever speaks."""
        self.drive: Scribe | None = None
        """The one that has taken the turn, to move it on."""
        self.left_at: Turn | None = None
        """The state in which a drive of this process has left the turn, with every number up to it told and saved."""
        self.failure: BaseException | None = None
        """What was raised in this process and failed the turn, traceback and all."""
        self.tended_by = 0
        """How many in this process see to it that a scheduled retry, due soon, is made."""
        self.waited_by = 0
        """How many wait for the turn to change."""
        self._changed = threading.Condition(self.lock)

    @property
    def is_quiet(self) -> bool:
        """Nobody moves the turn, and nobody here is about to."""
        return self.drive is None and not (self.tended_by and self.turn.status is AgentStatus.RETRY_SCHEDULED)

    @property
    def driven_by(self) -> "Scribe | None":
        """The drive that moves the turn now; None also while one that is through only tells its last events."""
        drive = self.drive
        return drive if drive is not None and drive.runs else None

    def learn(self, turn: Turn) -> None:
        """Keep the newer state."""
        with self.lock:
            if (turn.version, turn.sequence) >= (self.turn.version, self.turn.sequence):
                self.turn = turn
                if self.waited_by:
                    self._changed.notify_all()

    def release(self, drive: "Scribe") -> None:
        """The drive is over."""
        with self.lock:
            if self.drive is drive:
                self.drive = None
                self._changed.notify_all()

    def tend(self) -> None:
        """Promise to make a scheduled retry when it is due; until `leave_alone`."""
        with self.lock:
            self.tended_by += 1

    def leave_alone(self) -> None:
        """The end of a promise."""
        with self.lock:
            self.tended_by -= 1
            self._changed.notify_all()

    def wait_for_change(self, wait: Wait, timeout: float) -> None:
        """Wait until the turn has another state, or time is up."""
        with self.lock:
            before = self.turn
            with self._waiting():
                wait(self._changed, lambda: self.turn is not before, timeout)

    def wait(self, timeout: float | None = None, *, retries: bool = True) -> bool:
        """Wait until nobody moves the turn, nor (with `retries`) is about to; False if time ran out.

        Raises:
            CommandRefusedError: this very thread drives it, and cannot wait for itself.
        """
        with self.lock:
            moved_here = (drive := self.driven_by) is not None and drive.thread == threading.get_ident()
            if moved_here or (drive is not None and self.turn.id in driving.get()):
                raise CommandRefusedError(
                    RefusalReason.NOT_BLOCKED,
                    f"turn {self.turn.id} is moved by this very thread, which cannot wait for it: go on when it is "
                    "done, or in another thread; nothing changed.",
                    turn_id=self.turn.id,
                )
            with self._waiting():
                return in_ticks(self._changed, lambda: self.is_quiet or not (retries or self.drive), timeout)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waited_by += 1
        try:
            yield
        finally:
            self.waited_by -= 1


class Scribe:
    """Holds a turn's newest state and writes what is said to it. Any thread may speak, one at a time."""

    def __init__(self, means: Means, definition: AgentDefinition, stored: StoredTurn, known: KnownTurn) -> None:
        self.means, self.definition, self.known = means, definition, known
        self.turn = _taken_up(stored, known)
        self.effects: deque[Effect] = deque()
        self._reserved = self.turn.sequence  # so the first thing that happens here is saved before it is told
        self._unsaved: list[AgentEvent] = []
        self._unsaved_since = 0.0
        self.broken: Exception | None = None
        """What made an end of this scribe: nothing can be said through it any more."""
        self.thread: int | None = threading.get_ident()
        """The thread that has taken the turn to drive it; None while it is handed over to another one."""

    @property
    def used(self) -> Usage:
        """What the call of the model that goes on here has used so far."""
        return NO_USAGE

    @property
    def runs(self) -> bool:
        """Whether the turn can still be moved from here."""
        return self.broken is None and self.turn.status in RUNNABLE

    def writing(self) -> "_Writing":
        """A block in which the turn is this thread's to write; then listeners hear of what was written."""
        return _Writing(self)

    def say(self, *said: Input) -> None:
        """Tell the turn something, save what must be saved, and publish what happened.

        Raises:
            CommandRefusedError, IllegalTransitionError: the turn does not listen to it; nothing changed.
            VersionConflictError, StoreError: it could not be saved; nothing was published, and this scribe is done.
        """
        with self.writing():
            for one in said:
                self.write(one)

    def say_if_runs(self, said: Input) -> bool:
        """Say it unless the turn has meanwhile come to stand still: what comes late is dropped."""
        with self.writing():
            if self.broken is not None:
                raise self.broken
            if runs := self.runs:
                self.write(said)
        return runs

    def say_late(self, said: Input) -> bool:
        """Say it if the turn still listens: what a tool's own thread says after its end is dropped."""
        try:
            self.say(said)
        except IllegalTransitionError:
            return False
        return True

    def begin(self, opened: Advance) -> None:
        """Save a new turn, or the same one under a new version."""
        with self.writing():
            self.record(opened)

    def write(self, said: Input) -> None:
        """Let the turn hear it; the caller is `writing`."""
        self.record(advance(self.definition, self.turn, said, self.means.clock()))

    def interrupt(self, why: str) -> None:
        """The stop button: whatever is at work is left where it is, and the turn is closed; the caller is `writing`."""
        if self.broken is None and self.turn.status in STOPPABLE:
            self.write(Interrupted(why, self.used))

    def save_events(self) -> None:
        """Save what no commit has carried yet."""
        with held(), self.known.lock:
            if self._unsaved and self.broken is None:
                self._append(self._reserved)

    def publish(self) -> None:
        """Deliver what waits. No lock is held."""
        self.known.mailbox.drain()

    def record(self, result: Advance) -> None:
        """Save what must be saved, and put the events where they are told from; the caller is `writing`."""
        if self.broken is not None:
            raise self.broken
        turn = result.turn
        try:
            if result.commits:
                reserved = turn.sequence + (_AHEAD if turn.status is AgentStatus.RUNNING else 0)
                events = [*self._unsaved, *result.events] if self._unsaved else result.events
                self.means.store.commit(turn, events, expected=turn.version - 1, reserved=reserved, results=result.kept)
                self._reserved = reserved
                self._unsaved.clear()
            elif result.events:
                if not self._unsaved:
                    self._unsaved_since = self.means.monotonic()
                self._unsaved.extend(result.events)
                if turn.sequence > self._reserved:
                    self._append(turn.sequence + _AHEAD)
        except Exception as error:
            self.broken = error
            self.effects.clear()
            raise
        self.turn = turn
        self.known.learn(turn)
        self.effects.extend(result.effects)
        self.known.mailbox.post(self.means.publisher, result.events)

    def _append(self, reserved: int) -> None:
        try:
            self.means.store.append(self.turn.id, self._unsaved, reserved=reserved)
        except Exception as error:
            self.broken = error
            raise
        self._reserved = reserved
        self._unsaved.clear()


class _Writing:
    """See `Scribe.writing`; a class, because it is entered some ten times a step."""

    __slots__ = ("_held", "_scribe")

    def __init__(self, scribe: Scribe) -> None:
        self._held, self._scribe = held(), scribe

    def __enter__(self) -> None:
        self._held.__enter__()
        self._scribe.known.lock.acquire()

    def __exit__(self, *raised: Any) -> None:
        self._scribe.known.lock.release()
        try:
            self._scribe.publish()
        finally:
            self._held.__exit__(*raised)


def _taken_up(stored: StoredTurn, known: KnownTurn) -> Turn:
    """The turn as it goes on here: numbers that may have been told in a process that died are not used again."""
    turn, left_at = stored.turn, known.left_at
    if turn.status not in RUNNABLE:
        return turn
    if left_at is not None and left_at.version == turn.version and stored.logged <= left_at.sequence:
        return left_at  # this process had it last, and has told and saved all that it numbered
    if turn.status is AgentStatus.READY and stored.logged <= turn.sequence:
        return turn  # nobody has begun: a scribe saves the first thing that happens before it tells it
    return pick_up(turn, stored.reserved, stored.logged)
