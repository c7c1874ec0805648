"""Values that cannot change and always are JSON.

Rule 1: data enters the core through `freeze` (anything, made to fit) or `freeze_strict` (JSON or an error).
Rule 2: what is frozen once is shared afterwards, never copied again.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from numbers import Integral, Real
from typing import Any, Never, TypeVar

from .errors import InvalidValueError

_LONGEST_FOREIGN = 1_000  # characters kept of an object that is no JSON value
_DEEPEST = 60  # levels; deeper data is cut, long before Python's own recursion limit
_LARGEST = 10**4_000  # JSON readers, Python's own among them, refuse numbers of about as many digits


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change; equal to, and serialised like, a plain one.

    `freeze` makes them. Whoever calls the class vouches for the values: they are taken as they are.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise TypeError("this data is read-only: take a copy with dict(...) and change that")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> "FrozenDict":
        return self

    def __deepcopy__(self, _: Any) -> "FrozenDict":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


EMPTY = FrozenDict()

D = TypeVar("D")


def changed(value: D, **fields: Any) -> D:
    """`dataclasses.replace` for a frozen dataclass without slots and without checks of its own, several times faster.

    Raises:
        TypeError: it has no such field.
    """
    if unknown := fields.keys() - value.__dict__.keys():
        raise TypeError(f"{type(value).__name__} has no field {', '.join(sorted(unknown))}")
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **fields)
    return copy


def freeze(value: Any) -> Any:
    """The value as read-only JSON data: mappings, tuples, text, numbers, true, false, None.

    Nothing is refused but a None key: NaN and infinities become the words "NaN", "Infinity", "-Infinity"; lone
    surrogates become U+FFFD; objects that JSON does not know become their parts or a short text; keys that would fall
    together are told apart by their type; circles, and what is nested too deep, are cut.

    Raises:
        InvalidValueError: a mapping has None as a key.
    """
    return _freeze(value, "data", (), strict=False)


def freeze_strict(value: Any, what: str) -> Any:
    """The value as read-only JSON data, or an error that names the first place which is not JSON.

    Raises:
        InvalidValueError: some part, however deep, is no JSON value; `path` says where.
    """
    return _freeze(value, what, (), strict=True)


def well_formed(text: str) -> str:
    """The text without lone surrogates: pairs are joined, what is left alone becomes U+FFFD.

    Raises:
        InvalidValueError: it is no text.
    """
    if not isinstance(text, str):
        raise InvalidValueError("this", text, "text", "pass a string")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _freeze(value: Any, path: str, above: tuple[int, ...], strict: bool) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if value is None or kind is bool or kind is FrozenDict:
        return value
    if kind is int and -_LARGEST < value < _LARGEST:
        return value
    if kind is float and math.isfinite(value):
        return value
    if id(value) in above:
        return _cut(value, "<a circular reference>", path, strict)
    if len(above) >= _DEEPEST:
        return _cut(value, "<nested too deep>", path, strict)
    above = (*above, id(value))
    if kind is dict or kind is list or kind is tuple:
        return _freeze_container(value, path, above, strict)
    try:
        return _freeze_other(value, path, above, strict)
    except InvalidValueError:
        raise
    except Exception as error:  # code of the value's own has run: it may raise anything, and must not hurt the turn
        if strict:
            raise _unfit(value, path) from error
        return f"<{kind.__name__} without a text>"


def _freeze_container(value: Any, path: str, above: tuple[int, ...], strict: bool) -> Any:
    if not isinstance(value, Mapping):
        return tuple([_freeze(item, f"{path}[{n}]", above, strict) for n, item in enumerate(value)])
    frozen: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _freeze_key(key, path, strict)
        while name in frozen:  # 1 and "1" are two keys here, and would be one there
            name = f"{name} ({type(key).__name__})"
        frozen[name] = _freeze(item, f"{path}.{name}", above, strict)
    return FrozenDict(frozen)


def _freeze_key(key: Any, path: str, strict: bool) -> str:
    if key is None or (strict and not isinstance(key, str)):
        raise InvalidValueError(f"a key of {path}", key, "text", "give this entry a name")
    return str(_freeze(key, f"a key of {path}", (), strict))


def _freeze_other(value: Any, path: str, above: tuple[int, ...], strict: bool) -> Any:
    """What is JSON under another name: subclasses, enums, the numbers of other libraries."""
    if isinstance(value, Mapping | list | tuple):
        return _freeze_container(value, path, above, strict)
    if isinstance(value, Enum):
        return _freeze(value.value, path, above, strict)
    if isinstance(value, str):
        return well_formed(str.__str__(value))
    if isinstance(value, Integral):
        number = int(value)
        return number if -_LARGEST < number < _LARGEST else _cut(value, "<a number of too many digits>", path, strict)
    if isinstance(value, Real):
        real = float(value)
        if math.isfinite(real):
            return real
        return _cut(value, "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity", path, strict)
    if strict:
        raise _unfit(value, path)
    return _describe(value, path, above)


def _describe(value: Any, path: str, above: tuple[int, ...]) -> Any:
    """What JSON does not know, as parts where it has some, else as a short text."""
    if isinstance(value, datetime | date | time):
        return str(value.isoformat())
    if isinstance(value, Set):
        return tuple(sorted([_freeze(item, path, above, False) for item in value], key=repr))
    if is_dataclass(value) and not isinstance(value, type):
        return _freeze({field.name: getattr(value, field.name) for field in fields(value)}, path, above, False)
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):  # a pydantic model
        return _freeze(dump(mode="json"), path, above, False)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and not shape and callable(item := getattr(value, "item", None)):
        # A scalar of an array library. Its times stay text: in nanoseconds they would become bare numbers.
        is_time = getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M")
        return str(value) if is_time else _freeze(item(), path, above, False)
    text = well_formed(str.__str__(str(value)))
    if len(text) <= _LONGEST_FOREIGN:
        return text
    return f"{text[:_LONGEST_FOREIGN]}… ({len(text):,} characters in all)"


def _cut(value: Any, why: str, path: str, strict: bool) -> str:
    """Stands where data had to be cut, and says why."""
    if strict:
        raise InvalidValueError(path, value, f"plain, finite JSON data, not {why}", "leave it out or write it as text")
    return why


def _unfit(value: Any, path: str) -> InvalidValueError:
    expected = "text, a number, true, false, None, a list or a mapping"
    return InvalidValueError(path, value, expected, "convert it first")
