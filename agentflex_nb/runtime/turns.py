"""The turns of one store, as a runner works on them: looked up, written to, taken, driven.

Rule: one turn has one writer at a time in this process, under the lock of its `KnownTurn`; other processes are kept out
by the store's compare-and-set.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ..core.agent import AgentDefinition
from ..core.errors import (
    AgentDriftError,
    AgentVersionNotFoundError,
    CommandRefusedError,
    IllegalTransitionError,
    InvalidValueError,
    StoreError,
    TurnNotFoundError,
    VersionConflictError,
)
from ..core.frozen import FrozenDict
from ..core.inputs import Cancel, Expired, Retry
from ..core.machine import AgentStatus
from ..core.turn import Question, Turn
from .agent import Agent
from .alarm import ALARM
from .drive import INTERRUPTED, Drive
from .interrupts import held, honoured
from .loader import Loader, load, load_active
from .opening import AgentTurnOptions, Said, opened
from .perform import perform
from .ports import StoredTurn
from .registry import registry_of
from .scribe import RUNNABLE, STOPPABLE, KnownTurn, Means, Scribe
from .workers import in_thread

_log = logging.getLogger(__name__)

_NOT_HERE = (StoreError, AgentVersionNotFoundError, AgentDriftError)
"""Why a timer leaves a turn alone: its lab is closed by now, or its agent is gone."""

_SETTLE = 5.0  # seconds that a run waits for a listener in another thread to finish with the turn's events


@dataclass(frozen=True, slots=True)
class Newest:
    """A turn's newest state: as a drive of this process has it, or, with `stored`, as the store has it."""

    turn: Turn
    known: KnownTurn
    stored: StoredTurn | None = None


class Turns:
    """What the verbs of a runner are made of."""

    def __init__(self, means: Means, loader: Loader, new_id: Callable[[datetime], str]) -> None:
        self._means, self._loader, self._new_id = means, loader, new_id
        self._registry = registry_of(means.store)

    # -- looking -------------------------------------------------------------------------------------------------------

    def newest(self, turn_id: str) -> Newest:
        """A turn as it stands.

        Raises:
            TurnNotFoundError: there is none.
        """
        known = self._registry.get(turn_id)
        if known is not None and (drive := known.driven_by) is not None:
            return Newest(drive.turn, known)
        stored = self._stored(turn_id)
        return Newest(stored.turn, self._registry.know(stored.turn), stored)

    def known(self, turn_id: str) -> KnownTurn | None:
        """What this process knows of a turn, if somebody holds it."""
        return self._registry.get(turn_id)

    def agent(self, turn: Turn) -> Agent:
        """The very agent with which the turn goes on.

        Raises:
            AgentVersionNotFoundError, AgentDriftError: it is not there, or cannot go on with this turn.
        """
        return load(self._loader, turn)

    # -- writing -------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, newest: Newest) -> Iterator[Scribe]:
        """The drive at work on a turn, or a scribe of its own; nobody else in this process writes to it meanwhile.

        Raises:
            VersionConflictError: another process was faster; look again.
        """
        known = newest.known
        with held():
            try:
                with known.lock:
                    yield known.driven_by or self._new_scribe(newest)
            finally:
                known.mailbox.drain()

    def interrupt(self, turn_id: str, why: str) -> None:
        """End a turn that could be moved on, now: what is at work goes on for nobody."""
        while (newest := self.newest(turn_id)).turn.status in STOPPABLE:
            with suppress(VersionConflictError, IllegalTransitionError), self.writing(newest) as scribe:
                scribe.interrupt(why)
                if (drive := newest.known.drive) is not None:
                    newest.known.release(drive)

    # -- driving -------------------------------------------------------------------------------------------------------

    def open(
        self,
        agent: Agent | str,
        said: Said,
        conversation_id: str | None,
        options: AgentTurnOptions | None,
        *,
        takes: bool = True,
    ) -> Drive:
        """A new turn, saved, with a drive that has taken it, if it `takes`."""
        if not isinstance(agent, str | Agent):
            raise InvalidValueError(
                "agent", agent, "an Agent, or the id of one that is registered", "pass one of these"
            )
        agent = load_active(self._loader, agent) if isinstance(agent, str) else self._loader.register(agent)
        means, now = self._means, self._means.clock()
        id = self._new_id(now)
        start = opened(means.store, agent, said, id=id, now=now, conversation_id=conversation_id, options=options)
        blank = Turn(identity=start.turn.identity)
        known = self._registry.know(blank)
        drive = Drive(means, agent, StoredTurn(turn=blank), known)
        with known.lock:
            if known.turn is not blank:
                raise VersionConflictError(id, blank.version, known.turn.version)
            known.drive = drive if takes else None
        try:
            drive.begin(start)
        except BaseException:
            known.release(drive)
            raise
        return drive

    def take(self, known: KnownTurn) -> Drive | None:
        """A drive that has taken the turn; None if somebody drives it already, or there is nothing to drive."""
        with known.lock:
            if known.driven_by is not None:
                return None
            stored = self._stored(known.turn.id)
            known.learn(stored.turn)
            if stored.turn.status not in RUNNABLE:
                return None
            drive = known.drive = Drive(self._means, self.agent(stored.turn), stored, known)
        try:
            if stored.cancel_requested and drive.turn.cancel is None:
                drive.say_if_runs(Cancel(reason="requested elsewhere"))  # whoever asked may have ended it by now
        except BaseException:
            known.release(drive)
            raise
        return drive

    def move(self, known: KnownTurn, steps: int | None = None) -> None:
        """Drive the turn here, or wait for whoever does.

        Raises:
            CommandRefusedError: this very thread drives it already.
        """
        with held():
            while (drive := self.take(known)) is None and known.driven_by is not None:
                with honoured():
                    known.wait(retries=False)  # its end is ours, unless an answer came meanwhile
            if drive is not None:
                self.finish(drive, steps)

    def finish(self, drive: Drive, steps: int | None = None) -> None:
        """Drive a turn that has been taken, and let go of it."""
        known = drive.known
        try:
            drive.drive(perform, steps)
        finally:
            known.release(drive)
            if drive.broken is not None:
                self._forget(known)
            with honoured():
                known.mailbox.settle(_SETTLE)

    def finish_elsewhere(self, drive: Drive) -> None:
        """The same, in a worker thread; returns at once."""
        drive.thread = None
        drive.known.tend()
        try:
            in_thread(partial(self._finish_all, drive), f"agentflex-turn-{drive.turn.id[-6:]}")
        except BaseException:
            drive.known.leave_alone()
            drive.known.release(drive)
            raise

    # -- time ----------------------------------------------------------------------------------------------------------

    def expire(self, turn_id: str) -> str:
        """Resolve the questions of a turn that nobody answered in time; whoever looks first does it."""
        while True:
            newest = self.newest(turn_id)
            now = self._means.clock()
            late = [question.id for question in newest.turn.questions if _is_over(question, now)]
            if not late:
                return turn_id
            with suppress(VersionConflictError, IllegalTransitionError), self.writing(newest) as scribe:
                scribe.write(Expired(late[0]))

    def see_through(self, known: KnownTurn, drive: Drive | None = None) -> None:
        """Drive the turn here until it is done or suspended, retries that are due soon included.

        Retries that are due later are left to a timer. The stop button, pressed while this waits, ends the turn.
        """
        known.tend()
        try:
            if drive is not None:
                self.finish(drive)
            else:
                self.move(known)
            self._wait_for_retries(known)
        finally:
            known.leave_alone()
        self._set_alarm(known)

    def _wait_for_retries(self, known: KnownTurn) -> None:
        try:
            while (due_in := self._due_in(known.turn)) is not None and self._is_soon(due_in):
                with honoured():
                    known.wait_for_change(self._means.wait, max(due_in, 0.0))
                self._retry(known)
        except KeyboardInterrupt:
            self.interrupt(known.turn.id, INTERRUPTED)
            raise

    def _retry(self, known: KnownTurn) -> None:
        """Try again what is due, unless it is not, or somebody else does."""
        newest = self.newest(known.turn.id)
        if (due_in := self._due_in(newest.turn)) is None or due_in > 0:
            return
        self.agent(newest.turn)  # one that is not here must not leave the turn half begun
        said = Retry(correlation_id=newest.turn.questions[0].id, metadata=FrozenDict(by="schedule"))
        with suppress(VersionConflictError, IllegalTransitionError, CommandRefusedError):
            with self.writing(newest) as scribe:
                scribe.write(said)
            self.move(known)

    def _due_in(self, turn: Turn) -> float | None:
        """Seconds until a scheduled retry may begin; None for a turn without one."""
        if turn.status is not AgentStatus.RETRY_SCHEDULED or turn.suspension is None or turn.suspension.due_at is None:
            return None
        return (turn.suspension.due_at - self._means.clock()).total_seconds()

    def _is_soon(self, due_in: float) -> bool:
        return due_in <= self._means.options.max_retry_wait

    def _set_alarm(self, known: KnownTurn) -> None:
        """Let a timer go on with a turn that waits for a time. The time itself is on disk: a timer may be lost."""
        id = known.turn.id
        if (due_in := self._due_in(known.turn)) is not None:
            if tended := self._is_soon(due_in):
                known.tend()
            wake = partial(self._wake, known, tended)
        elif (due_in := self._over_in(known.turn)) is not None:
            wake = partial(self._close_late, id)
        else:
            return
        ALARM.set(due_in, partial(in_thread, wake, f"agentflex-turn-{id[-6:]}"))

    def _over_in(self, turn: Turn) -> float | None:
        """Seconds until the first question expires; None for a turn without one that does."""
        ends = [question.expires_at for question in turn.questions if question.expires_at is not None]
        return (min(ends) - self._means.clock()).total_seconds() if ends else None

    def _close_late(self, turn_id: str) -> None:
        """Resolve what nobody answered in time, and go on with the turn."""
        try:
            self.see_through(self.newest(self.expire(turn_id)).known)
        except _NOT_HERE as error:  # whoever looks next does it
            _log.info("turn %s does not go on here: %s", turn_id, error)

    def _wake(self, known: KnownTurn, tended: bool) -> None:
        if not tended:
            known.tend()
        try:
            self._retry(known)
            self._set_alarm(known)
        except _NOT_HERE as error:  # it stays due, for whoever looks next
            _log.info("turn %s is not tried again here: %s", known.turn.id, error)
        finally:
            known.leave_alone()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _finish_all(self, drive: Drive) -> None:
        try:
            self.finish(drive)
            self._set_alarm(drive.known)
        finally:
            drive.known.leave_alone()

    def _stored(self, turn_id: str) -> StoredTurn:
        if (stored := self._means.store.load(turn_id)) is None:
            raise TurnNotFoundError(turn_id)
        return stored

    def _new_scribe(self, newest: Newest) -> Scribe:
        stored = newest.stored or self._stored(newest.turn.id)
        return Scribe(self._means, self._definition(stored.turn), stored, newest.known)

    def _definition(self, turn: Turn) -> AgentDefinition:
        """What the core must know of the agent. To end a turn, the name of one that is gone will do."""
        try:
            return self.agent(turn).definition
        except (AgentVersionNotFoundError, AgentDriftError):
            identity = turn.identity
            return AgentDefinition(id=identity.agent_id, version=identity.agent_version, name=identity.agent_id)

    def _forget(self, known: KnownTurn) -> None:
        """What this process has of a turn that could not be saved is not so; what the store has, is."""
        with suppress(Exception), known.lock:
            if known.driven_by is None:
                known.turn = self._stored(known.turn.id).turn


def _is_over(question: Question, now: datetime) -> bool:
    return question.expires_at is not None and now >= question.expires_at
