"""One turn being moved on: inputs go in, commits come before what they announce, effects are performed in order.

Rule 1: state, numbers and mailbox change together, under the drive's lock; listeners and effects run without it.
Rule 2: what asks, decides or ends is on disk before anybody hears of it. A failed commit stops everything.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..core.advance import advance, pick_up
from ..core.effects import Effect
from ..core.errors import ErrorSummary, IllegalTransitionError, StoreError, VersionConflictError
from ..core.events import AgentEvent
from ..core.inputs import Cancel, Input, Interrupted, Proceed, StepFailed, Streamed
from ..core.machine import AgentStatus
from ..core.story import Advance
from ..core.turn import Turn
from .agent import Agent
from .beat import BEAT
from .interrupts import InterruptGate
from .middleware import chain
from .ports import AgentTurnStore, StoredTurn
from .publisher import Publisher, post
from .registry import KnownTurn
from .stream import TextBeat

_AHEAD = 1_000  # sequence numbers set aside at a time, so that none is ever used twice after a crash
_SAVE_WITHIN = 0.1  # seconds until an event that no commit has carried is saved alone
_CANCEL_POLL = 0.5  # seconds between two looks at the store's cancel flag
_RUNNABLE = (AgentStatus.READY, AgentStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunnerOptions:
    """How a runner works. Times are seconds."""

    text_beat: float = 0.04
    """Pieces of text that arrive within it become one event; 0 makes each piece an event of its own."""


class Drive:
    """Moves one turn. Its `say` may be called from any thread; `step` belongs to the thread that drives."""

    def __init__(
        self,
        agent: Agent,
        stored: StoredTurn,
        known: KnownTurn,
        *,
        store: AgentTurnStore,
        publisher: Publisher,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        options: AgentRunnerOptions,
    ) -> None:
        self.agent, self.known, self.store, self.publisher = agent, known, store, publisher
        self.clock, self.monotonic, self.options = clock, monotonic, options
        self.turn = stored.turn
        if self.turn.status in _RUNNABLE:
            self.turn = pick_up(stored.turn, stored.reserved, stored.logged)
        self.reserved = max(stored.reserved, self.turn.sequence)
        self.gate = InterruptGate()
        self.raises: BaseException | None = None  # a middleware's own error, raised if it ended the turn
        self.text = TextBeat(options.text_beat)
        self._lock = threading.RLock()
        self._unsaved: list[AgentEvent] = []
        self._unsaved_since = 0.0
        self._effects: deque[Effect] = deque()
        self._broken: Exception | None = None
        self._next_poll = self.monotonic() + _CANCEL_POLL

    def say(self, *said: Input) -> None:
        """Tell the turn something, save what must be saved, and publish what happened.

        Raises:
            CommandRefusedError, IllegalTransitionError: the turn does not listen to it; nothing changed.
            VersionConflictError, StoreError: it could not be saved; nothing was published, and this drive is over.
        """
        try:
            with self._lock:
                for one in said:
                    self._record(advance(self.agent.definition, self.turn, one, self.clock()))
        finally:
            self.publish()

    def say_late(self, said: Input) -> bool:
        """Say it if the turn still listens: what a tool's own thread says after its end is dropped."""
        try:
            self.say(said)
        except IllegalTransitionError:
            return False
        return True

    def begin(self, opened: Advance) -> None:
        """Save a new turn."""
        with self._lock:
            self._record(opened)
        self.publish()

    def publish(self) -> None:
        """Deliver what waits. No lock is held."""
        try:
            self.publisher.drain(self.known.mailbox)
        except KeyboardInterrupt:  # out of a listener: it counts as the stop button, at the next effect
            self.gate.note()
            self.publisher.drain(self.known.mailbox)

    def step(self, perform: Callable[["Drive", Effect], Input]) -> None:
        """Take one step, through the agent's middlewares.

        A middleware that raises fails the turn, unless the turn already stands still; the error goes to the caller.
        """

        def inner(_: Turn) -> Turn:
            self._step(perform)
            return self.turn

        try:
            chain(self.agent.middlewares, "around_step", inner)(self.turn)
        except (VersionConflictError, StoreError):
            raise
        except KeyboardInterrupt:
            self._say_if_runnable(Interrupted("interrupted by the user"))
            raise
        except BaseException as error:
            self._say_if_runnable(StepFailed(summary(error)))
            raise

    def drive(self, perform: Callable[["Drive", Effect], Input], steps: int | None = None) -> None:
        """Take steps until the turn waits or has ended, or `steps` of them."""
        BEAT.join(self)
        try:
            with self.gate:
                while self.turn.status in _RUNNABLE and steps != 0:
                    self.step(perform)
                    steps = None if steps is None else steps - 1
                self.gate.raise_noted()
        finally:
            BEAT.leave(self)
            self.close()
        if self.raises and self.turn.status is AgentStatus.FAILED:
            raise self.raises

    def close(self) -> None:
        """Save what no commit has carried, and give back the numbers that were set aside."""
        with self._lock:
            if self._broken is None and (self._unsaved or self.reserved > self.turn.sequence):
                self._append(self.turn.sequence)

    def save_events(self) -> None:
        """Save what no commit has carried yet."""
        with self._lock:
            if self._unsaved and self._broken is None:
                self._append(self.reserved)

    def tick(self, now: float) -> None:
        """A look from the beat: send text that is due, save events that are due."""
        try:
            with self._lock:
                if self._broken is None and self.turn.status is AgentStatus.RUNNING:
                    self._record_streamed(self.text.due(now))
                if self._unsaved and self._broken is None and now - self._unsaved_since >= _SAVE_WITHIN:
                    self._append(self.reserved)
            self.publish()
        except Exception as error:  # the thread that drives meets it at its next word
            self._broken = error

    def stream(self, pieces: Sequence[Streamed]) -> None:
        """Say the pieces that the text beat lets go, in order with those that the beat's thread sends."""
        if not pieces:
            return
        with self._lock:
            now = self.monotonic()
            for piece in pieces:
                self._record_streamed(self.text.add(piece, now))
        self.publish()

    def flush_text(self) -> None:
        """Say what the text beat holds."""
        with self._lock:
            self._record_streamed(self.text.flush())
        self.publish()

    def is_cancelled(self) -> bool:
        """Whether somebody wants the turn to end; looks into the store at most twice a second."""
        if self.turn.cancel is not None:
            return True
        now = self.monotonic()
        if now < self._next_poll:
            return False
        self._next_poll = now + _CANCEL_POLL
        if self.store.is_cancel_requested(self.turn.id):
            self._say_if_runnable(Cancel(reason="requested elsewhere"))
        return self.turn.cancel is not None

    def _step(self, perform: Callable[["Drive", Effect], Input]) -> None:
        if not self._say_if_runnable(Proceed()):
            return
        while self._effects:
            effect = self._effects.popleft()
            answer = perform(self, effect)
            self._say_if_runnable(answer)
            self.is_cancelled()

    def _say_if_runnable(self, said: Input) -> bool:
        """Say it unless the turn has meanwhile come to stand still: what comes late is dropped."""
        with self._lock:
            if self._broken is not None:
                raise self._broken
            if self.turn.status not in _RUNNABLE:
                return False
            self._record(advance(self.agent.definition, self.turn, said, self.clock()))
        self.publish()
        return True

    def _record_streamed(self, pieces: Iterable[Input]) -> None:
        for piece in pieces:
            if self.turn.status is AgentStatus.RUNNING:
                self._record(advance(self.agent.definition, self.turn, piece, self.clock()))

    def _record(self, result: Advance) -> None:
        if self._broken is not None:
            raise self._broken
        turn = result.turn
        try:
            if result.commits:
                runs = turn.status is AgentStatus.RUNNING
                reserved = turn.sequence + _AHEAD if runs else turn.sequence
                events = [*self._unsaved, *result.events]
                self.store.commit(turn, events, expected=turn.version - 1, reserved=reserved)
                self.reserved = reserved
                self._unsaved.clear()
            else:
                if not self._unsaved:
                    self._unsaved_since = self.monotonic()
                self._unsaved.extend(result.events)
                if turn.sequence > self.reserved:
                    self._append(turn.sequence + _AHEAD)
        except Exception as error:
            self._broken = error
            self._effects.clear()
            raise
        self.turn = turn
        self.known.learn(turn)
        self._effects.extend(result.effects)
        post(self.known.mailbox, result.events)

    def _append(self, reserved: int) -> None:
        try:
            self.store.append(self.turn.id, self._unsaved, reserved=reserved)
        except Exception as error:
            self._broken = error
            raise
        self.reserved = reserved
        self._unsaved.clear()


def summary(error: BaseException, code: str = "") -> ErrorSummary:
    """What is kept of an exception; never raises, whatever the exception's own text does."""
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        text = f"SystemExit({text})"
    return ErrorSummary(kind=kind, message=text[:10_000] or kind, code=code)
