"""The one dtype contract of every frame: the same whether a result is empty, full, or all missing.

| in DuckDB                  | in the frame          |
|----------------------------|-----------------------|
| text, JSON, UUID, NULL     | str                   |
| whole numbers, sums        | Int64                 |
| floats, decimals           | float64               |
| flags                      | boolean               |
| times with a zone          | datetime64[us, UTC]   |
| dates, times without one   | datetime64[us]        |
| closed sets (status, type) | category, all members |
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import pandas as pd

from ..core.errors import QueryError

_TEXT = ("string", "large_string", "string_view")
_STR = pd.StringDtype(na_value=float("nan"))


class ArrowTable(Protocol):
    """What is used of a pyarrow.Table."""

    schema: Any

    def column(self, i: int) -> Any: ...
    def set_column(self, i: int, field: str, column: Any) -> "ArrowTable": ...
    def to_pandas(self, **options: Any) -> pd.DataFrame: ...


def to_frame(table: ArrowTable, closed: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """The table as a frame under the contract. `closed` names the columns that are closed sets, with their members.

    Raises:
        QueryError: a whole number that needs more than 64 bits.
    """
    sets: dict[int, Sequence[str]] = {}
    for position, field in enumerate(table.schema):
        if closed and field.name in closed:
            sets[position] = closed[field.name]
            table = table.set_column(position, field.name, table.column(position).dictionary_encode())
        elif target := _target(str(field.type)):
            table = table.set_column(position, field.name, _cast(table.column(position), target, field.name))
    frame = table.to_pandas(types_mapper=_mapped)
    for position, members in sets.items():
        frame.isetitem(position, frame.iloc[:, position].cat.set_categories(_index(tuple(members))).array)
    return frame


def text(values: Sequence[str | None]) -> pd.api.extensions.ExtensionArray:
    """A column of text."""
    return pd.array(values, dtype=_STR)


def flags(values: Sequence[bool | None]) -> pd.api.extensions.ExtensionArray:
    """A column of flags."""
    return pd.array(values, dtype=pd.BooleanDtype())


def members(values: Sequence[str | None], known: Iterable[str]) -> pd.Categorical:
    """A column of members of a closed set."""
    return pd.Categorical(list(values), categories=_index(tuple(known)))


@cache
def _index(members: tuple[str, ...]) -> "pd.Index[str]":
    return pd.Index(list(members), dtype="str")


def _target(kind: str) -> str | None:
    """What a column of this Arrow type is turned into before it becomes a frame's; None for what fits as it is."""
    if kind.startswith("decimal"):
        return "int64" if kind.endswith(", 0)") else "float64"  # DuckDB's sums of whole numbers are decimals of scale 0
    return {"float": "float64", "halffloat": "float64", "null": "string", "date32[day]": "timestamp[us]"}.get(kind)


def _cast(column: Any, target: str, name: str) -> Any:
    try:
        return column.cast(target)
    except ValueError:
        mend = f"cast it, for example {name}::double or {name}::varchar"
        raise QueryError(name, f"column {name} holds a number of more than 64 bits", mend) from None


def _mapped(arrow_type: Any) -> Any:
    kind = str(arrow_type)
    if kind in _TEXT:
        return _STR
    if kind.startswith(("int", "uint")):
        return pd.Int64Dtype()
    if kind == "bool":
        return pd.BooleanDtype()
    return None
