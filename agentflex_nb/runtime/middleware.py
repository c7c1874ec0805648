"""Middlewares: code around a step, a model call or a tool call. The first one registered is the outermost."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.errors import InvalidAgentError
from ..core.inputs import ModelReplied
from ..core.messages import ToolCall
from ..core.model import ModelRequest
from ..core.turn import Turn

A = TypeVar("A")
R = TypeVar("R")


class AgentMiddleware:
    """Override what you need. Each method calls `proceed` to go on, or does not, and so replaces what would happen."""

    def around_step(self, turn: Turn, proceed: Callable[[Turn], Turn]) -> Turn:
        """Around one step; `turn` is its state before, the result its state after."""
        return proceed(turn)

    def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], ModelReplied]) -> ModelReplied:
        """Around one model call: change the request, the reply, or answer without the model."""
        return proceed(request)

    def around_tool(self, call: ToolCall, proceed: Callable[[ToolCall], Any]) -> Any:
        """Around one tool call: change the arguments, the result (still a Python value), or answer without the tool."""
        return proceed(call)


def check_middlewares(middlewares: Sequence[AgentMiddleware]) -> None:
    """Refuse what is no middleware, and methods that nobody would await.

    Raises:
        InvalidAgentError: says which and why.
    """
    for middleware in middlewares:
        for name in ("around_step", "around_model", "around_tool"):
            method = getattr(middleware, name, None)
            if not callable(method):
                raise InvalidAgentError(f"middleware {middleware!r} without {name}", "an AgentMiddleware", "derive it")
            if inspect.iscoroutinefunction(method):
                met = f"the coroutine function {name} of middleware {type(middleware).__name__}"
                raise InvalidAgentError(met, "a plain method", "make it one: what it proceeds to may be async")


def chain(middlewares: Sequence[AgentMiddleware], method: str, inner: Callable[[A], R]) -> Callable[[A], R]:
    """The innermost function with every middleware that overrides the method around it."""
    plain = getattr(AgentMiddleware, method)
    for middleware in reversed(middlewares):
        if getattr(type(middleware), method) is not plain:
            inner = _around(getattr(middleware, method), inner)
    return inner


def _around(outer: Callable[[A, Callable[[A], R]], R], inner: Callable[[A], R]) -> Callable[[A], R]:
    return lambda value: outer(value, inner)
