"""What a turn says to a model, and the pieces in which a model answers.

A chat model is anything with a `name` and a `stream` method. It receives a `ModelRequest` and yields `ModelDelta`s:
text, reasoning, pieces of tool calls and usage in any order, and one `Finish` at the end.
"""

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .frozen import EMPTY, FrozenDict
from .messages import Message, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told of a tool: its name, what it does, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: FrozenDict


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model: the whole conversation as it stands, the tools, and where in the turn this is."""

    turn_id: str
    conversation_id: str | None
    step: int
    iteration: int
    """1 for the first model round of the turn."""
    attempt: int
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    options: FrozenDict = EMPTY
    streaming: bool = True


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. Pieces with the same index belong together; each field may come late, or never."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """Tokens so far; a field that is None is unknown, and a later known value replaces an earlier one."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of a reply. A stream without one was cut off."""

    reason: str | None = None
    model: str | None = None
    response_id: str | None = None
    provider_data: FrozenDict = EMPTY


ModelDelta = TextDelta | ReasoningDelta | ToolCallDelta | UsageDelta | Finish


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a request with a stream of deltas, from a plain or an async generator."""

    @property
    def name(self) -> str:
        """The name under which the record shows this model."""
        ...

    def stream(self, request: ModelRequest) -> Iterable[ModelDelta] | AsyncIterable[ModelDelta]:
        """Yield the reply piece by piece; raise to fail the call."""
        ...


def is_chat_model(value: Any) -> bool:
    """Whether the value has what a chat model needs."""
    return callable(getattr(value, "stream", None)) and isinstance(getattr(value, "name", None), str)
