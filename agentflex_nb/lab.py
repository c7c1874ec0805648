"""The front door of a notebook: one file, one runner, a panel under the cell, tables for everything that happened.

A lab only delegates: to `lab.runner` for turns, to `lab.store` for the record, to the frames for questions.
"""

import functools
import getpass
import inspect
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from .core.drift import listing, listing_diff
from .core.errors import AgentFlexError, AgentVersionNotFoundError, CommandRefusedError, RefusalReason
from .core.inputs import Cancel, Command, Interrupt
from .core.messages import Message, Role
from .core.rules import ApprovalRules
from .listeners.policy import DisplayPolicy
from .runtime.agent import Agent, ApprovalPolicy
from .runtime.answers import Responder
from .runtime.drive import AgentRunnerOptions
from .runtime.handle import AgentTurn
from .runtime.interrupts import held
from .runtime.loader import AgentLoader
from .runtime.loop import refuse_on_loop
from .runtime.ports import AgentEventListener
from .runtime.runner import AgentRunner, AgentTurnOptions, AnyTurn, in_worker, utc_now
from .runtime.streams import AgentStream
from .store.agents import read_agent
from .store.lab_store import LabStore
from .store.sqlite_file import Durability

if TYPE_CHECKING:
    import pandas as pd

    from .widgets.listener import NotebookListener

Said = Command | Cancel | Interrupt
"""What can be said to a turn in its panel."""

_log = logging.getLogger(__name__)
_open: dict[Path, "Lab"] = {}
_lock = threading.Lock()


class Lab:
    """A lab: everything its agents do lies in one DuckDB file.

    Args:
        path: The file, made when it is not there; ":memory:" keeps nothing. The same path twice in a kernel is the same
            lab.
        user: Who answers questions here; kept with every answer. By default the name of the account.
        durability: "power" survives a power cut, "process" a killed kernel (and is faster).
        display: Whether runs appear under the cell; by default where there is a notebook. A policy says how much of
            them may be seen there; the lab's record and its tables stay whole.
        listeners: Functions of an event, and ready ones. A cell that is run again replaces those that it gave before.
        options: How the runner works.

    Raises:
        LabLockedError: another process holds the file; says which, and what to do.
        StoreDamagedError, StoreError: the file cannot be used; says why.
    """

    def __new__(cls, path: str | os.PathLike[str] = ":memory:", **_: Any) -> Self:
        """The lab that has this file open in this process, or a new one."""
        with _lock:
            known = _open.get(_place(path)) if str(path) != ":memory:" else None
        return known if isinstance(known, cls) else super().__new__(cls)

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        user: str | None = None,
        durability: Durability = "power",
        display: bool | DisplayPolicy | None = None,
        listeners: Iterable[AgentEventListener] = (),
        options: AgentRunnerOptions | None = None,
    ) -> None:
        if not hasattr(self, "store"):
            self.path, self.user = str(path), _account()
            self.store = LabStore(path, durability=durability)
            self.runner = AgentRunner(self.store, loader=_LabLoader(self.store), options=options)
            self._display: bool | None = None
            self._policy: DisplayPolicy | None = None
            self._listener: NotebookListener | None = None
            if self.path != ":memory:":
                with _lock:
                    _open[_place(path)] = self
        if user is not None:
            self.user = user
        if isinstance(display, DisplayPolicy):
            self._policy = display
            if self._listener is not None:
                self._listener.policy = display
        elif display is not None:
            self._display = display
        self.runner.signature = {"by": self.user}
        for place, listener in enumerate(listeners):
            # An object is made anew when its cell runs again: it takes the place of the one before.
            key = None if inspect.isroutine(listener) else (type(listener), place)
            self.runner.add_event_listener(listener, key)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def register(self, agent: Agent) -> Agent:
        """Make an agent known, so that turns which it began can go on. The first run of an agent does it too.

        Raises:
            AgentDriftError: the lab knows this id and version with another definition.
        """
        return self.runner.loader.register(agent)

    def run(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
        responder: Responder | None = None,
    ) -> AgentTurn:
        """Run a turn under this cell until it is done or suspended; with a responder, until it is done."""
        refuse_on_loop("lab.run", "await lab.arun")
        with held():  # a stop between the making of a turn and its run would leave it behind
            turn = self.runner.create(agent, input, conversation_id=conversation_id, options=options)
            self._show(turn)
            self.runner.run_until_blocked(turn)
        return self.runner.answer_all(turn, responder) if responder is not None else turn

    def start(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentTurn:
        """Run a turn in a worker thread, its panel live under this cell; returns at once."""
        with held():
            turn = self.runner.create(agent, input, conversation_id=conversation_id, options=options)
            self._show(turn)
            return self.runner.go_on(turn)

    def stream(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentStream:
        """Run a turn in a worker thread, its panel live under this cell, and iterate over its events.

        The stream ends when the turn is done or suspended. Leaving the loop early leaves the turn to its worker.
        """
        with held():
            turn = self.runner.create(agent, input, conversation_id=conversation_id, options=options)
            self._show(turn)
            return self.runner.follow(turn)

    async def astream(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
    ) -> AgentStream:
        """`stream`, for a cell that awaits: `async for event in await lab.astream(...)`."""
        create = functools.partial(self.runner.create, conversation_id=conversation_id, options=options)
        turn = await in_worker(create, agent, input)
        self._show(turn)
        return await self.runner.afollow(turn)

    async def arun(
        self,
        agent: Agent | str,
        input: str | Message | Iterable[Message],
        *,
        conversation_id: str | None = None,
        options: AgentTurnOptions | None = None,
        responder: Responder | None = None,
    ) -> AgentTurn:
        """`run`, for a cell that awaits."""
        create = functools.partial(self.runner.create, conversation_id=conversation_id, options=options)
        turn = await in_worker(create, agent, input)
        self._show(turn)
        await self.runner.arun_until_blocked(turn)
        return await self.runner.aanswer_all(turn, responder) if responder is not None else turn

    def restore(self, turn: AnyTurn, *, migrate_to: Agent | None = None) -> AgentTurn:
        """A turn out of the lab, also one of yesterday's kernel, with its panel. Nothing runs yet.

        One that waits goes on when it is answered; one that its kernel left in the middle, by `run_until_blocked()`.

        With `migrate_to` it goes on with that version of its agent from now on; who did it is on record.

        Raises:
            TurnNotFoundError, AgentVersionNotFoundError, AgentDriftError: what it needs is not here; nothing changed.
            CommandRefusedError: it is to be migrated, but has ended or runs now.
        """
        handle = self.runner.restore(turn, migrate_to=migrate_to)
        self._show(handle)
        return handle

    def resume(self, turn: AnyTurn, command: Command, *, responder: Responder | None = None) -> AgentTurn:
        """Answer a question with a command, and move the turn on in this thread."""
        return self.runner.resume(turn, command, responder=responder)

    # -- versions ------------------------------------------------------------------------------------------------------

    def agent_source(self, agent_id: str, agent_version: str) -> str:
        """What this version of an agent is, as text: its definition and the source of its code.

        Raises:
            AgentVersionNotFoundError: this lab has never met it; says which versions it has.
        """
        return Listing(listing(read_agent(self.store.archive, agent_id, agent_version)))

    def agent_diff(self, agent_id: str, known: str, met: str) -> str:
        """In what two versions of an agent differ, as a unified diff of their texts; "" where in nothing.

        Raises:
            AgentVersionNotFoundError: this lab has never met one of them.
        """
        archive = self.store.archive
        return Listing(listing_diff(read_agent(archive, agent_id, known), read_agent(archive, agent_id, met)))

    def result(self, address: str) -> Any:
        """What a tool returned: the value itself, by its address ("result:...") or the id of its call.

        Raises:
            ResultNotFoundError: there is no such result, or only its text was kept; says which.
        """
        return self.runner.result(address)

    # -- tables --------------------------------------------------------------------------------------------------------

    def agents(self, **select: Any) -> "pd.DataFrame":
        """One row a version of an agent: what it is called, its model and tools, when it was met, how many turns."""
        return self._frame("agents", select)

    def turns(self, **select: Any) -> "pd.DataFrame":
        """One row a turn: its newest state. `where=`, `turn=`, `columns=`, `order=`, `limit=` narrow it down in SQL."""
        return self._frame("turns", select)

    def steps(self, **select: Any) -> "pd.DataFrame":
        """One row a step of a turn."""
        return self._frame("steps", select)

    def events(self, **select: Any) -> "pd.DataFrame":
        """One row an event, in the order in which they happened."""
        return self._frame("events", select)

    def messages(self, **select: Any) -> "pd.DataFrame":
        """One row a message of a turn, those attached from earlier turns included."""
        return self._frame("messages", select)

    def model_calls(self, **select: Any) -> "pd.DataFrame":
        """One row a request to a model."""
        return self._frame("model_calls", select)

    def tool_calls(self, **select: Any) -> "pd.DataFrame":
        """One row a call that a model asked for, whatever became of it."""
        return self._frame("tool_calls", select)

    def suspensions(self, **select: Any) -> "pd.DataFrame":
        """One row a question: asked when, answered when, by whom, how."""
        return self._frame("suspensions", select)

    def snapshots(self, **select: Any) -> "pd.DataFrame":
        """One row a saved state."""
        return self._frame("snapshots", select)

    def decisions(self, **select: Any) -> "pd.DataFrame":
        """One row a call that the agent's own code was asked about: ALLOW, ASK or DENY, and by which rule."""
        return self._frame("decisions", select)

    def what_if(self, policy: ApprovalRules | ApprovalPolicy, **select: Any) -> "pd.DataFrame":
        """The calls of the past on which this approval policy decides otherwise; nothing is run, nothing changed.

        `where=` and `turn=` choose the calls, by the columns of `decisions`; `unchanged=True` lists the others too. A
        policy that raises on a call has its error in that call's row. A function is given the turn as it stood when the
        model's reply had come, as far as the saved states tell.
        """
        from .analysis.what_if import what_if

        return what_if(self.store.archive, policy, **select)

    def inbox(self) -> "pd.DataFrame":
        """Every open question of this lab, oldest first, also those that yesterday's kernel left behind.

        `type` says what is asked for, `expires_at` when it resolves by itself, and `when_expired` to what; a turn that
        waits for a retry goes on by itself at `expires_at`.
        """
        return self._frame("suspensions", {"where": {"outcome": "PENDING"}, "order": "asked_at"})

    def sql(
        self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None, **options: Any
    ) -> "pd.DataFrame":
        """The result of a query over the tables; `?` or `$name` stand for parameters. Read-only unless write=True."""
        from .analysis.query import sql

        return sql(self.store.archive, query, params, **options)

    def _frame(self, table: str, select: dict[str, Any]) -> "pd.DataFrame":
        from .analysis.frames import frame

        return frame(self.store.archive, table, **select)

    # -- the page ------------------------------------------------------------------------------------------------------

    def _show(self, turn: AgentTurn) -> None:
        prompt = next((said.content for said in turn.to_snapshot().own_messages if said.role is Role.USER), "")
        if (listener := self._panels()) is None:
            return
        try:
            listener.open_panel(turn.id, turn.events(), prompt=prompt)
        except Exception as error:  # a page that cannot be drawn is no reason not to run
            _log.warning("the panel of turn %s could not be opened: %s", turn.id, error)

    def _panels(self) -> "NotebookListener | None":
        if self._listener is None and self._display is not False:
            from .widgets import listener

            if self._display or listener.is_notebook():
                self._listener = listener.NotebookListener(
                    on_command=self._hear,
                    user=self.user,
                    parameters_of=self._parameters,
                    policy=self._policy,
                    failing=lambda: self.runner.listener_errors,
                )
                self.runner.add_event_listener(self._listener, key="the panels of this lab", last=True)
        return self._listener

    def _hear(self, turn_id: str, command: Said) -> None:
        """A click: carried out in a worker thread, so that the click's handler returns at once."""
        self.runner.in_thread(functools.partial(self._carry_out, turn_id, command))

    def _carry_out(self, turn_id: str, command: Said) -> None:
        try:
            self._say(turn_id, command)
        except AgentFlexError as error:
            self._refuse(turn_id, command, error)
            if not (isinstance(error, CommandRefusedError) and error.reason is RefusalReason.EXPIRED):
                return  # else the look at it has resolved the question, and the turn can go on
        try:
            self.runner.run_until_blocked(turn_id)
        except AgentFlexError as error:
            self._refuse(turn_id, command, error)

    def _say(self, turn_id: str, command: Said) -> None:
        match command:
            case Cancel(reason=reason, metadata=metadata):
                if not self.runner.cancel(turn_id, reason, **metadata):
                    said = "the turn has ended, or is being cancelled"
                    raise CommandRefusedError(RefusalReason.FINAL, said, turn_id=turn_id)
            case Interrupt(message=message, metadata=metadata):
                self.runner.submit_interrupt(turn_id, message, **metadata)
            case _:
                self.runner.submit_resume(turn_id, command)

    def _refuse(self, turn_id: str, command: Said, error: Exception) -> None:
        from .widgets.answers import about

        if self._listener is not None:
            self._listener.refuse(turn_id, about(command), error)

    def _parameters(self, agent_id: str, agent_version: str, tool_name: str) -> Mapping[str, Any] | None:
        try:
            tool = self.runner.loader.load(agent_id, agent_version).tools.get(tool_name)
        except AgentVersionNotFoundError:
            return None
        return tool.definition.parameters if tool else None

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Fold everything into the file and let go of it. Waiting turns wait on, for the next one who opens it."""
        with _lock:
            for place in [place for place, lab in _open.items() if lab is self]:
                del _open[place]
        self.store.close()

    def __enter__(self) -> Self:
        """Nothing more than the lab itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"Lab({self.path!r}, user={self.user!r})"


class Listing(str):
    """Text that shows itself line by line at the end of a cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _LabLoader(AgentLoader):
    """Agents by id and version; each version is written down in the lab when it is first met here."""

    def __init__(self, store: LabStore) -> None:
        super().__init__()
        self._store = store
        self._kept: WeakSet[Agent] = WeakSet()

    def register(self, agent: Agent) -> Agent:
        if agent not in self._kept:
            self._store.keep_agent(agent.record, utc_now())
            self._kept.add(agent)
        return super().register(agent)


def _place(path: str | os.PathLike[str]) -> Path:
    return Path(path).resolve()


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such account, as in some containers
        return ""
