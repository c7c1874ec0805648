"""The runner: every verb by which turns are made, moved on, answered and ended. It holds no turn itself.

The engine runs in the caller's thread, so a traceback, a debugger and the stop button reach into the user's tool. The
`a`-twins do the same in a worker thread and wait for it in ticks, so that a cell that awaits feels an interrupt.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from ..core.advance import save_turn
from ..core.errors import (
    AgentDriftError,
    CommandRefusedError,
    IllegalTransitionError,
    InvalidValueError,
    RefusalReason,
    VersionConflictError,
)
from ..core.events import AgentEvent
from ..core.frozen import FrozenDict, freeze_strict, well_formed
from ..core.inputs import AgentResumeCommand, Cancel, Command, Interrupt, Migrate, Proceed, Suspend
from ..core.machine import AgentStatus
from ..core.questions import find
from ..core.turn import Turn
from .agent import Agent
from .answers import Responder, check, respond
from .drive import INTERRUPTED
from .handle import AgentTurn, turn_id_of
from .ids import new_turn_id
from .interrupts import held, honoured
from .loader import AgentLoader, Loader, misfits
from .loop import refuse_on_loop
from .offering import tools_of
from .opening import AgentTurnOptions, Said
from .ports import AgentEventListener, AgentTurnStore
from .publisher import Publisher
from .registry import registry_of
from .results import ToolResults
from .scribe import AgentRunnerOptions, KnownTurn, Means, Wait
from .streams import AgentStream
from .turns import Turns
from .workers import TICK, in_thread, in_ticks, in_worker

__all__ = ["AgentRunner", "AgentTurnOptions", "AnyTurn", "in_worker", "utc_now"]

R = TypeVar("R")

AnyTurn = AgentTurn | Turn | str


def utc_now() -> datetime:
    """The clock of a runner that was given none."""
    return datetime.now(UTC)


@dataclass(slots=True)
class _Leash:
    """Between a coroutine and its worker: the turn that is moved, and whether the coroutine has let go of it."""

    turn: AnyTurn | None = None
    let_go: bool = False


class AgentRunner:
    """Advances turns of a store.

    Args:
        store: Where turns are kept, for instance MemoryStore() or SqliteStore(path).
        loader: Where agents are found by id and version; by default an AgentLoader.
        listeners: Functions of an event.
        options: How it works.
        event_executor: Where listeners run; by default in the thread that published. A single-threaded one keeps the
            order and leaves the run's thread alone. The runner never shuts it down.
        signature: Metadata of every answer given through a handle, for instance {"by": "alice"}.
        clock, monotonic, wait, new_id: Time and ids, for tests that want their own; `wait` waits on a
            threading.Condition until a predicate holds or so many seconds are over, as Condition.wait_for does.
    """

    def __init__(
        self,
        store: AgentTurnStore,
        *,
        loader: Loader | None = None,
        listeners: Iterable[AgentEventListener] = (),
        options: AgentRunnerOptions | None = None,
        event_executor: Executor | None = None,
        signature: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Wait = in_ticks,
        new_id: Callable[[datetime], str] = new_turn_id,
    ) -> None:
        self.store = store
        self.loader: Loader = loader or AgentLoader()
        self.options = options or AgentRunnerOptions()
        self.signature: Mapping[str, Any] = dict(signature or {})
        self._publisher = Publisher(event_executor)
        self._means = Means(
            store=store, publisher=self._publisher, clock=clock, monotonic=monotonic, wait=wait, options=self.options,
            results=ToolResults(store, registry_of(store).recent),
        )  # fmt: skip
        self._turns = Turns(self._means, self.loader, new_id)
        for listener in listeners:
            self.add_event_listener(listener)

    # -- listeners -----------------------------------------------------------------------------------------------------

    def add_event_listener(self, listener: AgentEventListener, key: Any = None, *, last: bool = False) -> "AgentRunner":
        """Tell it every event. A named function is known by its module and name, so a cell run twice adds it once.

        One that comes `last` is told each event after all others.
        """
        self._publisher.add(listener, key, last=last)
        return self

    def remove_event_listener(self, listener: AgentEventListener, key: Any = None) -> "AgentRunner":
        """Tell it nothing more."""
        self._publisher.remove(listener, key)
        return self

    @property
    def listener_errors(self) -> Mapping[str, int]:
        """How often each listener raised."""
        return dict(self._publisher.errors)

    # -- making turns --------------------------------------------------------------------------------------------------

    def create(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """Save a new turn that is READY, and run nothing.

        Raises:
            ConversationBusyError: the conversation has a turn that has not ended.
            InvalidValueError: an input that is no message, or metadata that is no JSON.
        """
        with held():
            drive = self._turns.open(agent, input, conversation_id, options, takes=False)
        return AgentTurn(self, drive.known)

    def run(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
        responder: Responder | None = None,
    ) -> AgentTurn:
        """Make a turn and move it on until it is done or suspended; with a responder, until it is done.

        A failed turn is returned, not raised (`turn.check()` raises). What is raised: misuse, loss of the store, an
        interrupt, a middleware's own error; always after saving.
        """
        refuse_on_loop("run", "await arun")
        with held():
            drive = self._turns.open(agent, input, conversation_id, options)
            self._turns.see_through(drive.known, drive)
        turn = AgentTurn(self, drive.known)
        return self.answer_all(turn, responder) if responder is not None else turn

    def start(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """Make a turn, return at once, and move it on in a worker thread. `turn.wait()` waits for it."""
        with held():
            drive = self._turns.open(agent, input, conversation_id, options)
            self._turns.finish_elsewhere(drive)
        return AgentTurn(self, drive.known)

    def stream(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentStream:
        """Make a turn, move it on in a worker thread, and iterate over its events as they happen.

        The stream ends when the turn is done or suspended. Leaving the loop early leaves the turn to its worker.
        """
        with held():
            return self.follow(self.create(agent, input, conversation_id=conversation_id, options=options))

    def follow(self, turn: AnyTurn, *, after: int = 0) -> AgentStream:
        """Move a turn on in a worker thread, if it can be, and iterate over its events above a sequence number."""
        known = self._turns.newest(self._turns.expire(turn_id_of(turn))).known
        with held():
            if (drive := self._turns.take(known)) is not None:
                drive.thread = None
            try:
                return AgentStream(self, AgentTurn(self, known), partial(self._turns.see_through, known, drive), after)
            except BaseException:
                if drive is not None:
                    known.release(drive)
                raise

    # -- moving turns on -----------------------------------------------------------------------------------------------

    def step(self, turn: AnyTurn) -> AgentTurn:
        """Move it on by one step: at most one model call, and the tool calls it leads to."""
        refuse_on_loop("step", "await astep")
        return self._move(turn, steps=1)

    def run_until_blocked(self, turn: AnyTurn) -> AgentTurn:
        """Move it on until it is done or suspended. One that is, is returned as it stands.

        Where another thread moves it, wait for that.
        """
        refuse_on_loop("run_until_blocked", "await arun_until_blocked")
        return self._move(turn)

    def go_on(self, turn: AnyTurn) -> AgentTurn:
        """Like run_until_blocked, in a worker thread; returns at once."""
        newest = self._turns.newest(turn_id_of(turn))
        with held():
            if (drive := self._turns.take(newest.known)) is not None:
                self._turns.finish_elsewhere(drive)
        return AgentTurn(self, newest.known)

    def resume(self, turn: AnyTurn, command: Command, *, responder: Responder | None = None) -> AgentTurn:
        """Answer a question, and move the turn on in this thread.

        Raises:
            CommandRefusedError: the answer does not fit, or came second; nothing changed.
        """
        refuse_on_loop("resume", "await aresume")
        handle = self._resume(turn, command)
        return self.answer_all(handle, responder) if responder is not None else handle

    def answer_all(self, turn: AgentTurn, responder: Responder) -> AgentTurn:
        """Let the responder answer whatever the turn asks, and move it on, until it has ended.

        A retry that is due later than `run` waits for is nobody's to answer: such a turn is left to its timer.

        Raises:
            UnansweredError: the responder has no answer; the turn goes on waiting.
        """
        return self._answer_all(turn, responder, _Leash())

    def submit_resume(self, turn: AnyTurn, command: Command) -> AgentTurn:
        """Answer a question without running anything: the turn is then READY, or waits for the other answers.

        Raises:
            CommandRefusedError: the answer does not fit, or came second; nothing changed.
            AgentVersionNotFoundError, AgentDriftError: the agent that would go on, or a tool that a middleware has to
                resolve for it, is not here; nothing changed.
        """
        if not isinstance(command, AgentResumeCommand):
            mend = "make one: AgentResumeCommand.approve_tool(id), or call turn.approve()"
            raise InvalidValueError("command", command, "an answer", mend)
        id = turn_id_of(turn)
        while True:
            newest = self._turns.newest(self._turns.expire(id))
            agent = self._turns.agent(newest.turn)
            question = find(newest.turn, command, self._means.clock())
            with honoured():  # a schema's pattern may take its time
                check(newest.turn, question, command, tools_of(agent, newest.turn))
            # Who was faster may have given this very answer, which `find` then refuses, or another one.
            with suppress(VersionConflictError), self._turns.writing(newest) as scribe:
                find(scribe.turn, command, self._means.clock())
                scribe.write(command)
                return AgentTurn(self, newest.known)

    def restore(self, turn: AnyTurn, *, migrate_to: Agent | None = None) -> AgentTurn:
        """A turn out of the store, with exactly the agent it began with. Nothing runs.

        With `migrate_to` it goes on with that agent from now on: another version of the same one, which must have what
        the waiting calls need. Who did it, and from which version, is on record.

        Raises:
            TurnNotFoundError, AgentVersionNotFoundError, AgentDriftError: what it needs is not there; nothing changed.
            CommandRefusedError: it is to be migrated, but has ended or runs now.
        """
        if migrate_to is not None:
            self._migrate(turn_id_of(turn), migrate_to)
        newest = self._turns.newest(turn_id_of(turn))
        if not newest.turn.status.is_terminal:
            self._turns.agent(newest.turn)
        return AgentTurn(self, newest.known)

    def suspend(self, turn: AnyTurn, message: str, *, metadata: Mapping[str, Any] | None = None) -> AgentTurn:
        """Ask the person a plain question before the turn goes on; a running one stops at the end of its step.

        Raises:
            CommandRefusedError: it has ended, or waits already.
        """
        kept: FrozenDict = freeze_strict(dict(metadata or {}), "metadata")
        id = turn_id_of(turn)
        while True:
            newest = self._turns.newest(id)
            try:
                with self._turns.writing(newest) as scribe:
                    question = f"{id}.ask.{scribe.turn.sequence + 1}"
                    scribe.write(Suspend(correlation_id=question, message=well_formed(message), metadata=kept))
                    return AgentTurn(self, newest.known)
            except VersionConflictError:
                continue
            except IllegalTransitionError as error:
                raise _refused(self._turns.newest(id).turn, "suspended") from error

    def cancel(self, turn: AnyTurn, reason: str = "", **metadata: Any) -> bool:
        """End a turn at its next safe point. False if that was asked for before, or it has ended.

        It needs no agent: a turn whose agent is gone can still be ended.
        """
        id = turn_id_of(turn)
        said = Cancel(reason=well_formed(reason), metadata=freeze_strict(metadata, "metadata"))
        first: bool | None = None
        while True:
            newest = self._turns.newest(id)
            if newest.turn.status.is_terminal:
                return bool(first)
            if first is None:
                first = self.store.request_cancel(id)
            with suppress(VersionConflictError, IllegalTransitionError), self._turns.writing(newest) as scribe:
                scribe.write(said)
                if scribe.runs and scribe is not newest.known.drive:
                    scribe.write(Proceed())  # nobody is at work in an open step: its process is gone
                return first

    def interrupt(self, turn: AnyTurn, message: str, **metadata: Any) -> AgentTurn:
        """Leave what goes on, close its calls, and go on with this message of the user, in this thread.

        Raises:
            CommandRefusedError: the turn has ended; a new one takes the message.
        """
        refuse_on_loop("interrupt", "await ainterrupt")
        handle = self.submit_interrupt(turn, message, **metadata)
        return self._move(handle)

    def submit_interrupt(self, turn: AnyTurn, message: str, **metadata: Any) -> AgentTurn:
        """Like `interrupt`, without running anything: a turn that runs leaves off at its next safe point."""
        said = Interrupt(message=well_formed(message), metadata=freeze_strict(metadata, "metadata"))
        id = turn_id_of(turn)
        while True:
            newest = self._turns.newest(id)
            try:
                with self._turns.writing(newest) as scribe:
                    scribe.write(said)
                    return AgentTurn(self, newest.known)
            except VersionConflictError:
                continue
            except IllegalTransitionError as error:
                raise _refused(self._turns.newest(id).turn, "interrupted") from error

    def save_snapshot(self, turn: AnyTurn) -> int:
        """Save a new version of a turn that nobody drives, and return its number.

        Raises:
            VersionConflictError: another runner saved it first; or `turn` is a snapshot that is out of date.
            CommandRefusedError: it runs now, or has ended.
        """
        newest = self._turns.newest(turn_id_of(turn))
        if isinstance(turn, Turn) and turn.version != newest.turn.version:
            raise VersionConflictError(turn.id, turn.version, newest.turn.version)
        if newest.known.driven_by is not None or newest.turn.status.is_terminal:
            raise _refused(newest.turn, "saved again")
        with self._turns.writing(newest) as scribe:
            scribe.record(save_turn(scribe.definition, scribe.turn, self._means.clock()))
            return scribe.turn.version

    def in_thread(self, function: Callable[[], object]) -> None:
        """Run it in a worker thread, in the caller's context."""
        in_thread(function)

    # -- looking -------------------------------------------------------------------------------------------------------

    def reload(self, turn_id: str) -> Turn:
        """The newest state in the store; handles of this turn see it from now on."""
        return self._turns.newest(turn_id).turn

    def events(self, turn: AnyTurn, *, after: int = 0) -> list[AgentEvent]:
        """A turn's events above a sequence number, in order; those not saved yet are saved first."""
        id = turn_id_of(turn)
        if (known := self._turns.known(id)) is not None and (drive := known.drive) is not None:
            drive.save_events()
        return self.store.events(id, after=after)

    def result(self, address: str) -> Any:
        """What a tool returned: the value itself, by its address or the id of its call.

        In the kernel that ran the tool it is the very object, for the newest results; else what the store has of it.

        Raises:
            ResultNotFoundError: there is no such result, or only its text was kept; says which.
        """
        return self._means.results.find(address)

    # -- the a-twins ---------------------------------------------------------------------------------------------------

    async def arun(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
        responder: Responder | None = None,
    ) -> AgentTurn:
        """`run`, for a coroutine. Cancelling the coroutine (the stop button, in a cell that awaits) ends the turn."""

        def work(leash: _Leash) -> AgentTurn:
            turn = self.create(agent, input, conversation_id=conversation_id, options=options)
            leash.turn = turn
            if leash.let_go:
                self._turns.interrupt(turn.id, INTERRUPTED)
            self._move(turn)
            return turn if responder is None else self._answer_all(turn, responder, leash)

        return await self._leashed(work, _Leash())

    async def acreate(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """`create`, for a coroutine."""
        return await in_worker(self.create, agent, input, conversation_id=conversation_id, options=options)

    async def astart(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """`start`, for a coroutine; `await turn.done()` waits for it."""
        return await in_worker(self.start, agent, input, conversation_id=conversation_id, options=options)

    async def astream(
        self,
        agent: Agent | str,
        input: Said,
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentStream:
        """`stream`, for a coroutine: `async for event in await runner.astream(...)`."""
        return await in_worker(self.stream, agent, input, conversation_id=conversation_id, options=options)

    async def afollow(self, turn: AnyTurn, *, after: int = 0) -> AgentStream:
        """`follow`, for a coroutine."""
        return await in_worker(self.follow, turn, after=after)

    async def astep(self, turn: AnyTurn) -> AgentTurn:
        """`step`, for a coroutine."""
        return await self._leashed(lambda _: self._move(turn, steps=1), _Leash(turn))

    async def arun_until_blocked(self, turn: AnyTurn) -> AgentTurn:
        """`run_until_blocked`, for a coroutine."""
        return await self._leashed(lambda _: self._move(turn), _Leash(turn))

    async def aresume(self, turn: AnyTurn, command: Command, *, responder: Responder | None = None) -> AgentTurn:
        """`resume`, for a coroutine."""

        def work(leash: _Leash) -> AgentTurn:
            handle = self._resume(turn, command)
            return handle if responder is None else self._answer_all(handle, responder, leash)

        return await self._leashed(work, _Leash(turn))

    async def asubmit_resume(self, turn: AnyTurn, command: Command) -> AgentTurn:
        """`submit_resume`, for a coroutine."""
        return await in_worker(self.submit_resume, turn, command)

    async def aanswer_all(self, turn: AgentTurn, responder: Responder) -> AgentTurn:
        """`answer_all`, for a coroutine."""
        return await self._leashed(lambda leash: self._answer_all(turn, responder, leash), _Leash(turn))

    async def acancel(self, turn: AnyTurn, reason: str = "", **metadata: Any) -> bool:
        """`cancel`, for a coroutine."""
        return await in_worker(self.cancel, turn, reason, **metadata)

    async def asuspend(self, turn: AnyTurn, message: str, *, metadata: Mapping[str, Any] | None = None) -> AgentTurn:
        """`suspend`, for a coroutine."""
        return await in_worker(self.suspend, turn, message, metadata=metadata)

    async def asave_snapshot(self, turn: AnyTurn) -> int:
        """`save_snapshot`, for a coroutine."""
        return await in_worker(self.save_snapshot, turn)

    async def ainterrupt(self, turn: AnyTurn, message: str, **metadata: Any) -> AgentTurn:
        """`interrupt`, for a coroutine."""
        return await self._leashed(lambda _: self.interrupt(turn, message, **metadata), _Leash(turn))

    async def arestore(self, turn: AnyTurn, *, migrate_to: Agent | None = None) -> AgentTurn:
        """`restore`, for a coroutine."""
        return await in_worker(self.restore, turn, migrate_to=migrate_to)

    async def await_quiet(self, known: KnownTurn) -> None:
        """Wait, without blocking the loop, until nobody drives the turn.

        Raises:
            CommandRefusedError: the turn's own code waits for it.
        """
        known.wait(0)
        while not known.is_quiet:
            await asyncio.sleep(TICK / 20 if known.turn.status.is_terminal else TICK / 4)

    async def _leashed(self, work: Callable[[_Leash], R], leash: _Leash) -> R:
        """Work in another thread. A turn that the coroutine lets go of ends now, though its thread may live on."""
        try:
            return await in_worker(work, leash)
        except asyncio.CancelledError:
            leash.let_go = True
            if leash.turn is not None:
                await asyncio.shield(in_worker(self._turns.interrupt, turn_id_of(leash.turn), INTERRUPTED))
            raise

    # -- inside --------------------------------------------------------------------------------------------------------

    def _move(self, turn: AnyTurn, steps: int | None = None) -> AgentTurn:
        known = self._turns.newest(self._turns.expire(turn_id_of(turn))).known
        with held():
            if steps is None:
                self._turns.see_through(known)
            else:
                self._turns.move(known, steps)
        return AgentTurn(self, known)

    def _migrate(self, turn_id: str, agent: Agent) -> None:
        while True:
            newest = self._turns.newest(self._turns.expire(turn_id))
            identity = newest.turn.identity
            said = _migration(newest.turn, agent, self.signature)
            self.loader.register(agent)
            if (identity.agent_version, identity.definition_hash) == (agent.version, agent.definition_hash):
                return
            try:
                with self._turns.writing(newest) as scribe:
                    if newest.known.driven_by is not None:
                        raise _refused(scribe.turn, "migrated")
                    if scribe.turn.version == newest.turn.version:  # else what was checked is out of date
                        scribe.write(said)
                        return
            except VersionConflictError:
                continue
            except IllegalTransitionError as error:
                raise _refused(self._turns.newest(turn_id).turn, "migrated") from error

    def _resume(self, turn: AnyTurn, command: Command) -> AgentTurn:
        with held():
            return self._move(self.submit_resume(turn, command))

    def _answer_all(self, turn: AgentTurn, responder: Responder, leash: _Leash) -> AgentTurn:
        while turn.questions and turn.status is not AgentStatus.RETRY_SCHEDULED:  # that one is for its timer
            state = turn.to_snapshot()
            command = respond(state, state.questions[0], responder)
            if leash.let_go:
                break  # nobody waits for the answer any more
            self._resume(turn, command)
        return turn


def _refused(turn: Turn, verb: str) -> CommandRefusedError:
    final, waits = turn.status.is_terminal, turn.status.is_blocked
    reason = RefusalReason.FINAL if final else RefusalReason.WRONG_KIND if waits else RefusalReason.NOT_BLOCKED
    return CommandRefusedError(
        reason, f"turn {turn.id} is {turn.status} and cannot be {verb}; nothing changed.", turn_id=turn.id
    )


def _migration(turn: Turn, agent: Agent, signature: Mapping[str, Any]) -> Migrate:
    """What tells the turn to go on with this agent.

    Raises:
        CommandRefusedError: the turn has ended.
        AgentDriftError: it is another agent, or lacks what a waiting call needs.
    """
    if turn.status.is_terminal:
        raise _refused(turn, "migrated")
    if agent.id != turn.identity.agent_id:
        met = f"is not agent {turn.identity.agent_id!r}, with which turn {turn.id} began"
        raise AgentDriftError(agent.id, agent.version, met, "migrate it to another version of the same agent")
    if found := misfits(agent, turn):
        mend = "answer or cancel those calls first, or migrate to a version that has what they need"
        raise AgentDriftError(agent.id, agent.version, f"does not fit turn {turn.id}", mend, found)
    return Migrate(
        agent_version=agent.version,
        definition_hash=agent.definition_hash,
        instructions=agent.definition.instructions,
        metadata=freeze_strict(dict(signature), "signature"),
    )
