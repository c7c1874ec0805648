"""An agent as data: all that `advance` knows of it. Functions, models and policies stand in runtime/agent.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from .errors import InvalidAgentError
from .forms import REQUEST_USER_INPUT, AgentForm, check_forms, request_user_input
from .frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from .model import ToolSpec

RESERVED_TOOL_NAMES = frozenset({REQUEST_USER_INPUT, "create_task_plan", "update_task_plan"})


class ToolErrorStrategy(StrEnum):
    """What a tool's error does."""

    FAIL_TURN = "FAIL_TURN"
    RETURN_ERROR_TO_MODEL = "RETURN_ERROR_TO_MODEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionPolicy:
    """The limits of a turn. 0 is unlimited.

    `max_iterations` counts successful model rounds, `max_steps` the steps of the turn.
    """

    max_iterations: int = 20
    max_steps: int = 100
    tool_errors: ToolErrorStrategy = ToolErrorStrategy.FAIL_TURN

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

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name != self.name.strip():
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name without space around it", "rename it")
        if not self.name.isprintable():
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name that shows all its letters", "rename it")
        if self.name in RESERVED_TOOL_NAMES:
            raise InvalidAgentError(f"a tool named {self.name!r}", "a name that is not reserved", "rename it")
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

    def judges(self, tool_name: str) -> bool:
        """Whether code judges the calls of this tool."""
        tool = self.tool_by_name.get(tool_name)
        return tool is not None and (self.guarded or tool.guarded)


def _check_whole(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidAgentError(f"{name}={value!r}", "a whole number, 0 or more", "correct it")
