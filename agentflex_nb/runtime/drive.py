"""One turn being moved on by one thread: what the core asks for is performed, in order, and what came back is said."""

import contextvars
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial

from ..core.effects import Effect
from ..core.errors import ErrorSummary, InvalidAgentError
from ..core.frozen import well_formed
from ..core.inputs import Cancel, Input, Proceed, StepFailed, Streamed
from ..core.machine import AgentStatus
from ..core.messages import NO_USAGE, Usage
from ..core.turn import Turn
from .agent import Agent
from .beat import BEAT
from .context import entered, left
from .interrupts import honoured
from .middleware import chain
from .offering import resolve
from .ports import StoredTurn
from .scribe import RUNNABLE, AgentRunnerOptions, KnownTurn, Means, Scribe, driving
from .stream import ReplyAssembler, TextBeat
from .tools import Tool
from .workers import in_thread, settled

__all__ = ["AgentRunnerOptions", "Drive", "Perform", "summary"]

_SAVE_WITHIN = (
    0.08  # seconds until an event that no commit has carried is saved alone; with a look each 20 ms, 0.1 in all
)
INTERRUPTED = "interrupted by the user"
"""Why a turn ends that the stop button ends."""

_CANCEL_POLL = 0.5  # seconds between two looks at the store's cancel flag

Perform = Callable[["Drive", Effect], Input]


class Drive(Scribe):
    """Moves one turn. Any thread may speak to it; `drive` belongs to one."""

    def __init__(self, means: Means, agent: Agent, stored: StoredTurn, known: KnownTurn) -> None:
        super().__init__(means, agent.definition, stored, known)
        self.agent = agent
        self.caught: BaseException | None = None
        """What user code raised last."""
        self.raises: BaseException | None = None
        """A middleware's own error, raised to the caller if it ended the turn."""
        self.reply: ReplyAssembler | None = None
        """The model's reply, while it is read."""
        self.resolved: dict[str, Tool] = {}
        """Tools that the middlewares have resolved for this turn, as far as this drive has met them."""
        self._text = TextBeat(means.options.text_beat)
        self._stopped = False
        self._next_poll = means.monotonic() + _CANCEL_POLL
        self._context = contextvars.copy_context()

    # -- in the driving thread -----------------------------------------------------------------------------------------

    def drive(self, perform: Perform, steps: int | None = None) -> None:
        """Take steps until the turn waits or has ended, or `steps` of them; the caller holds the stop button back."""
        self.thread = threading.get_ident()
        outside, above = entered(None), driving.set((*driving.get(), self.turn.id))
        BEAT.join(self)
        try:
            while self.turn.status in RUNNABLE and steps != 0:
                self.step(perform)
                if self.broken is not None:  # a middleware may have swallowed it
                    raise self.broken
                steps = None if steps is None else steps - 1
            with self.performing():
                pass  # a stop that came after the last effect
        finally:
            BEAT.leave(self)
            self.known.failure = self.caught if self.turn.status is AgentStatus.FAILED else None
            self.caught = None
            driving.reset(above)
            left(outside)
            self._leave()
        if self.raises is not None and self.turn.status is AgentStatus.FAILED:
            raise self.raises

    def step(self, perform: Perform) -> None:
        """Take one step, through the agent's middlewares.

        A middleware that raises fails the turn, unless the turn already stands still; the error goes to the caller.
        """

        try:
            self._take_step(perform)
        except KeyboardInterrupt:
            with self.writing():
                self.interrupt(INTERRUPTED)
            raise
        except BaseException as error:
            if self.broken is None:
                self.say_if_runs(StepFailed(summary(error)))
            raise

    def tool(self, name: str) -> Tool:
        """The tool that a call names.

        Raises:
            AgentDriftError, InvalidAgentError: the middlewares, asked for it, have none or no clear one.
        """
        if (known := self.agent.tools.get(name) or self.resolved.get(name)) is None:
            known = self.resolved[name] = resolve(self.agent, self.turn, name)
        return known

    def performing(self) -> honoured:
        """A block in which user code runs, and the stop button is honoured."""
        if self._stopped:
            self._stopped = False
            raise KeyboardInterrupt
        return honoured()

    def stream(self, pieces: Sequence[Streamed]) -> None:
        """Say the pieces that the text beat lets go, in order with those that the beat sends."""
        if pieces:
            with self.writing():
                now = self.means.monotonic()
                for piece in pieces:
                    self._write_streamed(self._text.add(piece, now))

    # -- in any thread -------------------------------------------------------------------------------------------------

    @property
    def used(self) -> Usage:
        """What the call of the model that goes on here has used so far."""
        return self.reply.usage if self.reply is not None else NO_USAGE

    def why_leave(self) -> str:
        """Why what is at work should be left: somebody wants the turn to end or to do something else; "" if nobody."""
        if self.is_cancelled():
            return "the turn was cancelled"
        if self.turn.interrupt is not None:
            return "the user interrupted"
        return ""

    def is_cancelled(self) -> bool:
        """Whether somebody wants the turn to end; looks into the store at most twice a second."""
        if self.turn.cancel is not None:
            return True
        now = self.means.monotonic()
        if now < self._next_poll:
            return False
        self._next_poll = now + _CANCEL_POLL
        if self.means.store.is_cancel_requested(self.turn.id):
            self.say_if_runs(Cancel(reason="requested elsewhere"))
        return self.turn.cancel is not None

    def write(self, said: Input) -> None:
        """Let the turn hear it; text that has come is told first."""
        if not isinstance(said, Streamed):
            self._write_streamed(self._text.flush())
        super().write(said)

    def publish(self) -> None:
        """Deliver what waits; a listener's KeyboardInterrupt counts as the stop button, at the next effect."""
        while True:
            try:
                return self.known.mailbox.drain()
            except KeyboardInterrupt:
                self._stopped = True

    def tick(self) -> None:
        """A look from the beat: tell text that is due, save events that are due. Never waits for the turn's lock."""
        if not self.known.lock.acquire(blocking=False):
            return
        try:
            if self.broken is None:
                now = self.means.monotonic()
                self._write_streamed(self._text.due(now))
                if self._unsaved and now - self._unsaved_since >= _SAVE_WITHIN:
                    self._append(self._reserved)
        except Exception as error:  # the thread that drives meets it at its next word
            self.broken = self.broken or error
        finally:
            self.known.lock.release()
        if self.known.mailbox.is_left_waiting:  # listeners may be slow: not in the thread that everybody waits for
            self._context.copy().run(in_thread, self.publish, "agentflex-listeners")

    def _take_step(self, perform: Perform) -> None:
        def inner(_: Turn) -> Turn:
            self._step(perform)
            return self.turn

        before = self.turn
        chain(self.agent.middlewares, "around_step", inner)(before)
        if self.turn is before and self.runs:
            met = "a step that its middlewares did not let proceed"
            raise InvalidAgentError(met, "a turn that moves", "call proceed(turn) in around_step")

    def _step(self, perform: Perform) -> None:
        if not self.say_if_runs(Proceed()):
            return
        while self.effects:
            batch = [self.effects.popleft() for _ in range(len(self.effects))]
            if len(batch) == 1:
                self.say_if_runs(perform(self, batch[0]))
                self.reply = None
            else:
                self._perform_together(perform, batch)
            if self.turn.status is not AgentStatus.FAILED:
                self.raises = None  # the turn has got over it
            self.is_cancelled()

    def _perform_together(self, perform: Perform, batch: Sequence[Effect]) -> None:
        """Each in a thread of its own; what comes back is said as soon as it does."""

        def work(effect: Effect, done: Future[None]) -> None:
            try:
                self.say_if_runs(perform(self, effect))
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        at_work = []
        for effect in batch:
            at_work.append(done := Future[None]())
            in_thread(partial(work, effect, done), "agentflex-tool")
        for done in at_work:
            with self.performing():
                settled(done)
        for done in at_work:
            done.result()

    def _write_streamed(self, pieces: Iterable[Input]) -> None:
        for piece in pieces:
            if self.turn.status is AgentStatus.RUNNING:
                self.write(piece)

    def _leave(self) -> None:
        """Save what no commit has carried, and remember that nothing beyond it was told."""
        self.save_events()
        if self.broken is None:
            self.known.left_at = self.turn


def summary(error: BaseException, code: str = "") -> ErrorSummary:
    """What is kept of an exception; never raises, whatever the exception's own text does.

    What may succeed later is listed, not guessed: errors that say so themselves (`retryable`), connections, time-outs.
    """
    try:
        text = well_formed(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever else an exception's own text does
        text = ""
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        text = f"SystemExit({text})"
    after = getattr(error, "retry_after", None)
    return ErrorSummary(
        kind=kind,
        message=text[:10_000] or kind,
        code=code,
        retryable=getattr(error, "retryable", False) is True or isinstance(error, ConnectionError | TimeoutError),
        retry_after=float(after) if isinstance(after, int | float) and 0 <= after < math.inf else None,
        status=status if isinstance(status := getattr(error, "status", None), int) else None,
        provider_code=str(getattr(error, "provider_code", "")),
        request_id=str(getattr(error, "request_id", "")),
    )
