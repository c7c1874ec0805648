"""What a tool may know of the call that it serves, and say while it works."""

import contextvars
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..core.errors import AgentFlexError
from ..core.frozen import FrozenDict, freeze, well_formed
from ..core.messages import ToolCall

R = TypeVar("R")

_current: contextvars.ContextVar["AgentToolContext | None"] = contextvars.ContextVar("agentflex_tool", default=None)


class NoToolContextError(AgentFlexError, LookupError):
    """There is no tool call here to know about."""

    def __init__(self) -> None:
        super().__init__(
            "AgentToolContext.current() was called outside a tool: it exists while the runner runs a tool's function; "
            "in a thread that the tool starts itself, wrap the thread's function with context.carry(function)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolContext:
    """The call that a tool serves. `AgentToolContext.current()` inside the tool's function."""

    turn_id: str
    root_turn_id: str
    parent_turn_id: str | None
    conversation_id: str | None
    agent_id: str
    agent_version: str
    step: int
    call: ToolCall
    form_data: FrozenDict | None
    """What a person submitted for the form that this tool asked for; None when none was submitted."""
    _progress: Callable[[str, FrozenDict], None] = field(repr=False)
    _cancelled: Callable[[], bool] = field(repr=False)
    _find: Callable[[str], Any] = field(repr=False)

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call, in every process; differs between calls."""
        return f"{self.turn_id}:{self.call.id}"

    def emit_progress(self, message: str = "", **data: Any) -> None:
        """Say how far the work is; `percent=` draws a bar. The tool's result is unaffected.

        Raises:
            InvalidValueError: the data has None as a key.
        """
        self._progress(well_formed(str(message)), freeze(data))

    def is_cancellation_requested(self) -> bool:
        """Whether somebody asked to cancel the turn: a long tool looks here now and then, and stops."""
        return self._cancelled()

    def result(self, address: str) -> Any:
        """What an earlier call returned, by the address that the model was told ("result:...").

        Raises:
            ResultNotFoundError: this turn has no such result, or only its text was kept.
        """
        return self._find(address)

    def carry(self, function: Callable[..., R]) -> Callable[..., R]:
        """The function, with this context (and every other context variable) wherever it runs."""
        context = contextvars.copy_context()
        return functools.wraps(function)(lambda *args, **kwargs: context.copy().run(function, *args, **kwargs))

    @staticmethod
    def current() -> "AgentToolContext":
        """The call that runs here.

        Raises:
            NoToolContextError: no tool runs here.
        """
        if (context := _current.get()) is None:
            raise NoToolContextError
        return context


def entered(context: AgentToolContext | None) -> contextvars.Token[AgentToolContext | None]:
    """Make it the current one, or with None say that no tool runs here; give the token back to `left`."""
    return _current.set(context)


def left(token: contextvars.Token[AgentToolContext | None]) -> None:
    """Undo `entered`."""
    _current.reset(token)
