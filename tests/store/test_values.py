"""Whole values as bytes, and back: T14, K08, K21, K22"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.errors import StoreDamagedError, StoreError
from agentflex_nb.core.values import PackedValue
from agentflex_nb.store import values
from agentflex_nb.store.values import pack, unpack

TABLE = "application/vnd.apache.arrow.stream"


def again(value: Any, media_type: str) -> Any:
    packed = pack(value)
    assert packed is not None
    assert packed.media_type == media_type
    return unpack(packed)


@given(st.text())
def test_any_text_comes_back(text):
    """K22"""
    assert again(text, "text/plain") == text


@pytest.mark.parametrize("value", [b"", b"\x00\xff", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_come_back(value):
    assert again(value, "application/octet-stream") == bytes(value)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, None], "s": ["é", None], "b": [True, False]}),
        pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "c": pd.Categorical(["a", "b"])}),
        pd.DataFrame({"at": pd.to_datetime(["2026-01-01", None]).tz_localize("Europe/Berlin")}, index=["x", "y"]),
        pd.DataFrame({"d": pd.to_timedelta(["1h", None])}),
        pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        pd.DataFrame({"lists": [[1, 2], []]}),
        pd.DataFrame(),
    ],
    ids=["nulls", "extension types", "zones and index", "durations", "column levels", "lists", "nothing"],
)
def test_a_frame_comes_back_with_its_types_and_its_index(frame):
    """K08"""
    found = again(frame, TABLE)

    if "lists" in frame:
        found["lists"] = found["lists"].map(list)
    pd.testing.assert_frame_equal(found, frame, check_column_type=False)


def test_an_arrow_table_comes_back_as_one():
    table = pa.table({"a": [1, None], "b": ["x", "y"]})

    assert again(table, TABLE).equals(table)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3), np.array(["a", "é"]), np.array([True]), np.array([1 + 2j]), np.zeros((0, 3)),
        np.array(["2026-01-01", "NaT"], dtype="datetime64[ns]"), np.array([np.nan, np.inf]),
        np.array([(1, "a")], dtype=[("n", "i4"), ("s", "U1")]),
    ],
    ids=lambda array: str(array.dtype),
)  # fmt: skip
def test_an_array_comes_back_with_its_type_and_shape(array):
    found = again(array, "application/x-npy")

    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)


def test_what_json_does_not_have_stands_as_what_means_it():
    """K21"""
    value = {"loss": float("nan"), "pair": (1, 2), "at": pd.Timestamp("2026-01-01")}

    assert again(value, "application/json") == {"loss": "NaN", "pair": [1, 2], "at": "2026-01-01T00:00:00"}


class Hostile:
    @property
    def columns(self) -> Any:
        raise RecursionError

    __arrow_c_stream__ = columns


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: None,
        Hostile(),
        np.array([object()]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame({"mixed": [1, "a", object()]}),
        {None: 1},
    ],
    ids=["object", "function", "hostile", "array of objects", "equal columns", "mixed column", "a key that is none"],
)
def test_what_cannot_be_kept_is_not_kept_and_nothing_is_raised(value):
    assert pack(value) is None


def test_what_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(values, "LARGEST", 10)

    assert pack("x" * 10) is not None
    assert pack("x" * 11) is None


def test_bytes_of_an_unknown_kind_are_refused_with_what_to_do():
    with pytest.raises(StoreError, match=r"application/x-pickle.* is not known here: upgrade"):
        unpack(PackedValue("application/x-pickle", b""))


@pytest.mark.parametrize("media_type", ["application/json", "application/x-npy", TABLE])
def test_bytes_that_are_not_what_they_say_are_damage(media_type):
    with pytest.raises(StoreDamagedError, match="a result of 3 bytes"):
        unpack(PackedValue(media_type, b"{[x"))


def test_nothing_that_could_run_code_is_read():
    """An array of objects is a pickle in disguise."""
    import io

    sink = io.BytesIO()
    np.save(sink, np.array([object()]), allow_pickle=True)

    with pytest.raises(StoreDamagedError, match="allow_pickle"):
        unpack(PackedValue("application/x-npy", sink.getvalue()))
