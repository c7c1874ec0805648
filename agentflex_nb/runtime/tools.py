"""Tools from plain functions: the schema comes from the signature, the description from the docstring."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, Protocol, get_type_hints, overload

from pydantic import ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from ..core.agent import ToolDefinition, ToolErrorStrategy
from ..core.errors import DataError, InvalidAgentError
from ..core.frozen import freeze, freeze_strict, well_formed
from ..core.messages import ToolCall
from ..core.verdicts import Verdict
from .references import Find
from .schemas import check_schema, fault_of, pointer, validator

Approval = bool | Callable[[ToolCall], bool | Verdict]
ErrorMessage = Callable[[ToolCall, BaseException], Any]
"""What the model is told of an error: a function of the call and the exception that returns text."""


class InvalidArgumentsError(ValueError):
    """A call's arguments do not fit the tool; the text is for the model, `faults` say it by JSON pointer."""

    def __init__(self, text: str, faults: Sequence[DataError] = ()) -> None:
        super().__init__(text)
        self.faults = tuple(faults)


class _Arguments(Protocol):
    def schema(self) -> dict[str, Any]: ...

    def check(self, arguments: Mapping[str, Any], find: Find | None = None) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Something a model may call. Made from a function by `tool`, or written out with a JSON Schema of its own.

    `function` takes the arguments by keyword, may be async, and returns anything. `approval` is True, False, or a
    function of the call that returns either, or a verdict of `ToolApprovalDecision`. `idempotent` says that running a
    call twice under one idempotency key does what running it once does. `version` stands for the code where its
    source cannot be read.

    `on_error` says what an error does, where the execution policy shall not; `error_message(call, error)` words it for
    the model. `max_result_chars` bounds what the model is shown of a result, `summary(value)` says what it is shown
    instead; the whole value is kept either way, and the model reads its address.
    """

    name: str
    description: str
    function: Callable[..., Any]
    parameters: Mapping[str, Any] | None = None
    approval: Approval = False
    idempotent: bool = False
    external: bool = False
    parallel: bool = False
    on_error: ToolErrorStrategy | str | None = None
    error_message: ErrorMessage | None = None
    max_result_chars: int = 0
    summary: Callable[[Any], Any] | None = None
    version: str = ""
    _arguments: _Arguments = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidAgentError(f"tool {self.name!r} with {self.function!r}", "a function", "pass one")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            met = f"tool {self.name!r} with a generator function, which would never run"
            raise InvalidAgentError(
                met, "a function that returns its result", "collect what it yields, and return that"
            )
        if not (isinstance(self.approval, bool) or callable(self.approval)):
            met = f"tool {self.name!r} with approval={self.approval!r}"
            raise InvalidAgentError(met, "True, False, or a function of the call", "pass one of these")
        for name in ("error_message", "summary"):
            if not ((given := getattr(self, name)) is None or callable(given)):
                raise InvalidAgentError(f"tool {self.name!r} with {name}={given!r}", "a function", "pass one")
        arguments: _Arguments = (
            _Signature(self.name, self.function) if self.parameters is None else _Schema(self.name, self.parameters)
        )
        object.__setattr__(self, "_arguments", arguments)
        _ = self.definition  # an ill-defined tool is refused where it is made

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as data."""
        return ToolDefinition(
            name=self.name,
            description=self.description,
            parameters=freeze_strict(self._arguments.schema(), f"parameters of tool {self.name!r}"),
            guarded=self.approval is not False,
            idempotent=self.idempotent,
            external=self.external,
            parallel=self.parallel,
            on_error=self.on_error,  # type: ignore[arg-type]  # a word will do
            max_result_chars=self.max_result_chars,
        )

    def check(self, arguments: Mapping[str, Any], find: Find | None = None) -> dict[str, Any]:
        """The arguments as the function takes them.

        `find` gives the result that an address names; without it an address stays as it is.

        Raises:
            InvalidArgumentsError: they do not fit; says where and why.
        """
        return self._arguments.check(arguments, find)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    idempotent: bool = False,
    external: bool = False,
    parallel: bool = False,
    on_error: ToolErrorStrategy | str | None = None,
    error_message: ErrorMessage | None = None,
    max_result_chars: int = 0,
    summary: Callable[[Any], Any] | None = None,
    version: str = "",
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    idempotent: bool = False,
    external: bool = False,
    parallel: bool = False,
    on_error: ToolErrorStrategy | str | None = None,
    error_message: ErrorMessage | None = None,
    max_result_chars: int = 0,
    summary: Callable[[Any], Any] | None = None,
    version: str = "",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, plain or async: `@tool` or `@tool(approval=True)`.

    Raises:
        InvalidAgentError: the signature cannot become a schema, or the name cannot be one.
    """

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(
            name=name if name is not None else getattr(function, "__name__", ""),
            description=description if description is not None else inspect.getdoc(function) or "",
            function=function,
            approval=approval,
            idempotent=idempotent,
            external=external,
            parallel=parallel,
            on_error=on_error,
            error_message=error_message,
            max_result_chars=max_result_chars,
            summary=summary,
            version=version,
        )

    return make if function is None else make(function)


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """The value as a tool: a tool as it is, a function as `tool` makes it."""
    return value if isinstance(value, Tool) else tool(value)


def to_text(value: Any) -> str:
    """A tool's result as the text that model, store and page see: made once, well formed, never shortened by size.

    Text stays text; everything else becomes JSON, with NaN and infinities as words; a table becomes its own printed
    form under a line with its shape; what JSON does not know becomes a short description. Nothing is refused.
    """
    try:
        return _text(value)
    except Exception as error:  # a foreign object may fail at anything, and its tool has done its work already
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def is_table(value: Any) -> bool:
    """Whether a value prints itself as a table does: its text is only a look at it."""
    try:
        shape = getattr(value, "shape", None)
        return isinstance(shape, tuple) and bool(shape) and (hasattr(value, "columns") or hasattr(value, "index"))
    except Exception:  # a foreign object may fail at being looked at
        return False


def _text(value: Any) -> str:
    if isinstance(value, str):
        return well_formed(str.__str__(value))
    if is_table(value):
        return well_formed(f"{type(value).__name__} of {' x '.join(map(str, value.shape))}\n{value}")
    if getattr(value, "shape", None) and callable(listed := getattr(value, "tolist", None)):
        value = listed()
    return json.dumps(freeze(value), ensure_ascii=False)


class _Signature:
    """Arguments as a function's signature describes them."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._names: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for number, (parameter, hint) in enumerate(_parameters(name, function)):
            # Field names of their own: a parameter may be called "schema", "copy" or "_x", as pydantic's own names are.
            plain = f"p{number}"
            self._names[plain] = parameter.name
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[plain] = (hint, Field(default, alias=parameter.name))
        try:
            self._model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
            self._schema = self._model.model_json_schema(by_alias=True, schema_generator=_QuietSchema)
        except (PydanticUserError, TypeError) as error:
            raise InvalidAgentError(
                f"tool {name!r}: {error}", "types that JSON can carry", "annotate it with such types"
            ) from error

    def schema(self) -> dict[str, Any]:
        schema = {key: part for key, part in self._schema.items() if key != "title"}
        properties = schema.get("properties", {})
        schema["properties"] = {
            name: {key: part for key, part in spec.items() if key != "title"} for name, spec in properties.items()
        }
        return schema

    def check(self, arguments: Mapping[str, Any], find: Find | None = None) -> dict[str, Any]:
        try:
            model = self._model.model_validate(thawed(arguments), context=find)
        except ValidationError as error:
            raise InvalidArgumentsError(_listed(error), _faults(error)) from None
        return {self._names[name]: getattr(model, name) for name in self._names if name in model.model_fields_set}


class _QuietSchema(GenerateJsonSchema):
    """A default that is no JSON stays out of the schema, without a warning: the function has it all the same."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _parameters(name: str, function: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    """The parameters with their types; what the function returns is nobody's business here."""
    plain: Any = function.func if isinstance(function, partial) else function
    plain = plain if inspect.isroutine(plain) else type(plain).__call__
    try:
        written = {key: value for key, value in plain.__annotations__.items() if key != "return"}
        known = getattr(inspect.unwrap(plain), "__globals__", {})
        hints = get_type_hints(SimpleNamespace(__annotations__=written), globalns=known, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
    except (AttributeError, NameError, TypeError, ValueError) as error:
        raise InvalidAgentError(f"tool {name!r}: {error}", "types that can be resolved", "annotate it") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            met = f"tool {name!r} takes {parameter}"
            raise InvalidAgentError(met, "parameters that can be given by name", "write them out")
        if isinstance(parameter.default, FieldInfo):
            met = f"tool {name!r} takes {parameter.name} with a Field as its default"
            raise InvalidAgentError(met, "a plain default", "write it as Annotated[type, Field(...)] = default")
    return [(parameter, hints.get(parameter.name, Any)) for parameter in parameters]


class _Schema:
    """Arguments as a JSON Schema describes them."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._schema: dict[str, Any] = thawed(freeze_strict(schema, f"parameters of tool {name!r}"))
        check_schema(self._schema, f"tool {name!r}")
        self._validator = validator(self._schema)

    def schema(self) -> dict[str, Any]:
        return dict(self._schema)

    def check(self, arguments: Mapping[str, Any], find: Find | None = None) -> dict[str, Any]:
        plain: dict[str, Any] = thawed(arguments)
        if errors := sorted(self._validator.iter_errors(plain), key=lambda error: error.json_path):
            told = "; ".join(f"{error.json_path}: {error.message}" for error in errors[:10])
            raise InvalidArgumentsError(told, [fault_of(error) for error in errors[:10]])
        return plain


def thawed(value: Any) -> Any:
    """Frozen data as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thawed(item) for item in value]
    return value


def _listed(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in faults[:10])


def _faults(error: ValidationError) -> list[DataError]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [DataError(pointer=pointer(fault["loc"]), message=fault["msg"]) for fault in found[:10]]
