"""An agent as JSON: its configuration, in which models, tools, forms and code stand by name.

What a configuration means is decided where the parts are at hand: runtime/parts.py.
"""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ..core.agent import AgentExecutionPolicy
from ..core.errors import DataError, InvalidAgentError
from ..core.frozen import freeze_strict
from .fingerprint import sparse

if TYPE_CHECKING:
    from .agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The keys of a configuration: the arguments of `Agent`, with names where those take models, tools and code."""

    id: str
    model: str
    version: str | None = None
    name: str | None = None
    description: str = ""
    instructions: str = ""
    model_options: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()
    tool_groups: tuple[str, ...] = ()
    interceptors: tuple[str, ...] = ()
    error_message: str | None = None
    forms: tuple[str, ...] = ()
    approval_policy: str | None = None
    middlewares: tuple[str, ...] = ()
    execution_policy: AgentExecutionPolicy = field(default_factory=AgentExecutionPolicy)
    max_attached_turns: int = 10
    max_attached_messages: int = 100


def config_of(agent: "Agent") -> dict[str, Any]:
    """The configuration of an agent, without what has its default.

    A version that is a hash is left out: it follows from the content, then as now.
    """
    definition = agent.definition
    grouped = {tool.name for group in agent.tool_groups for tool in group.tools}
    config = AgentConfig(
        id=agent.id,
        model=definition.model_name,
        version=agent.given["version"],
        name=None if definition.name == agent.id else definition.name,
        description=definition.description,
        instructions=definition.instructions,
        model_options=dict(definition.model_options) or None,
        tools=tuple(name for name in agent.tools if name not in grouped),
        tool_groups=tuple(group.name for group in agent.tool_groups),
        interceptors=tuple(name_of(interceptor) for interceptor in agent.interceptors),
        error_message=None if agent.error_message is None else name_of(agent.error_message),
        forms=tuple(definition.form_by_key),
        approval_policy=None if agent.approval_policy is None else name_of(agent.approval_policy),
        middlewares=tuple(name_of(middleware) for middleware in agent.middlewares),
        execution_policy=definition.execution_policy,
        max_attached_turns=definition.max_attached_turns,
        max_attached_messages=definition.max_attached_messages,
    )
    plain: dict[str, Any] = json.loads(json.dumps(sparse(config)))
    return plain


def read_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[DataError]]:
    """What is given in a configuration, by key, and all that is wrong with it.

    Raises:
        InvalidValueError: it is no JSON.
    """
    text = json.dumps(freeze_strict(dict(config), "config"))
    try:
        model = _model_of(AgentConfig).model_validate_json(text, strict=True)
    except ValidationError as error:
        faults = [_fault(fault) for fault in error.errors(include_url=False, include_input=False)]
        return dict(config), faults
    given = {name: getattr(model, name) for name in model.model_fields_set}
    try:
        if "execution_policy" in given:
            given["execution_policy"] = _made(AgentExecutionPolicy, given["execution_policy"])
    except InvalidAgentError as error:
        return given, [DataError(pointer="/execution_policy", message=f"does not fit: {error}")]
    return given, []


def name_of(thing: Any) -> str:
    """The name that a model, a tool, a form, a function or a middleware has anyway."""
    for attribute in ("name", "key", "__name__"):
        if isinstance(name := getattr(thing, attribute, None), str):
            return name
    return type(thing).__name__


def near(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: which may be meant, or which there are."""
    names = list(known)
    if close := difflib.get_close_matches(name, names, 1):
        return f": did you mean {close[0]!r}?"
    return f": known are {', '.join(names)}" if names else ": none is known"


@cache
def _model_of(cls: type[Any]) -> type[BaseModel]:
    """A dataclass as a model that refuses keys it does not know; dataclasses in it too."""
    hints = get_type_hints(cls)
    kept: dict[str, Any] = {}
    for known in fields(cls):
        hint = hints[known.name]
        inner = _model_of(hint) if isinstance(hint, type) and is_dataclass(hint) else hint
        needed = known.default is MISSING and known.default_factory is MISSING
        kept[known.name] = (inner, ... if needed else None)  # what is not given is left to the dataclass
    return create_model(cls.__name__, __config__=ConfigDict(extra="forbid", protected_namespaces=()), **kept)


def _made(cls: Any, model: BaseModel) -> Any:
    """The dataclass of such a model: what was not given has its default."""
    given = {name: getattr(model, name) for name in model.model_fields_set}
    hints = get_type_hints(cls)
    return cls(**{key: _made(hints[key], part) if isinstance(part, BaseModel) else part for key, part in given.items()})


def _fault(fault: Any) -> DataError:
    pointer = "".join(f"/{part}" for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        *above, last = fault["loc"]
        return DataError(pointer=pointer, message=f"is no key of it{near(str(last), _keys(above))}")
    if fault["type"] == "missing":
        return DataError(pointer=pointer, message="is missing")
    return DataError(pointer=pointer, message=f"does not fit: {fault['msg']}")


def _keys(path: Sequence[Any]) -> list[str]:
    """The keys that are known at this place."""
    cls: Any = AgentConfig
    for name in path:
        cls = get_type_hints(cls)[name]
    return [known.name for known in fields(cls)]
