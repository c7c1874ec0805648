"""The code of an agent: its tools, policies and middlewares, each with a hash of what it does and its source."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.drift import UNREADABLE, AgentSource
from ..core.rules import ApprovalRules
from .fingerprint import digest, fingerprint
from .middleware import AgentMiddleware
from .syntax import plain, text_of
from .tools import Tool


def sources(
    tools: Iterable[Tool],
    around: Mapping[str, Callable[..., Any] | None],
    middlewares: Sequence[AgentMiddleware],
    *,
    strict: bool = False,
) -> tuple[AgentSource, ...]:
    """Every piece of code of an agent: its tools, the functions around them by name, its middlewares.

    A tool with a version of its own stands for its code.

    Raises:
        InvalidAgentError: if `strict`, some code cannot be read, and no version stands for it.
    """
    found = []
    for tool in tools:
        part = f"tool {tool.name}"
        code = tool.version or _code(tool.function, f"tool {tool.name!r}", strict)
        found.append(_source(part, "source", tool.function, code))
        if callable(tool.approval):
            judge = _code(tool.approval, f"the approval of tool {tool.name!r}", strict)
            found.append(_source(part, "approval", tool.approval, judge))
        for role, function in (("error message", tool.error_message), ("summary", tool.summary)):
            if function is not None:
                found.append(_source(part, role, function, _code(function, f"the {role} of {tool.name!r}", strict)))
    for part, function in around.items():
        if isinstance(function, ApprovalRules):
            found.append(_rules(part, function))
        elif function is not None:
            found.append(_source(part, "source", function, _code(function, f"the {part}", strict)))
    for middleware in middlewares:
        kind: Any = type(middleware)
        named = ("tools", "resolve", "around_step", "around_model", "around_tool")
        methods = [method for name, method in vars(kind).items() if name in named]
        text = "\n".join(filter(None, map(text_of, methods)))
        part = f"middleware {kind.__name__}"
        found.append(AgentSource(part=part, name=kind.__qualname__, module=kind.__module__, code="", text=text))
    return tuple(found)


def _source(part: str, role: str, function: Callable[..., Any], code: str) -> AgentSource:
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return AgentSource(
        part=part, role=role, name=named.__qualname__, module=named.__module__ or "", code=code, text=text_of(function)
    )


def _rules(part: str, rules: ApprovalRules) -> AgentSource:
    """Rules are data: what they say is their code."""
    data, kind = rules.to_data(), type(rules)
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return AgentSource(part=part, name=kind.__qualname__, module=kind.__module__, code=digest(data), text=text)


def _code(function: Callable[..., Any], what: str, strict: bool) -> str:
    if not strict and plain(function) is None:
        return UNREADABLE
    return fingerprint(function, what)
