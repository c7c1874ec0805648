"""Middlewares: code around a step, a model call or a tool call. The first one registered is the outermost."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..core.errors import InvalidAgentError
from ..core.inputs import ModelReplied
from ..core.messages import ToolCall
from ..core.model import ModelRequest
from ..core.turn import Turn
from .tools import Tool, as_tool

A = TypeVar("A")
R = TypeVar("R")

Interceptor = Callable[[ToolCall, Callable[[ToolCall], Any]], Any]
"""Code around the function of a tool: takes the call and `proceed`, returns the result."""


class AgentMiddleware:
    """Override what you need. An `around_` method calls `proceed` to go on, or does not, and so replaces what happens.

    A middleware may also bring tools that are no part of the agent: `tools` says which the model is offered, and
    `resolve` finds one of them again, also in another process.
    """

    def tools(self, turn: Turn) -> Iterable[Tool | Callable[..., Any]]:
        """Tools that the model is offered beside the agent's own, asked before each call of the model.

        Make the `Tool` objects once and keep them: a schema takes its time to make.
        """
        return ()

    def resolve(self, turn: Turn, name: str) -> Tool | None:
        """The tool of this name, for a call that was made while it was offered; None if it is not from here."""
        return next((tool for tool in map(as_tool, self.tools(turn)) if tool.name == name), None)

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
        for name in ("tools", "resolve", "around_step", "around_model", "around_tool"):
            method = getattr(middleware, name, None)
            if not callable(method):
                raise InvalidAgentError(f"middleware {middleware!r} without {name}", "an AgentMiddleware", "derive it")
            if inspect.iscoroutinefunction(method):
                met = f"the coroutine function {name} of middleware {type(middleware).__name__}"
                raise InvalidAgentError(met, "a plain method", "make it one: what it proceeds to may be async")


def check_interceptors(interceptors: Sequence[Interceptor], owner: str) -> tuple[Interceptor, ...]:
    """The interceptors, each a plain function.

    Raises:
        InvalidAgentError: says which is none.
    """
    for interceptor in interceptors:
        if not callable(interceptor):
            met = f"{owner} with interceptor {interceptor!r}"
            raise InvalidAgentError(met, "a function of (call, proceed)", "pass one")
        if inspect.iscoroutinefunction(interceptor):
            met = f"{owner} with the coroutine function {interceptor.__name__} as an interceptor"
            raise InvalidAgentError(met, "a plain function", "make it one: what it proceeds to may be async")
    return tuple(interceptors)


def overrides(middleware: AgentMiddleware, method: str) -> bool:
    """Whether a middleware has something of its own to say here."""
    return getattr(type(middleware), method) is not getattr(AgentMiddleware, method)


def intercepted(interceptors: Sequence[Interceptor], inner: Callable[[ToolCall], Any]) -> Callable[[ToolCall], Any]:
    """The function with every interceptor around it, the first one outermost."""
    for interceptor in reversed(interceptors):
        inner = _around(interceptor, inner)
    return inner


def chain(middlewares: Sequence[AgentMiddleware], method: str, inner: Callable[[A], R]) -> Callable[[A], R]:
    """The innermost function with every middleware that overrides the method around it."""
    for middleware in reversed(middlewares):
        if overrides(middleware, method):
            inner = _around(getattr(middleware, method), inner)
    return inner


def _around(outer: Callable[[A, Callable[[A], R]], R], inner: Callable[[A], R]) -> Callable[[A], R]:
    return lambda value: outer(value, inner)
