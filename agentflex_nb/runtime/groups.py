"""Tools that belong together: shown to the model while a condition holds, with code of their own around them."""

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import InvalidAgentError
from ..core.turn import Turn
from .middleware import Interceptor, check_interceptors
from .tools import Tool, as_tool


class ToolGroup:
    """Tools of an agent that are offered together.

    Args:
        name: How the group is called in errors.
        tools: Functions, or tools made with `@tool`.
        condition: A function of the turn, asked before each call of the model; while it returns False the model is not
            shown these tools. What it has asked for, and asks for from memory, runs all the same: a condition is no
            approval. None: they are always shown.
        interceptors: Code around each function of the group, within that of the agent.

    Raises:
        InvalidAgentError: it has no name, or something in it is not what it should be.
    """

    def __init__(
        self,
        name: str,
        tools: Sequence[Tool | Callable[..., Any]],
        *,
        condition: Callable[[Turn], bool] | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise InvalidAgentError(f"a tool group named {name!r}", "text that is not empty", "name it")
        if not (condition is None or callable(condition)):
            met = f"tool group {name!r} with condition={condition!r}"
            raise InvalidAgentError(met, "a function of the turn", "pass one")
        self.name, self.condition = name, condition
        self.tools = tuple([as_tool(tool) for tool in tools])
        self.interceptors = check_interceptors(interceptors, f"tool group {name!r}")

    def __repr__(self) -> str:
        return f"ToolGroup({self.name!r}, [{', '.join([tool.name for tool in self.tools])}])"
