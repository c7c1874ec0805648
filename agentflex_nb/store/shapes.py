"""How values of a type are written as JSON and read again, taken once from the annotations of its fields.

Rule 1: a dataclass is rebuilt only where a field is annotated with it; no name in the data chooses a class.
Rule 2: a field or an enum's word that is not known here is refused.
Rule 3: only an empty default ("", None, 0, false, nothing in it) is left out. A limit is written even where it is the
default, because a default may change and a saved turn may not.

Times are whole microseconds since 1970, in UTC.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..core.errors import InvalidValueError
from ..core.frozen import FrozenDict

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    """An aware time as microseconds since 1970 in UTC."""
    return (at - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The time in UTC of such a number."""
    return _EPOCH + microseconds * _MICROSECOND


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and how its value becomes JSON."""

    name: str
    default: Any
    """The value that is left out; MISSING where none is."""
    write: Convert | None
    """None: the value is JSON as it stands."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A dataclass: its fields in order, and how to read each one."""

    cls: type
    fields: tuple[Field, ...]
    read: Mapping[str, Convert | None]

    def without(self, name: str) -> "Shape":
        """The same shape, but for one field."""
        kept = tuple(field for field in self.fields if field.name != name)
        return Shape(self.cls, kept, {field.name: self.read[field.name] for field in kept})

    def encode(self, value: Any) -> dict[str, Any]:
        """The value as a plain dict, without its empty defaults."""
        data: dict[str, Any] = {}
        for field in self.fields:
            part = getattr(value, field.name)
            default = field.default
            if part is default or (default is not MISSING and part == default):
                continue
            write = field.write
            data[field.name] = part if write is None else write(part)
        return data

    def decode(self, data: Mapping[str, Any]) -> Any:
        """The value of such a dict."""
        read = self.read
        parts = {}
        for name, part in data.items():
            if name not in read:
                raise ValueError(f"{self.cls.__name__} has no field {name!r} in this version")
            convert = read[name]
            parts[name] = part if convert is None else convert(part)
        return self.cls(**parts)


_shapes: dict[Any, Shape] = {}


def shape_of(cls: type) -> Shape:
    """The shape of a dataclass.

    Raises:
        InvalidValueError: a field's type cannot be kept as JSON.
    """
    known = _shapes.get(cls)
    if known is None:
        known = _shapes[cls] = _taken_from(cls)
    return known


def _taken_from(cls: Any) -> Shape:
    hints = get_type_hints(cls)
    converters = {field.name: _converters(hints[field.name], f"{cls.__name__}.{field.name}") for field in fields(cls)}
    return Shape(
        cls,
        tuple(Field(field.name, _empty_default(field), converters[field.name][0]) for field in fields(cls)),
        {name: read for name, (_, read) in converters.items()},
    )


def _empty_default(field: Any) -> Any:
    default = field.default
    if default is MISSING:
        return MISSING
    empty = not (shape_of(type(default)).encode(default) if is_dataclass(type(default)) else default)
    return default if empty else MISSING


def _converters(hint: Any, where: str) -> tuple[Convert | None, Convert | None]:
    """How a value of this annotation is written and read; None where it is the same in JSON."""
    if hint in (str, int, float, bool, types.NoneType):
        return None, None
    if hint in (FrozenDict, Any):
        return None, _frozen
    if hint is datetime:
        return microseconds, moment
    if isinstance(hint, type) and issubclass(hint, Enum):
        return (lambda member: member._value_), {member.value: member for member in hint}.__getitem__
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(hint)
    arguments = get_args(hint)
    if get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        write, read = _converters(arguments[0], where)
        return (_each(write, list) if write else None), _each(read or _same, tuple)
    if get_origin(hint) in (types.UnionType, Union):
        return _union(arguments, where)
    raise InvalidValueError(where, hint, "a type that can be kept as JSON", "use text, a number or a FrozenDict")


def _nested(cls: type) -> tuple[Convert, Convert]:
    # Not `shape_of(cls).encode` at once: a type may hold itself.
    return (lambda value: shape_of(cls).encode(value)), (lambda data: shape_of(cls).decode(data))


def _union(members: Sequence[Any], where: str) -> tuple[Convert | None, Convert | None]:
    pairs = [_converters(member, where) for member in members if member is not types.NoneType]
    if all(write is None for write, _ in pairs):
        return None, (_frozen if any(read for _, read in pairs) else None)
    if len(pairs) > 1:
        raise InvalidValueError(where, members, "one type, or None", "use a FrozenDict")
    write, read = pairs[0]
    return _unless_none(write or _same), _unless_none(read or _same)


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert, make: Callable[[list[Any]], Any]) -> Convert:
    return lambda values: make([convert(value) for value in values])


def _same(value: Any) -> Any:
    return value


def _frozen(value: Any) -> Any:
    """JSON data as the core keeps it. Unlike `freeze` it trusts its input, which the parser has just made."""
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: _frozen(part) for key, part in value.items()})
    if kind is list:
        return tuple([_frozen(part) for part in value])
    return value
