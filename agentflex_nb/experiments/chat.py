"""OpenAI chat messages, as others saved them, become our messages.

Rule 1: a message is taken as it stands, or refused with file, place and field; nothing is left out in silence.
Rule 2: a tool's result belongs to a call of the assistant message before it: by its id where the ids of that message
        differ, else by position. Many servers give one id again and again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import AgentFlexError
from ..core.frozen import freeze, well_formed
from ..core.messages import Message, Role, ToolCall, tool_result
from ..runtime.stream import parse_arguments

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,  # the shape of before tools had ids
}
_REASONING = ("reasoning_content", "reasoning")  # DeepSeek and llama.cpp; vLLM, Ollama and OpenRouter
MESSAGE_FIELDS = ("role", "content", "name", "tool_call_id", "tool_calls", "function_call", *_REASONING)


class RecordingFormatError(AgentFlexError, ValueError):
    """Recorded conversations cannot be read as they stand; says where, what was met and what was expected."""

    def __init__(self, path: Path, place: str, field: str, met: str, expected: str) -> None:
        where = ", ".join(part for part in (str(path), place, field) if part)
        super().__init__(f"{where}: {met}; expected {expected}.")
        self.path, self.place, self.field, self.met, self.expected = path, place, field, met, expected


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file of recordings: "line 3" or "row 12", and a field such as `messages[4].content`."""

    path: Path
    place: str = ""
    field: str = ""

    def at(self, field: str | int) -> "Where":
        """A field, or the item of a list, within this one."""
        step = f"[{field}]" if isinstance(field, int) else f".{field}" if self.field else field
        return replace(self, field=self.field + step)

    def error(self, met: str, expected: str) -> RecordingFormatError:
        """What is wrong here."""
        return RecordingFormatError(self.path, self.place, self.field, met, expected)


def read_messages(raw: Iterable[tuple[Any, Where]], conversation_id: str) -> tuple[Message, ...]:
    """The messages of one conversation, each given with its place. The calls in it get ids of their own.

    Raises:
        RecordingFormatError: a message is not of this shape, or a tool's result has no call.
    """
    messages: list[Message] = []
    open_calls: list[ToolCall] = []
    for position, (item, where) in enumerate(raw):
        message = _message(item, where, f"{conversation_id}.{position}")
        if message.role is Role.TOOL:
            call = _answered(open_calls, message.tool_call_id, where)
            open_calls.remove(call)
            message = tool_result(call, message.content)
        else:
            open_calls = list(message.tool_calls)
        messages.append(message)
    return tuple(messages)


def _answered(open_calls: Sequence[ToolCall], provider_id: str, where: Where) -> ToolCall:
    if not open_calls:
        raise where.error("a tool's result without a call", "an assistant's message with a call for it before it")
    named = [call for call in open_calls if call.provider_id == provider_id]
    return named[0] if len(named) == 1 else open_calls[0]


def _message(raw: Any, where: Where, id: str) -> Message:
    if not isinstance(raw, Mapping):
        raise where.error(f"a {type(raw).__name__}", "a message: an object with role and content")
    role = _ROLES.get(_text(raw.get("role"), where.at("role")))
    if role is None:
        raise where.at("role").error(f"{raw.get('role')!r}", f"one of {', '.join(_ROLES)}")
    calls = _calls(raw, where, id)
    if calls and role is not Role.ASSISTANT:
        raise where.at("tool_calls").error(f"calls in a message of role {role.value}", "calls of an assistant only")
    rest = {key: value for key, value in raw.items() if key not in MESSAGE_FIELDS and value is not None}
    return Message(
        role=role,
        content=_content(raw.get("content"), where.at("content")),
        reasoning=next((_text(raw[key], where.at(key)) for key in _REASONING if raw.get(key)), ""),
        tool_calls=calls,
        tool_call_id=_text(raw.get("tool_call_id"), where.at("tool_call_id")),
        provider_data=freeze(rest),
    )


def _content(content: Any, where: Where) -> str:
    if not isinstance(content, list):
        return _text(content, where)
    return "".join([_part(part, where.at(number)) for number, part in enumerate(content)])


def _part(part: Any, where: Where) -> str:
    if isinstance(part, str):
        return well_formed(part)
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if kind not in ("text", "input_text", "output_text"):
        raise where.error(f"a part of type {kind}", "parts of type text: others cannot be played yet")
    return _text(part.get("text"), where.at("text"))


def _text(value: Any, where: Where) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise where.error(f"a {type(value).__name__}", "text or null")
    return well_formed(value)


def _calls(raw: Mapping[str, Any], where: Where, id: str) -> tuple[ToolCall, ...]:
    if old := raw.get("function_call"):
        return (_call({"function": old}, where.at("function_call"), f"{id}.0"),)
    calls, where = raw.get("tool_calls"), where.at("tool_calls")
    if isinstance(calls, str) and calls:  # a column of a parquet file
        calls = parse_json(calls, where)
    if not calls:
        return ()
    if not isinstance(calls, list):
        raise where.error(f"a {type(calls).__name__}", "a list of calls")
    return tuple([_call(call, where.at(number), f"{id}.{number}") for number, call in enumerate(calls)])


def _call(raw: Any, where: Where, id: str) -> ToolCall:
    function = raw.get("function") if isinstance(raw, Mapping) else None
    if not isinstance(function, Mapping):
        raise where.error("no function in it", 'a call: {"id", "function": {"name", "arguments"}}')
    name = _text(function.get("name"), where.at("function").at("name"))
    if not name:
        raise where.at("function").at("name").error("no name", "the name of the tool")
    written = function.get("arguments")
    if isinstance(written, Mapping):
        written = json.dumps(written, ensure_ascii=False)
    arguments, malformed = parse_arguments(_text(written, where.at("function").at("arguments")))
    provider_id = _text(raw.get("id"), where.at("id"))
    return ToolCall(id=id, name=name, arguments=arguments, malformed=malformed, provider_id=provider_id)


def parse_json(text: str, where: Where) -> Any:
    """The value that a text holds as JSON.

    Raises:
        RecordingFormatError: it holds none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise where.error(f"no JSON ({error})", "one value in JSON") from error
