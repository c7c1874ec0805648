"""An agent as a user makes it: the definition that the core knows, and the code that belongs to it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

from ..core.agent import AgentDefinition, AgentExecutionPolicy
from ..core.drift import AgentRecord, AgentSource
from ..core.errors import InvalidAgentError
from ..core.forms import AgentForm
from ..core.frozen import FrozenDict, freeze_strict
from ..core.messages import ToolCall
from ..core.model import ChatModel, is_chat_model
from ..core.turn import Turn
from ..core.verdicts import Verdict
from .config import config_of
from .fingerprint import digest, sparse
from .forms import as_form
from .groups import ToolGroup
from .middleware import AgentMiddleware, Interceptor, check_interceptors, check_middlewares, overrides
from .sources import sources
from .tools import ErrorMessage, Tool, as_tool

ApprovalPolicy = Callable[[Turn, ToolCall, Tool], Verdict]


class Agent:
    """An immutable agent; one may serve many turns at a time.

    Args:
        id: Who it is, over all its versions.
        instructions: What the model is told first.
        model: Anything with a name and a `stream` method (`agentflex_nb.ChatModel`).
        tools: Functions, or tools made with `@tool`.
        tool_groups: Further tools, shown to the model while the condition of their group holds.
        interceptors: Functions of (call, proceed) around the function of each tool, within the middlewares: they see
            arguments that fit, may change them, the result, or the error.
        error_message: A function of call and exception: what the model is told of a tool's error, where the tool has
            no `error_message` of its own.
        forms: What the model may ask a user to fill in.
        version: Given, or a hash of everything that can change a resumed turn: instructions, model name and options,
            source and schema of the tools, what stands around them, forms, policies. In a notebook the code changes
            all the time.
        approval_policy: `ApprovalRules`, or a function of turn, call and tool that returns a `ToolApprovalDecision`.
        attributes: Anything of the user's; reaches neither the model nor the snapshot.

    Raises:
        InvalidAgentError: something is missing, empty, doubled or reserved.
    """

    def __init__(
        self,
        id: str,
        *,
        instructions: str = "",
        model: ChatModel,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        tool_groups: Sequence[ToolGroup] = (),
        interceptors: Sequence[Interceptor] = (),
        error_message: ErrorMessage | None = None,
        forms: Sequence[AgentForm] = (),
        name: str | None = None,
        description: str = "",
        version: str | None = None,
        model_options: Mapping[str, Any] | None = None,
        execution_policy: AgentExecutionPolicy | None = None,
        approval_policy: ApprovalPolicy | None = None,
        middlewares: Sequence[AgentMiddleware] = (),
        max_attached_turns: int = 10,
        max_attached_messages: int = 100,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        if not is_chat_model(model):
            mend = "pass a chat model, for instance ScriptedModel"
            raise InvalidAgentError(f"agent {id!r} with model={model!r}", "something with `name` and `stream`", mend)
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise InvalidAgentError(f"agent {id!r} with tools={tools!r}", "a list of tools", "write tools=[...]")
        if not isinstance(execution_policy, AgentExecutionPolicy | None):
            met, mend = f"agent {id!r} with execution_policy={execution_policy!r}", "write AgentExecutionPolicy(...)"
            raise InvalidAgentError(met, "an AgentExecutionPolicy", mend)
        if not (approval_policy is None or callable(approval_policy)):
            met = f"agent {id!r} with approval_policy={approval_policy!r}"
            raise InvalidAgentError(met, "ApprovalRules, or a function of turn, call and tool", "pass one of these")
        check_middlewares(middlewares)
        self.given: Mapping[str, Any] = {
            key: value for key, value in locals().items() if key not in ("self", "mend", "met")
        }
        if not (error_message is None or callable(error_message)):
            raise InvalidAgentError(f"agent {id!r} with error_message={error_message!r}", "a function", "pass one")
        self.tool_groups = tuple(tool_groups)
        self.interceptors = check_interceptors(interceptors, f"agent {id!r}")
        self.error_message = error_message
        self.approval_policy = approval_policy
        self.middlewares = tuple(middlewares)
        self.resolvers = tuple([m for m in self.middlewares if overrides(m, "tools") or overrides(m, "resolve")])
        """The middlewares that bring tools of their own."""
        made = [as_tool(item) for item in tools]
        made += [item for group in self.tool_groups for item in group.tools]
        options: FrozenDict = freeze_strict(dict(model_options or {}), "model_options")
        parts: dict[str, Any] = {
            "name": id if name is None else name,
            "description": description,
            "instructions": instructions,
            "model_name": model.name,
            "model_options": options,
            "tools": tuple(item.definition for item in made),
            "forms": tuple(as_form(form) for form in forms),
            "guarded": approval_policy is not None,
            "dynamic": bool(self.resolvers) or any(group.condition is not None for group in self.tool_groups),
            "execution_policy": execution_policy or AgentExecutionPolicy(),
            "max_attached_turns": max_attached_turns,
            "max_attached_messages": max_attached_messages,
        }
        unversioned = AgentDefinition(id=id, version="unversioned", **parts)  # refused before any code is read
        if version is None:
            content = {name: part for name, part in sparse(unversioned).items() if name not in ("id", "version")}
            version = digest([content, _code(sources(made, self._around, (), strict=True))])
        self.definition = AgentDefinition(id=id, version=version, **parts)
        self.model = model
        self.tools: Mapping[str, Tool] = MappingProxyType({item.name: item for item in made})
        self._grouped = {
            item.name: (*self.interceptors, *group.interceptors) for group in self.tool_groups for item in group.tools
        }
        self.attributes: Mapping[str, Any] = dict(attributes or {})
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_made", False) and name not in ("record", "definition_hash"):
            met = f"agent.{name} = {value!r}"
            raise InvalidAgentError(met, "an agent that does not change", f"make another one: agent.with_({name}=...)")
        super().__setattr__(name, value)

    def __copy__(self) -> Self:
        """Itself: it does not change, and its model and tools are not ours to copy."""
        return self

    def __deepcopy__(self, _: Any) -> Self:
        """Itself, as `__copy__`."""
        return self

    @property
    def id(self) -> str:
        """Who it is, over all its versions."""
        return self.definition.id

    @property
    def version(self) -> str:
        """Which one it is."""
        return self.definition.version

    @property
    def fingerprint(self) -> str:
        """A hash of the definition and the code, whatever version was given."""
        return self.record.fingerprint

    @cached_property
    def definition_hash(self) -> str:
        """A hash of the definition alone: what a turn can hold against the agent with which it is to go on."""
        return digest(self.definition)

    @cached_property
    def record(self) -> AgentRecord:
        """The definition and the source of its code, as a lab keeps them."""
        found = sources(self.tools.values(), self._around, self.middlewares)
        return AgentRecord(
            definition=self.definition, sources=found, fingerprint=digest([self.definition, _code(found)])
        )

    def interceptors_of(self, name: str) -> tuple[Interceptor, ...]:
        """What stands around the function of this tool, the outermost first."""
        return self._grouped.get(name, self.interceptors)

    @property
    def _around(self) -> dict[str, Callable[..., Any] | None]:
        """The functions of the agent that are no tools, by what they are."""
        named: dict[str, Callable[..., Any] | None] = {
            "approval policy": self.approval_policy,
            "error message": self.error_message,
            **{f"interceptor {n}": function for n, function in enumerate(self.interceptors)},
        }
        for group in self.tool_groups:
            what = f"of tool group {group.name!r}"
            named[f"condition {what}"] = group.condition
            named |= {f"interceptor {n} {what}": function for n, function in enumerate(group.interceptors)}
        return named

    def with_(self, **changes: Any) -> Self:
        """Another agent that differs in these arguments: another version, unless one is given."""
        if unknown := set(changes) - set(self.given):
            met, known = ", ".join(sorted(unknown)), ", ".join(sorted(self.given))
            raise InvalidAgentError(f"with_({met}=...)", f"arguments of Agent ({known})", "correct the name")
        return type(self)(**{**self.given, "version": None, **changes})

    def to_config(self) -> dict[str, Any]:
        """This agent as JSON data, its parts by name. `AgentParts(...).assemble` makes it again."""
        return config_of(self)

    def __repr__(self) -> str:
        tools = ", ".join(self.tools)
        return f"Agent({self.id!r}, version={self.version!r}, model={self.model.name!r}, tools=[{tools}])"


def _code(found: tuple[AgentSource, ...]) -> dict[str, str]:
    """The hashes of the code that makes a version."""
    return {f"{source.part} {source.role}": source.code for source in found if source.code}
