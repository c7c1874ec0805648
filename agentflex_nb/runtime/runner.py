"""The runner: every verb by which turns are made, moved on, answered and ended. It holds no turn itself.

The engine runs in the caller's thread, so a traceback, a debugger and the stop button reach into the user's tool. The
`a`-twins do the same in a worker thread and wait for it in ticks, so that a cell that awaits feels an interrupt.
"""

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from ..core.advance import open_turn, save_turn
from ..core.agent import AgentExecutionPolicy
from ..core.errors import (
    CommandRefusedError,
    IllegalTransitionError,
    RefusalReason,
    TurnNotFoundError,
    VersionConflictError,
)
from ..core.events import AgentEvent
from ..core.frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from ..core.inputs import Cancel, Command, Proceed, Suspend
from ..core.machine import AgentStatus
from ..core.messages import Message, user
from ..core.questions import find
from ..core.turn import Turn, TurnIdentity
from .agent import Agent
from .answers import Responder, check, respond
from .conversations import attach
from .drive import AgentRunnerOptions, Drive
from .handle import AgentTurn, turn_id_of
from .ids import new_turn_id
from .loader import AgentLoader, fitting
from .loop import refuse_on_loop
from .perform import perform
from .ports import AgentEventListener, AgentTurnStore, StoredTurn
from .publisher import Publisher
from .registry import KnownTurn, registry_of

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

_TICK = 0.2  # seconds between two looks of a waiting coroutine; an interrupt is felt within it (ipykernel issue 881)
_SETTLE = 5.0  # seconds that a run waits for a listener in another thread to finish with the turn's events
_RUNNABLE = (AgentStatus.READY, AgentStatus.RUNNING)

AnyTurn = AgentTurn | Turn | str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnOptions:
    """What one turn does differently: its limits as a whole, streaming, metadata. Never tools or approvals."""

    execution_policy: AgentExecutionPolicy | None = None
    streaming: bool = True
    metadata: Mapping[str, Any] | None = None


def utc_now() -> datetime:
    """The clock of a runner that was given none."""
    return datetime.now(UTC)


class AgentRunner:
    """Advances turns of a store.

    Args:
        store: Where turns are kept, for instance MemoryStore() or SqliteStore(path).
        loader: Where agents are found by id and version.
        listeners: Functions of an event.
        options: How it works.
        event_executor: Where listeners run; by default in the thread that published. A single-threaded one keeps the
            order and leaves the run's thread alone. The runner never shuts it down.
        signature: Metadata of every answer given through a handle, for instance {"by": "alice"}.
        clock, monotonic, new_id: Time and ids, for tests that want their own.
    """

    def __init__(
        self,
        store: AgentTurnStore,
        *,
        loader: AgentLoader | None = None,
        listeners: Iterable[AgentEventListener] = (),
        options: AgentRunnerOptions | None = None,
        event_executor: Executor | None = None,
        signature: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        new_id: Callable[[datetime], str] = new_turn_id,
    ) -> None:
        self.store = store
        self.loader = loader or AgentLoader()
        self.options = options or AgentRunnerOptions()
        self.signature: Mapping[str, Any] = dict(signature or {})
        self._publisher = Publisher(event_executor)
        self._registry = registry_of(store)
        self._clock, self._monotonic, self._new_id = clock, monotonic, new_id
        for listener in listeners:
            self.add_event_listener(listener)

    # -- listeners -----------------------------------------------------------------------------------------------------

    def add_event_listener(self, listener: AgentEventListener, key: Any = None) -> "AgentRunner":
        """Tell it every event. A named function is known by its module and name, so a cell run twice adds it once."""
        self._publisher.add(listener, key)
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
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """Save a new turn that is READY, and run nothing.

        Raises:
            ConversationBusyError: the conversation has a turn that has not ended.
            InvalidValueError: metadata that is no JSON.
        """
        options = options or AgentTurnOptions()
        agent = self.loader.load_active(agent) if isinstance(agent, str) else self.loader.register(agent)
        definition, now = agent.definition, self._clock()
        attached = attach(self.store, conversation_id, definition) if conversation_id is not None else ()
        metadata: FrozenDict = freeze_strict(dict(options.metadata), "metadata") if options.metadata else EMPTY
        id = self._new_id(now)
        identity = TurnIdentity(
            id=id,
            root_turn_id=id,
            conversation_id=conversation_id,
            agent_id=agent.id,
            agent_version=agent.version,
            created_at=now,
            instructions=definition.instructions,
            policy=options.execution_policy or definition.execution_policy,
            streaming=options.streaming,
            metadata=metadata,
            attached=len(attached),
        )
        opened = open_turn(definition, identity, (*attached, *_messages(input)), now)
        blank = Turn(identity=identity)
        known = self._registry.know(blank)
        self._new_drive(agent, StoredTurn(turn=blank), known).begin(opened)
        return AgentTurn(self, known)

    def run(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
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
        turn = self.create(agent, input, conversation_id=conversation_id, options=options)
        self.run_until_blocked(turn)
        return self.answer_all(turn, responder) if responder is not None else turn

    def start(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """Make a turn, return at once, and move it on in a worker thread. `turn.wait()` waits for it."""
        turn = self.create(agent, input, conversation_id=conversation_id, options=options)
        self.go_on(turn)
        return turn

    # -- moving turns on -----------------------------------------------------------------------------------------------

    def step(self, turn: AnyTurn) -> AgentTurn:
        """Move it on by one step: at most one model call, and the tool calls it leads to."""
        refuse_on_loop("step", "await astep")
        return self._move(turn, steps=1)

    def run_until_blocked(self, turn: AnyTurn) -> AgentTurn:
        """Move it on until it is done or suspended. One that is, is returned as it stands."""
        refuse_on_loop("run_until_blocked", "await arun_until_blocked")
        return self._move(turn)

    def go_on(self, turn: AnyTurn) -> AgentTurn:
        """Like run_until_blocked, in a worker thread; returns at once."""
        known = self._load(turn_id_of(turn))[1]
        drive = self._drive_of(known)
        if drive is not None:
            _in_thread(functools.partial(self._finish, drive), f"agentflex-turn-{known.turn.id[-6:]}")
        return AgentTurn(self, known)

    def resume(self, turn: AnyTurn, command: Command, *, responder: Responder | None = None) -> AgentTurn:
        """Answer a question, and move the turn on in this thread.

        Raises:
            CommandRefusedError: the answer does not fit, or came second; nothing changed.
        """
        refuse_on_loop("resume", "await aresume")
        handle = self.submit_resume(turn, command)
        self.run_until_blocked(handle)
        return self.answer_all(handle, responder) if responder is not None else handle

    def answer_all(self, turn: AgentTurn, responder: Responder) -> AgentTurn:
        """Let the responder answer whatever the turn asks, and move it on, until it has ended.

        Raises:
            UnansweredError: the responder has no answer; the turn goes on waiting.
        """
        while turn.questions:
            state = turn.to_snapshot()
            self.submit_resume(turn, respond(state, state.questions[0], responder))
            self._move(turn)
        return turn

    def submit_resume(self, turn: AnyTurn, command: Command) -> AgentTurn:
        """Answer a question without running anything: the turn is then READY, or waits for the other answers."""
        id = turn_id_of(turn)
        while True:
            stored, known = self._load(id)
            question = find(stored.turn, command)
            check(stored.turn, question, command)
            agent = self._agent(stored.turn)
            try:
                self._new_drive(agent, stored, known).say(command)
            except VersionConflictError:
                continue  # somebody was faster: either with this very answer, which `find` then refuses, or with another
            return AgentTurn(self, known)

    def restore(self, turn: AnyTurn) -> AgentTurn:
        """A turn out of the store, with exactly the agent it began with. Nothing runs.

        Raises:
            TurnNotFoundError, AgentVersionNotFoundError, AgentDriftError: what it needs is not there.
        """
        stored, known = self._load(turn_id_of(turn))
        if not stored.turn.status.is_terminal:
            self._agent(stored.turn)
        return AgentTurn(self, known)

    def suspend(self, turn: AnyTurn, message: str, *, metadata: Mapping[str, Any] | None = None) -> AgentTurn:
        """Ask the person a plain question before the turn goes on; a running one stops at the end of its step.

        Raises:
            CommandRefusedError: it has ended, or waits already.
        """
        kept: FrozenDict = freeze_strict(dict(metadata or {}), "metadata")
        id = turn_id_of(turn)
        while True:
            stored, known = self._load(id)
            said = Suspend(
                correlation_id=f"{id}.ask.{known.turn.sequence + 1}", message=well_formed(message), metadata=kept
            )
            try:
                (known.drive or self._new_drive(self._agent(stored.turn), stored, known)).say(said)
            except VersionConflictError:
                continue
            except IllegalTransitionError as error:
                raise _refused(stored.turn, "suspended") from error
            return AgentTurn(self, known)

    def cancel(self, turn: AnyTurn, reason: str = "", **metadata: Any) -> bool:
        """End a turn at its next safe point. False if that was asked for before, or it has ended."""
        id = turn_id_of(turn)
        said = Cancel(reason=well_formed(reason), metadata=freeze_strict(metadata, "metadata"))
        first: bool | None = None
        while True:
            stored, known = self._load(id)
            if stored.turn.status.is_terminal:
                return bool(first)
            raised = self.store.request_cancel(id)
            first = raised if first is None else first
            try:
                if (drive := known.drive) is not None:
                    drive.say(said)
                    return first
                drive = self._new_drive(self._agent(stored.turn), stored, known)
                drive.say(said)
                if drive.turn.status in _RUNNABLE:
                    drive.say(Proceed())  # nobody is at work in an open step: its process is gone
            except (VersionConflictError, IllegalTransitionError):
                continue  # it moved meanwhile; look again
            return first

    def save_snapshot(self, turn: AnyTurn) -> int:
        """Save a new version of a turn that nobody drives, and return its number.

        Raises:
            VersionConflictError: another runner saved it first.
            CommandRefusedError: it runs now, or has ended.
        """
        stored, known = self._load(turn_id_of(turn))
        if known.drive is not None or stored.turn.status.is_terminal:
            raise _refused(stored.turn, "saved again")
        agent = self._agent(stored.turn)
        self._new_drive(agent, stored, known).begin(save_turn(agent.definition, stored.turn, self._clock()))
        return known.turn.version

    def in_thread(self, function: Callable[[], object]) -> None:
        """Run it in a worker thread, in the caller's context."""
        _in_thread(function, "agentflex-worker")

    # -- looking -------------------------------------------------------------------------------------------------------

    def reload(self, turn_id: str) -> Turn:
        """The newest state in the store; handles of this turn see it from now on."""
        return self._load(turn_id)[0].turn

    def events(self, turn: AnyTurn, *, after: int = 0) -> list[AgentEvent]:
        """A turn's events above a sequence number, in order; those not saved yet are saved first."""
        id = turn_id_of(turn)
        if (known := self._registry.get(id)) is not None and (drive := known.drive) is not None:
            drive.save_events()
        return self.store.events(id, after=after)

    # -- the a-twins ---------------------------------------------------------------------------------------------------

    async def arun(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
        responder: Responder | None = None,
    ) -> AgentTurn:
        """`run`, for a coroutine. Cancelling the coroutine (the stop button, in a cell that awaits) cancels the turn."""
        turn = await in_worker(self.create, agent, input, conversation_id=conversation_id, options=options)
        await self._guarded(turn, self._move, turn)
        return await self.aanswer_all(turn, responder) if responder is not None else turn

    async def astep(self, turn: AnyTurn) -> AgentTurn:
        """`step`, for a coroutine."""
        return await self._guarded(turn, self._move, turn, steps=1)

    async def arun_until_blocked(self, turn: AnyTurn) -> AgentTurn:
        """`run_until_blocked`, for a coroutine."""
        return await self._guarded(turn, self._move, turn)

    async def aresume(self, turn: AnyTurn, command: Command, *, responder: Responder | None = None) -> AgentTurn:
        """`resume`, for a coroutine."""
        handle = await in_worker(self.submit_resume, turn, command)
        await self._guarded(handle, self._move, handle)
        return await self.aanswer_all(handle, responder) if responder is not None else handle

    async def aanswer_all(self, turn: AgentTurn, responder: Responder) -> AgentTurn:
        """`answer_all`, for a coroutine."""
        return await self._guarded(turn, self.answer_all, turn, responder)

    async def acancel(self, turn: AnyTurn, reason: str = "", **metadata: Any) -> bool:
        """`cancel`, for a coroutine."""
        return await in_worker(self.cancel, turn, reason, **metadata)

    async def arestore(self, turn: AnyTurn) -> AgentTurn:
        """`restore`, for a coroutine."""
        return await in_worker(self.restore, turn)

    async def await_quiet(self, known: KnownTurn) -> None:
        """Wait, without blocking the loop, until nobody drives the turn."""
        while known.drive is not None:
            await asyncio.sleep(0.01 if known.turn.status.is_terminal else _TICK / 4)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _load(self, turn_id: str) -> tuple[StoredTurn, KnownTurn]:
        known = self._registry.get(turn_id)
        if known is not None and (drive := known.drive) is not None:
            return StoredTurn(turn=drive.turn, reserved=drive.reserved), known
        stored = self.store.load(turn_id)
        if stored is None:
            raise TurnNotFoundError(turn_id)
        return stored, self._registry.know(stored.turn)

    def _agent(self, turn: Turn) -> Agent:
        return fitting(self.loader.load(turn.identity.agent_id, turn.identity.agent_version), turn)

    def _new_drive(self, agent: Agent, stored: StoredTurn, known: KnownTurn) -> Drive:
        return Drive(
            agent, stored, known, store=self.store, publisher=self._publisher, clock=self._clock,
            monotonic=self._monotonic, options=self.options,
        )  # fmt: skip

    def _drive_of(self, known: KnownTurn) -> Drive | None:
        """A drive that has taken the turn, made from the newest stored state; None if there is nothing to drive."""
        stored, known = self._load(known.turn.id)
        if known.drive is not None or stored.turn.status not in _RUNNABLE:
            return None
        drive = self._new_drive(self._agent(stored.turn), stored, known)
        if not known.take(drive):
            return None
        newest = self.store.load(stored.turn.id)  # whoever drove it until now has let go; only now it stands still
        if newest is None or newest.turn.status not in _RUNNABLE:
            known.release(drive)
            return None
        if newest.turn.version != stored.turn.version:
            fresh = self._new_drive(drive.agent, newest, known)
            known.drive = drive = fresh
        if newest.cancel_requested and drive.turn.cancel is None:
            drive.say(Cancel(reason="requested elsewhere"))
        return drive

    def _move(self, turn: AnyTurn, steps: int | None = None) -> AgentTurn:
        known = self._load(turn_id_of(turn))[1]
        drive = self._drive_of(known)
        if drive is None:
            known.wait(None)  # somebody else drives it: its end is ours
        else:
            self._finish(drive, steps)
        return AgentTurn(self, known)

    def _finish(self, drive: Drive, steps: int | None = None) -> None:
        try:
            drive.drive(perform, steps)
        except VersionConflictError:
            drive.known.release(drive)
            self._load(drive.turn.id)
            raise
        finally:
            drive.known.release(drive)
            self._publisher.settle(drive.known.mailbox, _SETTLE)

    async def _guarded(self, turn: AnyTurn, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await in_worker(function, *args, **kwargs)
        except asyncio.CancelledError:
            await asyncio.shield(in_worker(self.cancel, turn, "interrupted by the user"))
            raise


async def in_worker(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run it in a worker thread, in the caller's context, and wait in ticks so that an interrupt is felt."""
    future: Future[R] = Future()

    def work() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    _in_thread(work, "agentflex-worker")
    waiting = asyncio.wrap_future(future)
    while not waiting.done():
        await asyncio.wait({waiting}, timeout=_TICK)
    return waiting.result()


def _in_thread(function: Callable[[], object], name: str) -> None:
    context = contextvars.copy_context()  # prints stay with their cell, and the user's context variables are there
    threading.Thread(target=context.run, args=(_quiet(function),), name=name, daemon=True).start()


def _quiet(function: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            function()
        except Exception as error:  # the turn has saved what failed; a thread has nobody else to tell
            _log.warning("a turn in a worker thread ended with %s: %s", type(error).__name__, error)

    return run


def _messages(input: str | Message | Iterable[Message]) -> tuple[Message, ...]:
    if isinstance(input, str):
        return (user(well_formed(input)),)
    return (input,) if isinstance(input, Message) else tuple(input)


def _refused(turn: Turn, verb: str) -> CommandRefusedError:
    reason = "FINAL" if turn.status.is_terminal else "NOT_BLOCKED"
    return CommandRefusedError(
        RefusalReason(reason),
        f"turn {turn.id} is {turn.status} and cannot be {verb}; nothing changed.",
        turn_id=turn.id,
    )
