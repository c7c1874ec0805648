"""Agents assembled from configuration: what its names stand for is given once, for any number of configurations.

Everything that is wrong with a configuration is told at once: unknown and missing keys, values of another type, names
that stand for nothing here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.errors import DataError, InvalidAgentError, InvalidConfigError
from ..core.forms import AgentForm
from ..core.model import ChatModel
from .agent import Agent, ApprovalPolicy
from .config import name_of, near, read_config
from .forms import as_form
from .groups import ToolGroup
from .middleware import AgentMiddleware, Interceptor
from .tools import ErrorMessage, Tool, as_tool


class AgentParts:
    """What configurations can name. Each thing goes by the name that it has anyway.

    Args:
        models: By their `name`.
        tools: By the name that a model uses; functions become tools.
        tool_groups: By their name.
        interceptors, error_messages: Functions, by `__name__`.
        forms: By their key.
        approval_policies: Functions, by `__name__`.
        middlewares: By their `name` if they have one, else by that of their class.

    Raises:
        InvalidAgentError: two of a kind have the same name, or one has none.
    """

    def __init__(
        self,
        *,
        models: Iterable[ChatModel] = (),
        tools: Iterable[Tool | Callable[..., Any]] = (),
        tool_groups: Iterable[ToolGroup] = (),
        interceptors: Iterable[Interceptor] = (),
        error_messages: Iterable[ErrorMessage] = (),
        forms: Iterable[AgentForm] = (),
        approval_policies: Iterable[ApprovalPolicy] = (),
        middlewares: Iterable[AgentMiddleware] = (),
    ) -> None:
        # key of a configuration -> what stands for a name there
        self._named: Mapping[str, Mapping[str, Any]] = {
            "model": _by_name("model", models),
            "tools": _by_name("tool", map(as_tool, tools)),
            "tool_groups": _by_name("tool group", tool_groups),
            "interceptors": _by_name("interceptor", interceptors),
            "error_message": _by_name("error message", error_messages),
            "forms": _by_name("form", map(as_form, forms)),
            "approval_policy": _by_name("approval policy", approval_policies),
            "middlewares": _by_name("middleware", middlewares),
        }

    def assemble(self, config: Mapping[str, Any]) -> Agent:
        """The agent that a configuration describes. Without a version in it, the version is a hash of the content.

        Raises:
            InvalidConfigError: `errors` tell everything that is unknown, missing or of another type.
            InvalidValueError: it is no JSON.
        """
        given, faults = read_config(config)
        for key, known in self._named.items():
            if isinstance(said := given.get(key), str):
                given[key] = _meant(known, said, f"/{key}", faults)
            elif isinstance(said, list | tuple):
                names = [(n, name) for n, name in enumerate(said) if isinstance(name, str)]
                given[key] = [_meant(known, name, f"/{key}/{n}", faults) for n, name in names]
        if faults:
            raise InvalidConfigError(faults)
        try:
            return Agent(**given)
        except InvalidAgentError as error:
            raise InvalidConfigError([DataError(pointer="", message=str(error))]) from error


def _meant(known: Mapping[str, Any], name: str, pointer: str, faults: list[DataError]) -> Any:
    """What a name stands for; if it stands for nothing, that is one more fault."""
    if name not in known:
        faults.append(DataError(pointer=pointer, message=f"names {name!r}, which is not here{near(name, known)}"))
    return known.get(name)


def _by_name(kind: str, things: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for thing in things:
        name = name_of(thing)
        if not name.strip() or name == "<lambda>":
            raise InvalidAgentError(f"a {kind} without a name ({thing!r})", "one that can be named", "name it with def")
        if name in named:
            raise InvalidAgentError(f"two of kind {kind} named {name!r}", "names that differ", "rename one of them")
        named[name] = thing
    return named
