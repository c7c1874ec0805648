"""What is said in a conversation: by a person, a model, a tool, or the runtime itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from .errors import InvalidValueError
from .frozen import EMPTY, FrozenDict, freeze, well_formed


class Role(StrEnum):
    """Whose message it is."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Origin(StrEnum):
    """Where a message comes from: the conversation itself, or the runtime that had to close a history."""

    SOURCE = ""
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asked for. Its id is the runtime's: unique over every turn of a store."""

    id: str
    name: str
    arguments: FrozenDict = EMPTY
    """The parsed arguments; empty when they could not be parsed."""
    malformed: str | None = None
    """The arguments as the model wrote them, when they are not a JSON object."""
    provider_id: str = ""
    """The provider's own id: a label for the wire, never an identity."""
    provider_data: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. Immutable and shared: it is frozen once, where it enters."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """For a tool's message: the call that it answers."""
    tool_name: str = ""
    origin: Origin = Origin.SOURCE
    provider_data: FrozenDict = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or many model calls. None is unknown, which is not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None when neither is known."""
        return _sum(self.input_tokens, self.output_tokens)

    def __add__(self, other: "Usage") -> "Usage":
        if other is NO_USAGE:
            return self
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


NO_USAGE = Usage()


def checked_message(entry: object, what: str) -> Message:
    """A message that came from outside, as it may enter a history: a role, well-formed text, frozen data of its own.

    Raises:
        InvalidValueError: it is no message; says what is wrong with it.
    """
    if not isinstance(entry, Message):
        raise InvalidValueError(what, entry, "a Message", "pass text, a Message, or a list of Messages")
    try:
        fields: dict[str, Any] = {
            "role": Role(entry.role),
            "content": well_formed(entry.content),
            "reasoning": well_formed(entry.reasoning),
            "tool_calls": tuple([_checked_call(call) for call in entry.tool_calls]),
            "tool_call_id": well_formed(entry.tool_call_id),
            "tool_name": well_formed(entry.tool_name),
            "origin": Origin(entry.origin),
            "provider_data": _checked_data(entry.provider_data),
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidValueError(what, entry, f"a well-formed Message ({error})", "correct it") from error
    return replace(entry, **fields)


def _checked_call(call: ToolCall) -> ToolCall:
    return replace(
        call,
        id=well_formed(call.id),
        name=well_formed(call.name),
        arguments=_checked_data(call.arguments),
        malformed=None if call.malformed is None else well_formed(call.malformed),
        provider_id=well_formed(call.provider_id),
        provider_data=_checked_data(call.provider_data),
    )


def _checked_data(data: Mapping[str, Any]) -> FrozenDict:
    frozen: FrozenDict = freeze(dict(data))  # dict(...): a FrozenDict made by hand may hold what can change
    return frozen


def user(content: str) -> Message:
    """A person's message."""
    return Message(role=Role.USER, content=content)


def system(content: str) -> Message:
    """Instructions, as the model sees them."""
    return Message(role=Role.SYSTEM, content=content)


def assistant(content: str = "", **rest: Any) -> Message:
    """A model's message."""
    return Message(role=Role.ASSISTANT, content=content, **rest)


def tool_result(call: ToolCall, content: str, origin: Origin = Origin.SOURCE) -> Message:
    """The message that answers a call."""
    return Message(role=Role.TOOL, content=content, tool_call_id=call.id, tool_name=call.name, origin=origin)
