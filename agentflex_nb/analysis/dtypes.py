"""The one dtype contract of every frame: the same whether a result is empty, full, or all missing.

| in DuckDB                  | in the frame          |
|----------------------------|-----------------------|
| text, JSON, UUID           | str                   |
| whole numbers, sums        | Int64                 |
| floats, decimals           | float64               |
| flags                      | boolean               |
| times                      | datetime64[us, UTC]   |
| closed sets (status, type) | category, all members |
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pandas as pd


class ArrowTable(Protocol):
    """What is used of a pyarrow.Table."""

    @property
    def schema(self) -> Any:
        """Its fields."""
        ...

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """As a frame."""
        ...


def to_frame(table: ArrowTable, closed: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """The table as a frame under the contract. `closed` names the columns that are closed sets, with their members."""
    frame = table.to_pandas(types_mapper=_mapped)
    for name, kind in ((field.name, str(field.type)) for field in table.schema):
        if name in (closed or {}):
            frame[name] = pd.Categorical(frame[name], categories=list((closed or {})[name]))
        elif kind.startswith("decimal"):
            whole = kind.endswith(", 0)")
            frame[name] = frame[name].astype("Int64" if whole and _fits(frame[name]) else "float64")
        elif kind == "null":
            frame[name] = frame[name].astype("object")
        elif kind.startswith("date32"):
            frame[name] = pd.to_datetime(frame[name]).astype("datetime64[us]")
    return frame


def _mapped(arrow_type: Any) -> Any:
    kind = str(arrow_type)
    if kind in ("string", "large_string", "string_view"):
        return pd.StringDtype(na_value=float("nan"))
    if kind.startswith(("int", "uint")):
        return pd.Int64Dtype()
    if kind == "bool":
        return pd.BooleanDtype()
    return None


def _fits(column: pd.Series) -> bool:
    known = column.dropna()
    return bool(known.empty or (abs(known) < 2**63).all())
