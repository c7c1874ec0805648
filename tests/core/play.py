"""Words to arrange the core with: play(Proceed(), reply(wants("pay", amount=7)), judge(ASK), approve()).

After every single input `play` holds the turn and its log against the invariants (rules.py), so that each story of
these tests is a test of all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agentflex_nb.core.advance import advance, open_turn, pick_up
from agentflex_nb.core.agent import AgentDefinition, AgentExecutionPolicy, ToolDefinition, ToolErrorStrategy
from agentflex_nb.core.effects import CallModel, CheckCalls, Effect, OfferTools, RunTool
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.events import AgentEvent
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import FrozenDict, freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    DeltaKind,
    Expired,
    Input,
    ModelFailed,
    ModelReplied,
    Proceed,
    Streamed,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
    ToolsOffered,
)
from agentflex_nb.core.messages import Message, Role, ToolCall, Usage, assistant, user
from agentflex_nb.core.turn import Question, Turn, TurnIdentity
from agentflex_nb.core.verdicts import ALLOWED, Strictness, ToolApprovalDecision, Verdict

from . import rules

START = datetime(2026, 1, 1, tzinfo=UTC)
GO = Proceed()

FORM = AgentForm(key="address", description="Where to?", schema=freeze({"type": "object", "required": ["city"]}))
SHOP = AgentDefinition(
    id="shop",
    version="1",
    name="Shop",
    instructions="Be kind.",
    model_name="scripted",
    tools=(
        ToolDefinition(name="look", description="Look an order up.", parameters=freeze({"type": "object"})),
        ToolDefinition(name="pay", description="Pay.", parameters=freeze({"type": "object"}), guarded=True),
        ToolDefinition(name="mail", description="Send.", parameters=freeze({"type": "object"}), idempotent=True),
    ),
    forms=(FORM,),
)
# the shop, with tools of every kind
MARKET = replace(
    SHOP,
    tools=(
        *SHOP.tools,
        ToolDefinition(name="ship", description="Ship.", parameters=freeze({"type": "object"}), external=True),
        ToolDefinition(
            name="export",
            description="Ship abroad.",
            parameters=freeze({"type": "object"}),
            external=True,
            guarded=True,
        ),
        ToolDefinition(name="scan", description="Scan.", parameters=freeze({"type": "object"}), parallel=True),
    ),
)
# the market, whose code says before each call of the model what is offered; EXTRA is no part of it
FAIR = replace(MARKET, dynamic=True)
EXTRA = ToolDefinition(name="extra", description="Of another's.", parameters=freeze({"type": "object"}), guarded=True)
LENIENT = AgentExecutionPolicy(tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL)

ALLOW = ALLOWED
ASK = ToolApprovalDecision.require_approval("May I?", reason="over the limit", limit=50)
DENY = ToolApprovalDecision.deny("never on Sundays", day="Sunday")
INVALID = Verdict(strictness=Strictness.INVALID, message="amount is missing")


@dataclass(frozen=True)
class Crash:
    """The process dies; another one goes on from the last commit. Were the events since then logged?"""

    logged: bool = True


@dataclass
class Played:
    """A turn, everything that has happened to it, and what it asks for now."""

    definition: AgentDefinition
    turn: Turn
    effects: tuple[Effect, ...] = ()
    events: list[AgentEvent] = field(default_factory=list)
    committed: Turn | None = None
    lines: list[str] = field(default_factory=list)
    """The kinds of events, one line a commit."""
    ticks: int = 0

    def say(self, *moves: "Move") -> "Played":
        """Let the turn hear one move after another; the invariants are looked at after each."""
        for move in moves:
            if isinstance(move, Crash):
                self._crash(move)
                continue
            said = move(self) if callable(move) else move
            if said is None:
                continue
            before = self.turn
            result = advance(self.definition, before, said, self.now())
            rules.hold_for_advance(before, result)
            self.take(result)
            rules.hold_for_log(self.events, self.turn)
        return self

    def take(self, result: Any) -> None:
        self.turn = result.turn
        if result.effects or not result.turn.step_open:
            self.effects = result.effects  # else what was asked for is still under way
        self.events += result.events
        if not self.lines:
            self.lines.append("")
        self.lines[-1] += " ".join(event.type for event in result.events) + " "
        if result.commits:
            self.committed = result.turn
            self.lines.append("")

    def pass_time(self, seconds: float) -> None:
        """Nothing happens for a while."""
        self.ticks += int(seconds * 1000)

    def now(self) -> datetime:
        self.ticks += 1
        return START + timedelta(milliseconds=self.ticks)

    @property
    def story(self) -> list[str]:
        """The kinds of all events, one line for all that one commit makes safe; a last line is not committed yet."""
        return [" ".join(line.split()) for line in self.lines if line.strip()]

    @property
    def kinds(self) -> list[str]:
        return [event.type.value for event in self.events]

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(message.role.value, message.content) for message in self.turn.messages]

    @property
    def effect(self) -> Effect:
        (effect,) = self.effects
        return effect

    @property
    def question(self) -> Question:
        return self.turn.questions[0]

    def last(self, kind: str) -> FrozenDict:
        """The data of the newest event of a kind."""
        return next(event.data for event in reversed(self.events) if event.type == kind)

    def every(self, kind: str) -> list[FrozenDict]:
        return [event.data for event in self.events if event.type == kind]

    def _crash(self, crash: Crash) -> None:
        assert self.committed is not None
        if not crash.logged:
            self.events = [event for event in self.events if event.sequence <= self.committed.sequence]
        logged = self.events[-1].sequence
        self.turn = pick_up(self.committed, reserved=logged + 100, logged=logged)
        self.effects = ()
        rules.hold_for_log(self.events, self.turn)


Move = Input | Crash | Callable[[Played], Input]


def opened(
    *,
    agent: AgentDefinition = SHOP,
    policy: AgentExecutionPolicy | None = None,
    messages: tuple[Message, ...] = (user("hello"),),
    **identity: Any,
) -> Played:
    """A new turn."""
    named = {"id": "t1", "root_turn_id": "t1", "agent_id": agent.id, "agent_version": agent.version} | identity
    made = TurnIdentity(
        **named, created_at=START, instructions=agent.instructions, policy=policy or agent.execution_policy
    )
    played = Played(agent, Turn(identity=made, messages=messages))
    played.take(open_turn(agent, made, messages, played.now()))
    rules.hold_for_log(played.events, played.turn)
    return played


def play(*moves: Move, **how: Any) -> Played:
    """Open a turn, let it hear these moves, and tell how it stands."""
    return opened(**how).say(*moves)


# -- what comes back from the world ------------------------------------------------------------------------------------


def wants(name: str, /, *, malformed: str | None = None, provider_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(id="", name=name, arguments=freeze(arguments), malformed=malformed, provider_id=provider_id)


def reply(text: str = "", *calls: ToolCall, tokens: tuple[int, int] = (10, 5)) -> ModelReplied:
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
    return ModelReplied(message=assistant(text, tool_calls=calls), usage=usage, finish_reason="stop", model="m-1")


def calls(*wanted: ToolCall) -> ModelReplied:
    return reply("", *wanted)


def breaks(message: str = "connection lost", tokens: int = 3) -> ModelFailed:
    error = ErrorSummary(kind="ConnectionError", message=message)
    return ModelFailed(error=error, usage=Usage(input_tokens=tokens))


def piece(text: str, kind: DeltaKind = DeltaKind.TEXT, **data: Any) -> Streamed:
    return Streamed(kind, text, freeze(data))


def fails(kind: str = "RateLimitError", retry_after: float | None = None, tokens: int = 3, **rest: Any) -> ModelFailed:
    """The model failed in a way that may pass."""
    error = ErrorSummary(kind=kind, message="slow down", retryable=True, retry_after=retry_after, **rest)
    return ModelFailed(error=error, usage=Usage(input_tokens=tokens))


def offers(*resolved: ToolDefinition, hidden: tuple[str, ...] = ()) -> Callable[[Played], ToolsOffered]:
    """The agent's code says what the model is offered."""

    def said(played: Played) -> ToolsOffered:
        assert isinstance(played.effect, OfferTools)
        return ToolsOffered(hidden=frozenset(hidden), resolved=resolved)

    return said


def judge(*verdicts: Verdict) -> Callable[[Played], CallsChecked]:
    """The agent's code says this of the calls that it is asked about, in their order; ALLOW of the rest."""

    def said(played: Played) -> CallsChecked:
        assert isinstance(played.effect, CheckCalls)
        asked = [call.id for call in played.effect.calls]
        rest = [ALLOW] * (len(asked) - len(verdicts))
        return CallsChecked(dict(zip(asked, [*verdicts, *rest], strict=True)))

    return said


def _running(played: Played) -> str:
    assert isinstance(played.effect, RunTool)
    return played.effect.call.id


def returns(content: str = "done", **value: Any) -> Callable[[Played], ToolReturned]:
    return lambda played: ToolReturned(_running(played), content, **value)


def raises(message: str = "boom") -> Callable[[Played], ToolFailed]:
    error = ErrorSummary(kind="ValueError", message=message)
    return lambda played: ToolFailed(_running(played), error, f"Error: ValueError: {message}")


def falters(message: str = "gone") -> Callable[[Played], ToolFailed]:
    """The tool failed in a way that may pass."""
    error = ErrorSummary(kind="ConnectionError", message=message, retryable=True)
    return lambda played: ToolFailed(_started(played), error, f"Error: ConnectionError: {message}")


def waits(seconds: float) -> Callable[[Played], Any]:
    """Time passes; nothing is said."""
    return lambda played: played.pass_time(seconds)


def asks_for(form: AgentForm = FORM, message: str = "") -> Callable[[Played], ToolAsked]:
    return lambda played: ToolAsked(_running(played), form, message)


def progress(message: str, **data: Any) -> Callable[[Played], ToolProgressed]:
    return lambda played: ToolProgressed(_started(played), message, freeze(data))


def _started(played: Played) -> str:
    return next(pending.call.id for pending in played.turn.pending if pending.started)


# -- what people answer ------------------------------------------------------------------------------------------------


def _asked(played: Played, id: str) -> str:
    return id or played.question.id


def approve(id: str = "", **metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.approve_tool(_asked(played, id), **metadata)


def reject(reason: str = "", id: str = "", **metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.reject_tool(_asked(played, id), reason, **metadata)


def submit(data: Any, id: str = "", **metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.user_input(_asked(played, id), data, **metadata)


def supply(result: Any = None, error: str | None = None, id: str = "") -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.external_result(_asked(played, id), result, error=error)


def decline(reason: str = "", id: str = "", **metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.decline(_asked(played, id), reason, **metadata)


def retry(**metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.retry(played.question.id, **metadata)


def continue_(**metadata: Any) -> Callable[[Played], AgentResumeCommand]:
    return lambda played: AgentResumeCommand.continue_(played.question.id, **metadata)


def expires(id: str = "") -> Callable[[Played], Expired]:
    return lambda played: Expired(_asked(played, id))


def with_policy(**limits: Any) -> AgentExecutionPolicy:
    return replace(LENIENT, **limits)


def sent(played: Played) -> list[tuple[str, str]]:
    """What the model is sent, as role and text."""
    assert isinstance(played.effect, CallModel)
    return [(message.role.value, message.content) for message in played.effect.request.messages]


def results(played: Played) -> dict[str, str]:
    """The results in the history, by call id."""
    return {m.tool_call_id: m.content for m in played.turn.messages if m.role is Role.TOOL}
