"""What can be said to a turn: by the runner (what came back from the world) or by a person (an answer, a command)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .agent import ToolDefinition
from .errors import ErrorSummary, InvalidValueError
from .forms import AgentForm
from .frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from .messages import NO_USAGE, Message, Usage
from .values import PackedValue
from .verdicts import Verdict

# -- said by the runner ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proceed:
    """Go on from the state as it stands: begin, take the next step, or pick up after an answer or a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsOffered:
    """The agent's own code has said which tools the model is offered now."""

    hidden: frozenset[str] = frozenset()
    """Names of the agent's tools that are not shown. Calls of them are made all the same."""
    resolved: tuple[ToolDefinition, ...] = ()
    """Tools that are no part of the agent."""


class DeltaKind(StrEnum):
    """What a streamed piece belongs to."""

    TEXT = "TEXT"
    REASONING = "REASONING"
    TOOL_CALL = "TOOL_CALL"


@dataclass(frozen=True, slots=True)
class Streamed:
    """A piece of the model's reply arrived; for a tool call `data` holds the pieces of it."""

    kind: DeltaKind
    content: str
    data: Mapping[str, Any] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """The model's reply is complete. Its calls carry no ids yet: the turn mints them."""

    message: Message
    usage: Usage = NO_USAGE
    finish_reason: str | None = None
    model: str | None = None
    response_id: str | None = None
    first_delta_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """The model call raised, or its stream broke."""

    error: ErrorSummary
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried:
    """A middleware asks the model again for the same reply: the call before is over, and its pieces are void."""

    error: ErrorSummary
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class CallsChecked:
    """The agent's own code has judged these calls; verdicts by call id."""

    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True)
class CheckFailed:
    """An approval policy raised."""

    error: ErrorSummary


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has a result, as text that is well formed."""

    call_id: str
    content: str
    value_type: str = ""
    """The name of the value's type; "" for text."""
    kept: PackedValue | None = None
    """The whole value, where the text is not all of it and the store can keep it."""


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """A tool raised; `content` is what the model is told, if it is told."""

    call_id: str
    error: ErrorSummary
    content: str


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A tool says how far it is."""

    call_id: str
    message: str
    data: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True)
class ToolAsked:
    """A tool needs a form filled in, and will be run again from its start with the data."""

    call_id: str
    form: AgentForm
    message: str = ""


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A middleware around the step raised."""

    error: ErrorSummary


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The person at the kernel pressed stop."""

    reason: str
    usage: Usage = NO_USAGE
    """Of the call of the model that is left by it."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody answered this question in time."""

    question_id: str


# -- said by a person --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End the turn at the next safe point."""

    reason: str = ""
    metadata: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Leave what goes on, and go on with this message of the user instead."""

    message: str
    metadata: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Ask the person a plain question before the turn goes on."""

    correlation_id: str
    message: str
    metadata: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate:
    """Go on with another version of the agent. Whoever says it has seen that the version fits the turn."""

    agent_version: str
    definition_hash: str
    instructions: str = ""
    metadata: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResumeCommand:
    """An answer to a question of a suspended turn.

    `correlation_id` names the question; metadata says who answered, where and why, and is kept.
    Build one with the class methods below.
    """

    correlation_id: str
    metadata: FrozenDict = field(default=EMPTY)

    @property
    def command_type(self) -> str:
        """The answer's name in the log."""
        return _NAMES[type(self)]

    @staticmethod
    def approve_tool(
        correlation_id: str, *, arguments: Mapping[str, Any] | None = None, **metadata: Any
    ) -> "ApproveTool":
        """Run the call that was shown; with other arguments, if they are given."""
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InvalidValueError("arguments", arguments, "a mapping from names to values", "write them as a dict")
        edited = None if arguments is None else freeze_strict(dict(arguments), "arguments")
        return ApproveTool(correlation_id=correlation_id, arguments=edited, metadata=_kept(metadata))

    @staticmethod
    def decline(correlation_id: str, reason: str = "", **metadata: Any) -> "Decline":
        """Do not fill in the form; the model is told the reason."""
        return Decline(correlation_id=correlation_id, reason=reason, metadata=_kept(metadata))

    @staticmethod
    def reject_tool(correlation_id: str, reason: str = "", **metadata: Any) -> "RejectTool":
        """Do not run it; the model is told the reason."""
        return RejectTool(correlation_id=correlation_id, reason=well_formed(reason), metadata=_kept(metadata))

    @staticmethod
    def user_input(correlation_id: str, data: Mapping[str, Any] | str, **metadata: Any) -> "UserInput":
        """The data of a form, or the text that answers a plain question."""
        kept = freeze_strict(data, "data")
        return UserInput(correlation_id=correlation_id, data=kept, metadata=_kept(metadata))

    @staticmethod
    def external_result(
        correlation_id: str, result: Any = None, *, error: str | None = None, **metadata: Any
    ) -> "ExternalResult":
        """The result of a call that was carried out elsewhere, or whose outcome was unknown; or its error."""
        return ExternalResult(
            correlation_id=correlation_id,
            result=freeze_strict(result, "result"),
            error=error if error is None else well_formed(error),
            metadata=_kept(metadata),
        )

    @staticmethod
    def retry(correlation_id: str, **metadata: Any) -> "Retry":
        """Try again, when the retry is due."""
        return Retry(correlation_id=correlation_id, metadata=_kept(metadata))

    @staticmethod
    def continue_(correlation_id: str, **metadata: Any) -> "Continue":
        """Go on without waiting."""
        return Continue(correlation_id=correlation_id, metadata=_kept(metadata))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveTool(AgentResumeCommand):
    """Run the call that was shown."""

    arguments: FrozenDict | None = None
    """What to run it with instead; None for the arguments that were shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectTool(AgentResumeCommand):
    """Do not run it."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline(AgentResumeCommand):
    """Do not fill in the form."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInput(AgentResumeCommand):
    """The data of a form (a mapping; {} is data too), or the answer to a plain question (text)."""

    data: FrozenDict | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalResult(AgentResumeCommand):
    """A result from outside, under the call's id."""

    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(AgentResumeCommand):
    """Try the failed operation again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue(AgentResumeCommand):
    """Go on at once."""


Command = ApproveTool | RejectTool | UserInput | Decline | ExternalResult | Retry | Continue

Input = (
    Proceed | ToolsOffered | Streamed | ModelReplied | ModelFailed | ModelRetried | CallsChecked | CheckFailed
    | ToolReturned | ToolFailed | ToolProgressed | ToolAsked | StepFailed | Interrupted | Expired | Cancel | Interrupt
    | Suspend | Migrate | Command
)  # fmt: skip

_NAMES: Mapping[type[AgentResumeCommand], str] = {
    ApproveTool: "APPROVE_TOOL",
    RejectTool: "REJECT_TOOL",
    UserInput: "USER_INPUT",
    Decline: "DECLINE",
    ExternalResult: "EXTERNAL_RESULT",
    Retry: "RETRY",
    Continue: "CONTINUE",
}


def _kept(metadata: Mapping[str, Any]) -> FrozenDict:
    frozen: FrozenDict = freeze_strict(metadata, "metadata")
    return frozen
