"""What a model is told of a value that is too long for it: K08, K20, T14"""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agentflex_nb.runtime.outline import outline
from agentflex_nb.runtime.tools import to_text

FRAME = pd.DataFrame({"n": range(1_000), "name": [f"name {n}" for n in range(1_000)]})


def told(value: Any, bound: int = 400) -> str:
    return outline(value, to_text(value), bound)


def test_a_table_is_told_by_shape_types_and_first_rows():
    assert told(FRAME).splitlines()[:5] == [
        "DataFrame of 1,000 x 2",
        "columns: n (int64), name (str)",
        "it begins:",
        "   n    name",
        "0  0  name 0",
    ]


def test_of_a_wide_table_at_least_the_shape_is_told():
    wide = pd.DataFrame({f"column {n}": [n] for n in range(500)})

    assert told(wide) == "DataFrame of 1 x 500"


def test_a_series_is_told_with_its_name():
    assert told(FRAME["n"]).startswith("Series of 1,000\ncolumns: n (int64)\nit begins:\n0    0\n")


def test_an_array_is_told_by_shape_type_and_first_values():
    lines = told(np.arange(10_000.0).reshape(100, 100)).splitlines()

    assert lines[:4] == ["ndarray of 100 x 100, float64", "it begins:", "0.0", "1.0"]
    assert len(lines) > 20


def test_a_mapping_is_told_by_its_first_entries():
    lines = told({f"k{n}": {"n": n} for n in range(1_000)}).splitlines()

    assert lines[:3] == ["dict of 1,000 entries, the first of them:", '"k0": {"n": 0}', '"k1": {"n": 1}']


def test_of_long_items_each_is_cut():
    lines = told(["x" * 10_000, "y"], bound=500).splitlines()

    assert lines[0] == "list of 2 items, the first of them:"
    assert (len(lines[1]), lines[2]) == (201, '"y"')


def test_text_is_told_by_its_beginning():
    assert told("abcdef" * 100, bound=10) == "abcdefabcd"


class Hostile:
    shape = (2, 2)

    def head(self, n: int) -> Any:
        raise ValueError("no head")


@pytest.mark.parametrize(
    "value", [FRAME, FRAME["n"], np.arange(9), {"a": 1}, [1, 2], {1, 2}, "text", Hostile(), 7, None, b"\xff"]
)
@pytest.mark.parametrize("bound", [1, 10, 60, 300, 10_000])
def test_no_outline_is_longer_than_its_bound_and_none_fails(value, bound):
    text = told(value, bound)

    assert len(text) <= bound
    json.dumps(text)
    text.encode()
