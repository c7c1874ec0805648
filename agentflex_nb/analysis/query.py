"""SQL over a lab, answered as a frame."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..store.archive import Archive
from .dtypes import to_frame

Params = Sequence[Any] | Mapping[str, Any] | None


def sql(
    archive: Archive,
    query: str,
    params: Params = None,
    *,
    tables: Mapping[str, pd.DataFrame] | None = None,
    write: bool = False,
) -> pd.DataFrame:
    """The result of one statement, under the dtype contract.

    Args:
        archive: Where to ask.
        query: One statement; it names the lab's tables and views, never a variable of the notebook.
        params: Values for `?` (a sequence) or `$name` (a mapping); NumPy scalars, enums and sets are fine.
        tables: Frames that the query may name, under these names.
        write: Let the statement change something.

    Raises:
        QueryError: it cannot be answered; says what was found, and what was perhaps meant.
    """
    return to_frame(archive.query(query, params, tables=tables, write=write))
