"""Middlewares: code around a step, a model call or a tool call. The first one registered is the outermost."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.inputs import ModelReplied
from ..core.messages import ToolCall
from ..core.model import ModelRequest
from ..core.turn import Turn

A = TypeVar("A")
R = TypeVar("R")


class AgentMiddleware:
    """Override what you need. Each method calls `proceed` to go on, or does not, to replace what would have happened."""

    def around_step(self, turn: Turn, proceed: Callable[[Turn], Turn]) -> Turn:
        """Around one step; `turn` is its state before, the result its state after."""
        return proceed(turn)

    def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], ModelReplied]) -> ModelReplied:
        """Around one model call: change the request, the reply, or answer without the model."""
        return proceed(request)

    def around_tool(self, call: ToolCall, proceed: Callable[[ToolCall], Any]) -> Any:
        """Around one tool call: change the arguments, the result (still a Python value), or answer without the tool."""
        return proceed(call)


def chain(middlewares: Sequence[AgentMiddleware], method: str, inner: Callable[[A], R]) -> Callable[[A], R]:
    """The innermost function with every middleware that overrides the method around it."""
    plain = getattr(AgentMiddleware, method)
    for middleware in reversed(middlewares):
        if getattr(type(middleware), method) is not plain:
            inner = _around(getattr(middleware, method), inner)
    return inner


def _around(outer: Callable[[A, Callable[[A], R]], R], inner: Callable[[A], R]) -> Callable[[A], R]:
    return lambda value: outer(value, inner)
