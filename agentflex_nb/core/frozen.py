"""Values that cannot change and always are JSON.

Rule 1: data enters the core through `freeze` (anything, made to fit) or `freeze_strict` (JSON or an error).
Rule 2: what is frozen once is shared afterwards, never copied again.
"""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from numbers import Integral, Real
from typing import Any, Never

from .errors import InvalidValueError

_LONGEST_FOREIGN = 1_000  # characters kept of an object that is no JSON value
_DEEPEST = 60  # levels; deeper data is cut, long before Python's own recursion limit


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change; equal to, and serialised like, a plain one."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise TypeError("this data is read-only: take a copy with dict(...) and change that")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted((key, repr(value)) for key, value in self.items())))

    def __copy__(self) -> "FrozenDict":
        return self

    def __deepcopy__(self, _: Any) -> "FrozenDict":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


EMPTY = FrozenDict()


def freeze(value: Any) -> Any:
    """The value as read-only JSON data: mappings, tuples, text, numbers, true, false, None.

    Nothing is refused but a None key: NaN and infinities become the words "NaN", "Infinity", "-Infinity"; lone
    surrogates become U+FFFD; objects that JSON does not know become a short text; circles are cut.

    Raises:
        InvalidValueError: a mapping has None as a key.
    """
    return _freeze(value, "data", (), _describe)


def freeze_strict(value: Any, what: str) -> Any:
    """The value as read-only JSON data, or an error that names the first place which is not JSON.

    Raises:
        InvalidValueError: some part, however deep, is no JSON value; `path` says where.
    """
    return _freeze(value, what, (), _reject)


def well_formed(text: str) -> str:
    """The text without lone surrogates: pairs are joined, what is left alone becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_Foreign = Callable[[Any, str, tuple[int, ...]], Any]


def _freeze(value: Any, path: str, above: tuple[int, ...], foreign: _Foreign) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if kind is int or kind is bool or value is None or kind is FrozenDict:
        return value
    if kind is float:
        return value if math.isfinite(value) else foreign(_not_finite(value), path, above)
    if isinstance(value, Mapping | list | tuple):
        return _freeze_container(value, path, above, foreign)
    if isinstance(value, Enum):
        return _freeze(value.value, path, above, foreign)
    if isinstance(value, str):
        return well_formed(str.__str__(value))
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _freeze(float(value), path, above, foreign)
    return foreign(value, path, above)


def _freeze_container(value: Any, path: str, above: tuple[int, ...], foreign: _Foreign) -> Any:
    if id(value) in above:
        return foreign(_Cut("a circular reference"), path, above)
    if len(above) >= _DEEPEST:
        return foreign(_Cut("nested too deep"), path, above)
    above = (*above, id(value))
    if not isinstance(value, Mapping):
        return tuple([_freeze(item, f"{path}[{n}]", above, foreign) for n, item in enumerate(value)])
    frozen: dict[str, Any] = {}
    for key, item in value.items():
        name = well_formed(key) if type(key) is str else _key(key, path, frozen, foreign)
        frozen[name] = _freeze(item, f"{path}.{name}", above, foreign)
    return FrozenDict(frozen)


def _key(key: Any, path: str, taken: Mapping[str, Any], foreign: _Foreign) -> str:
    if key is None:
        raise InvalidValueError(path, key, "a key that is text", "give this entry a name")
    if isinstance(key, str):
        return well_formed(str.__str__(key))
    name = str(foreign(key, f"a key of {path}", ()))
    return f"{name} ({type(key).__name__})" if name in taken else name


class _Cut:
    """Stands where data had to be cut; its text says why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __str__(self) -> str:
        return f"<{self.why}>"


def _not_finite(number: float) -> _Cut:
    return _NotFinite("NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity")


class _NotFinite(_Cut):
    """NaN or an infinity, which JSON does not have."""

    def __str__(self) -> str:
        return self.why


def _reject(value: Any, path: str, above: tuple[int, ...]) -> Any:
    if isinstance(value, _Cut):
        raise InvalidValueError(
            path, value.why, "plain, finite JSON data", f"it is {value}: leave it out or write it as text"
        )
    raise InvalidValueError(path, value, "text, a number, true, false, None, a list or a mapping", "convert it first")


def _describe(value: Any, path: str, above: tuple[int, ...]) -> Any:
    if id(value) in above:
        return str(_Cut("a circular reference"))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Set):
        return tuple(sorted((_freeze(item, path, (*above, id(value)), _describe) for item in value), key=repr))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return _freeze(parts, path, (*above, id(value)), _describe)
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        scalar = value.item()  # of an array library; a time in nanoseconds would become a bare number
        is_time = getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M")
        return str(value) if is_time else _freeze(scalar, path, (*above, id(value)), _describe)
    try:
        if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):  # a pydantic model
            return _freeze(dump(mode="json"), path, (*above, id(value)), _describe)
        text = well_formed(str(value))
    except Exception:  # a foreign __str__ may raise anything, and must not hurt the turn
        return f"<{type(value).__name__} without a text>"
    if len(text) <= _LONGEST_FOREIGN:
        return text
    return f"{text[:_LONGEST_FOREIGN]}… ({len(text):,} characters in all)"
