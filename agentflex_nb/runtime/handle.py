"""What a notebook variable holds: a handle on the newest state of a turn that this process knows."""

from collections.abc import Mapping
from typing import Any, Protocol

from ..core.errors import (
    AgentFlexError,
    CommandRefusedError,
    ErrorSummary,
    RefusalReason,
    TurnFailedError,
    UnansweredError,
)
from ..core.events import AgentEvent
from ..core.inputs import AgentResumeCommand, Command
from ..core.machine import AgentPhase, AgentStatus
from ..core.messages import Message, Role, Usage
from ..core.turn import Question, Turn
from .answers import pick
from .loop import refuse_on_loop
from .results import Results
from .scribe import RUNNABLE, KnownTurn


class Verbs(Protocol):
    """What a handle asks of the runner that made it."""

    @property
    def signature(self) -> Mapping[str, Any]: ...
    def reload(self, turn_id: str) -> Turn: ...
    def events(self, turn: str) -> list[AgentEvent]: ...
    def result(self, address: str) -> Any: ...
    def run_until_blocked(self, turn: str) -> object: ...
    def resume(self, turn: str, command: Command) -> object: ...
    def cancel(self, turn: str, reason: str = "", **metadata: Any) -> bool: ...
    def interrupt(self, turn: str, message: str, **metadata: Any) -> object: ...
    async def await_quiet(self, known: KnownTurn) -> None: ...


class AgentTurn:
    """A turn, as `run`, `start` and `restore` return it. After a click, the next cell sees the new status here.

    `approve` and its sisters answer and resume in the caller's thread; they return at the next stable stop.
    """

    def __init__(self, runner: Verbs, known: KnownTurn) -> None:
        self._runner, self._known = runner, known

    @property
    def id(self) -> str:
        """The turn's id."""
        return self._known.turn.id

    @property
    def status(self) -> AgentStatus:
        """Where it stands now."""
        return self._known.turn.status

    @property
    def phase(self) -> AgentPhase:
        """Where it goes on, if it goes on."""
        return self._known.turn.phase

    @property
    def version(self) -> int:
        """Of the newest snapshot."""
        return self._known.turn.version

    @property
    def text(self) -> str:
        """The answer; while there is none, the newest text of the model; "" before any."""
        turn = self._known.turn
        if turn.output is not None:
            return turn.output
        spoken = (message.content for message in reversed(turn.own_messages) if message.role is Role.ASSISTANT)
        return next((content for content in spoken if content), "")

    @property
    def output(self) -> str:
        """The answer of a completed turn.

        Raises:
            UnansweredError: it waits for an answer.
            TurnFailedError: it ended another way.
        """
        self.check()
        return self._known.turn.output or ""

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped, in its provider's word: after "length" the answer is cut off."""
        return self._known.turn.finish_reason

    @property
    def error(self) -> ErrorSummary | None:
        """What ended the turn, if it failed or met a limit."""
        return self._known.turn.error

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is open, in the order of the calls."""
        return self._known.turn.questions

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history that the next model call would see."""
        return self._known.turn.messages

    @property
    def results(self) -> Results:
        """What the tools returned, by call id: the values themselves, whatever the model was shown of them."""
        return Results(self._known.turn, self._runner.result)

    @property
    def usage(self) -> Usage:
        """Tokens so far; None where unknown."""
        return self._known.turn.usage

    def events(self) -> list[AgentEvent]:
        """Everything that happened, in order."""
        return self._runner.events(self.id)

    def to_snapshot(self) -> Turn:
        """The state as an immutable value. Nothing is saved by it."""
        return self._known.turn

    def refresh(self) -> "AgentTurn":
        """Look into the store for a newer state, left there by another process."""
        self._runner.reload(self.id)
        return self

    def run_until_blocked(self) -> "AgentTurn":
        """Move it on from where it stands, in this thread, until it is done or suspended.

        For a turn that nobody moves: it was made and not run, an answer was only recorded, or its kernel is gone.
        """
        self._runner.run_until_blocked(self.id)
        return self

    def wait(self, timeout: float | None = None) -> "AgentTurn":
        """Wait until the turn is done or suspended, never longer.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
            CommandRefusedError: this very thread moves it, and would wait for itself; or nobody moves it, for instance
                because its kernel is gone: `run_until_blocked` does.
        """
        refuse_on_loop("wait", "await turn.done()")
        if not self._known.wait(timeout):
            raise TimeoutError(f"turn {self.id} still runs after {timeout} s; wait on, or turn.cancel()")
        if self.status in RUNNABLE:
            met = f"turn {self.id} is {self.status}, and nobody here moves it: turn.run_until_blocked() does"
            raise CommandRefusedError(RefusalReason.NOT_BLOCKED, f"{met}; nothing changed.", turn_id=self.id)
        return self

    async def done(self) -> "AgentTurn":
        """Like `wait`, for a cell that awaits; an interrupt is felt within 0.2 s."""
        await self._runner.await_quiet(self._known)
        return self

    def check(self) -> "AgentTurn":
        """The turn itself if it completed; else raise what stands in the way.

        Raises:
            UnansweredError: it waits for an answer.
            TurnFailedError: it failed, was cancelled, met a limit, or has not ended.
        """
        turn = self._known.turn
        if turn.status is AgentStatus.COMPLETED:
            return self
        if turn.questions:
            raise UnansweredError(turn.id, turn.questions, "so it has no result yet")
        error = turn.error or ErrorSummary(kind="", message=turn.cancel.reason if turn.cancel else "")
        raise TurnFailedError(turn.id, turn.status, error.kind, error.message) from self._known.failure

    def approve(
        self, call_id: str | Question | None = None, *, arguments: Mapping[str, Any] | None = None, **metadata: Any
    ) -> "AgentTurn":
        """Run the call that asks; name it when several ask. Metadata (by=, ticket=) is kept.

        `arguments` replace those that were shown: they must fit the tool, and its policy judges the call again.

        Raises:
            CommandRefusedError: it was answered already, nothing is asked, it is no approval, or the arguments do not
                fit (INVALID); nothing changed.
        """
        command = AgentResumeCommand.approve_tool(self._pick(call_id), arguments=arguments, **self._signed(metadata))
        return self._resume(command)

    def reject(self, reason: str = "", call_id: str | Question | None = None, **metadata: Any) -> "AgentTurn":
        """Do not run the call; the model is told the reason."""
        return self._resume(AgentResumeCommand.reject_tool(self._pick(call_id), reason, **self._signed(metadata)))

    def submit(
        self, data: Mapping[str, Any] | str, call_id: str | Question | None = None, **metadata: Any
    ) -> "AgentTurn":
        """The data of a form, or the text that answers a plain question.

        Raises:
            CommandRefusedError: reason INVALID with `errors` by JSON pointer; the turn goes on waiting.
        """
        return self._resume(AgentResumeCommand.user_input(self._pick(call_id), data, **self._signed(metadata)))

    def decline(self, reason: str = "", call_id: str | Question | None = None, **metadata: Any) -> "AgentTurn":
        """Do not fill in the form; the model is told the reason."""
        return self._resume(AgentResumeCommand.decline(self._pick(call_id), reason, **self._signed(metadata)))

    def interrupt(self, message: str) -> "AgentTurn":
        """Leave what goes on, close its calls, and go on with this message.

        Raises:
            CommandRefusedError: the turn has ended.
        """
        self._runner.interrupt(self.id, message, **self._signed({}))
        return self

    def supply(
        self, result: Any = None, *, error: str | None = None, call_id: str | Question | None = None, **metadata: Any
    ) -> "AgentTurn":
        """The result of a call whose outcome is unknown, or that was carried out elsewhere."""
        command = AgentResumeCommand.external_result(self._pick(call_id), result, error=error, **self._signed(metadata))
        return self._resume(command)

    def retry(self, **metadata: Any) -> "AgentTurn":
        """Try again what failed, when it is due.

        Raises:
            CommandRefusedError: nothing waits to be tried again, or it is not due.
        """
        return self._resume(AgentResumeCommand.retry(self._pick(None), **self._signed(metadata)))

    def continue_(self, **metadata: Any) -> "AgentTurn":
        """Go on at once, without waiting for the time of a retry."""
        return self._resume(AgentResumeCommand.continue_(self._pick(None), **self._signed(metadata)))

    def cancel(self, reason: str = "") -> bool:
        """End the turn at its next safe point; False if that was asked for before, or it has ended."""
        return self._runner.cancel(self.id, reason, **self._signed({}))

    def _pick(self, call_id: str | Question | None) -> str:
        self._runner.reload(self.id)
        return pick(self._known.turn, call_id).id

    def _signed(self, metadata: dict[str, Any]) -> dict[str, Any]:
        return {**self._runner.signature, **metadata}

    def _resume(self, command: Command) -> "AgentTurn":
        self._runner.resume(self.id, command)
        return self

    def __repr__(self) -> str:
        turn = self._known.turn
        parts = [f"AgentTurn {turn.id} {turn.status}"]
        parts += [f"waits: {question}" for question in turn.questions]
        if turn.error:
            parts.append(f"{turn.error.kind}: {turn.error.message[:300]}")
        elif self.text:
            parts.append(repr(self.text if len(self.text) <= 300 else f"{self.text[:300]}…"))
        return f"<{'; '.join(parts)}>"[:1_900]


def turn_id_of(turn: "AgentTurn | Turn | str") -> str:
    """The id, whatever stands for the turn."""
    if isinstance(turn, str):
        return turn
    if isinstance(turn, AgentTurn | Turn):
        return turn.id
    raise AgentFlexError(f"{turn!r} is no turn: pass an AgentTurn, its snapshot, or its id.")
