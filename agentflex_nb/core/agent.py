"""An agent as data: all that `advance` knows of it. Functions, models and policies stand in runtime/agent.py."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from .errors import InvalidAgentError
from .forms import REQUEST_USER_INPUT, AgentForm, check_forms, request_user_input
from .frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from .model import ToolSpec

RESERVED_TOOL_NAMES = frozenset({REQUEST_USER_INPUT, "create_task_plan", "update_task_plan"})


def _check_whole(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidAgentError(f"{name}={value!r}", "a whole number, 0 or more", "correct it")


def _check_amounts(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InvalidAgentError(f"{name}={value!r}", "a finite number of 0 or more", "correct it")


class ToolErrorStrategy(StrEnum):
    """What a tool's error does."""

    FAIL_TURN = "FAIL_TURN"
    RETURN_ERROR_TO_MODEL = "RETURN_ERROR_TO_MODEL"


class WhenExhausted(StrEnum):
    """What follows the last attempt of a model call."""

    FAIL = "FAIL"
    SUSPEND = "SUSPEND"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRetryPolicy:
    """How often an operation is tried again, and how long the turn waits before. Seconds.

    The first wait is `initial_delay`, each further one `factor` times longer, up to `max_delay`; `jitter` shortens or
    lengthens it by at most that share, the same on every replay. A provider that asks for longer is heard, up to
    `max_delay`. The count belongs to one operation and begins anew after each success.
    """

    max_retries: int = 2
    initial_delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.1
    seed: int = 0
    when_exhausted: WhenExhausted = WhenExhausted.FAIL
    """SUSPEND lets a person decide about a model that does not answer."""

    def __post_init__(self) -> None:
        _check_whole(self, "max_retries")
        _check_amounts(self, "initial_delay", "max_delay")
        if not (self.factor >= 1 and math.isfinite(self.factor)):
            raise InvalidAgentError(f"factor={self.factor!r}", "a number of at least 1", "correct the retry policy")
        if not 0 <= self.jitter <= 1:
            raise InvalidAgentError(f"jitter={self.jitter!r}", "a share from 0 to 1", "correct the retry policy")
        if self.when_exhausted not in list(WhenExhausted):
            known = " or ".join(WhenExhausted)
            raise InvalidAgentError(f"when_exhausted={self.when_exhausted!r}", known, "correct the retry policy")
        object.__setattr__(self, "when_exhausted", WhenExhausted(self.when_exhausted))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBudget:
    """What a turn may use up. 0 is unlimited. Time is that of work: waiting for a person or a retry is free."""

    max_seconds: float = 0
    max_total_tokens: int = 0
    max_input_tokens: int = 0
    max_output_tokens: int = 0
    max_tool_calls: int = 0

    def __post_init__(self) -> None:
        _check_amounts(self, "max_seconds")
        _check_whole(self, "max_total_tokens", "max_input_tokens", "max_output_tokens", "max_tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingTexts:
    """What the runtime writes into a history that it has to close; `{why}` stands for the reason.

    `not_run` and `started` answer an open call, `turn` is the assistant's last word; "" is the standard text.
    """

    not_run: str = ""
    started: str = ""
    turn: str = ""

    def __post_init__(self) -> None:
        for name in _CLOSING:
            try:
                getattr(self, name).format(why="")
            except (KeyError, IndexError, ValueError, AttributeError) as error:
                met = f"{name}={getattr(self, name)!r}"
                raise InvalidAgentError(met, "text in which only {why} stands in braces", "correct it") from error

    def text(self, name: str, why: str) -> str:
        """What is written: `name` is that of a field above."""
        text: str = getattr(self, name) or _CLOSING[name]
        return text.format(why=why)


_CLOSING = {
    "not_run": "Not run: {why}.",
    "started": "Started, but its outcome is not known: {why}.",
    "turn": "[{why}.]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionPolicy:
    """The limits of a turn. 0 is unlimited.

    `max_iterations` counts successful model rounds, `max_steps` the steps of the turn.
    """

    max_iterations: int = 20
    max_steps: int = 100
    tool_errors: ToolErrorStrategy = ToolErrorStrategy.FAIL_TURN
    retry: AgentRetryPolicy = AgentRetryPolicy()
    budget: AgentBudget = AgentBudget()
    closing: ClosingTexts = ClosingTexts()

    def __post_init__(self) -> None:
        _check_whole(self, "max_iterations", "max_steps")
        if self.tool_errors not in list(ToolErrorStrategy):
            known = " or ".join(ToolErrorStrategy)
            raise InvalidAgentError(f"tool_errors={self.tool_errors!r}", known, "correct the policy")
        object.__setattr__(self, "tool_errors", ToolErrorStrategy(self.tool_errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as data."""

    name: str
    description: str
    parameters: FrozenDict
    """The JSON Schema of the arguments."""
    guarded: bool = False
    """Whether code must judge a call before it runs."""
    idempotent: bool = False
    """Whether running a call twice, under one idempotency key, does what running it once does."""
    external: bool = False
    """Whether the work is done outside: the turn waits for a result instead of running anything."""
    parallel: bool = False
    """Whether calls of it may run at the same time as other such calls."""
    on_error: ToolErrorStrategy | None = None
    """What an error of it does, where that is not for the execution policy to say."""
    max_result_chars: int = 0
    """How much of a result the model is shown; 0: all of it."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name != self.name.strip():
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name without space around it", "rename it")
        if not self.name.isprintable():
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name that shows all its letters", "rename it")
        if self.name in RESERVED_TOOL_NAMES:
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name that is not reserved", "rename it")
        if self.on_error is not None:
            if self.on_error not in list(ToolErrorStrategy):
                met, known = f"tool {self.name!r} with on_error={self.on_error!r}", " or ".join(ToolErrorStrategy)
                raise InvalidAgentError(met, f"{known}, or None", "correct it")
            object.__setattr__(self, "on_error", ToolErrorStrategy(self.on_error))
        _check_whole(self, "max_result_chars")
        object.__setattr__(self, "description", well_formed(self.description))
        # dict(...): a FrozenDict made by hand may hold what can change
        kept = freeze_strict(dict(self.parameters), f"parameters of tool {self.name!r}")
        object.__setattr__(self, "parameters", kept)

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    """An agent as immutable data: enough to advance a turn, and to be stored and compared."""

    id: str
    version: str
    name: str
    description: str = ""
    instructions: str = ""
    model_name: str = ""
    model_options: FrozenDict = EMPTY
    tools: tuple[ToolDefinition, ...] = ()
    forms: tuple[AgentForm, ...] = ()
    guarded: bool = False
    """Whether an approval policy judges every call."""
    dynamic: bool = False
    """Whether code says, before each call of the model, which tools are offered."""
    execution_policy: AgentExecutionPolicy = field(default_factory=AgentExecutionPolicy)
    max_attached_turns: int = 10
    max_attached_messages: int = 100

    def __post_init__(self) -> None:
        for name in ("id", "version", "name"):
            if not isinstance(value := getattr(self, name), str) or not value.strip():
                raise InvalidAgentError(f"{name}={value!r}", "text that is not empty", f"give the agent a {name}")
        seen: set[str] = set()
        for tool in self.tools:
            if tool.name in seen:
                raise InvalidAgentError(f"two tools named {tool.name!r}", "names that differ", "rename one of them")
            seen.add(tool.name)
        _check_whole(self, "max_attached_turns", "max_attached_messages")
        check_forms(self.forms)
        for name in ("id", "version", "name", "description", "instructions", "model_name"):
            object.__setattr__(self, name, well_formed(getattr(self, name)))
        object.__setattr__(self, "model_options", freeze_strict(dict(self.model_options), "model_options"))

    @cached_property
    def tool_by_name(self) -> Mapping[str, ToolDefinition]:
        """The tools, by the name that a model uses."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def form_by_key(self) -> Mapping[str, AgentForm]:
        """The forms, by key."""
        return check_forms(self.forms)

    @cached_property
    def offered(self) -> tuple[ToolSpec, ...]:
        """Everything a model may call, as it is told."""
        specs = [tool.spec for tool in self.tools]
        if self.forms:
            specs.append(request_user_input(self.form_by_key))
        return tuple(specs)

    def judges(self, tool: ToolDefinition | None) -> bool:
        """Whether code judges the calls of this tool."""
        return tool is not None and (self.guarded or tool.guarded)
