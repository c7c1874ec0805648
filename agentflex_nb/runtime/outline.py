"""A value that is too long for the model, told within a bound: what it is, how large, how it begins."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any

from ..core.frozen import freeze, well_formed

_ROWS = (20, 10, 5, 2, 1)  # of a table, as many as find room
_LONGEST_ITEM = 200  # characters of one item; a list of long texts is told by several of them, not by one


def outline(value: Any, whole: str, bound: int) -> str:
    """At most `bound` characters about a value whose whole text is `whole`. Never raises."""
    try:
        lines = next((tell(value, bound) for fits, tell in _KINDS if fits(value)), None)
        told = _within(lines, bound) if lines is not None else ""
    except Exception:  # a foreign object may fail at anything, and its tool has done its work already
        told = ""
    return told or whole[:bound]


def _table(table: Any, bound: int) -> Iterator[str]:
    yield _sized(table)
    types = table.dtypes if hasattr(table, "dtypes") else table.dtype
    yield "columns: " + ", ".join([f"{name} ({kind})" for name, kind in _columns(table, types)])
    room = bound // 2
    for rows in _ROWS:
        if len(head := str(table.head(rows))) <= room:
            yield f"it begins:\n{head}"
            return


def _columns(table: Any, types: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(types, Mapping) or hasattr(types, "items"):
        return types.items()  # type: ignore[no-any-return]
    if hasattr(table, "columns"):
        return zip(table.columns, types, strict=True)
    return [(getattr(table, "name", None) or "values", types)]


def _array(array: Any, bound: int) -> Iterator[str]:
    yield f"{_sized(array)}, {array.dtype}"
    yield "it begins:"
    yield from map(_item, array.reshape(-1)[:bound].tolist())


def _mapping(mapping: Mapping[Any, Any], bound: int) -> Iterator[str]:
    yield f"{type(mapping).__name__} of {len(mapping):,} entries, the first of them:"
    for key, item in islice(mapping.items(), bound):
        yield f"{_item(key)}: {_item(item)}"


def _items(items: Any, bound: int) -> Iterator[str]:
    yield f"{type(items).__name__} of {len(items):,} items, the first of them:"
    yield from map(_item, islice(items, bound))


# what kind of value -> how it is told, line by line; the first that fits
_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, int], Iterator[str]]], ...] = (
    (lambda value: hasattr(value, "head") and bool(getattr(value, "shape", None)), _table),
    (lambda value: hasattr(value, "reshape") and bool(getattr(value, "shape", None)), _array),
    (lambda value: isinstance(value, Mapping), _mapping),
    (lambda value: isinstance(value, list | tuple | Set), _items),
)


def _sized(value: Any) -> str:
    return f"{type(value).__name__} of {' x '.join([f'{size:,}' for size in value.shape])}"


def _item(value: Any) -> str:
    text = json.dumps(freeze(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_ITEM else f"{text[:_LONGEST_ITEM]}…"


def _within(lines: Iterable[str], bound: int) -> str:
    """As many lines as have room, whole ones; "" if not even the first has."""
    told: list[str] = []
    for line in map(well_formed, lines):
        bound -= len(line) + 1
        if bound < -1:
            break
        told.append(line)
    return "\n".join(told)
