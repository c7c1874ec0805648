"""Whatever comes in becomes read-only JSON, or is refused with the place where it stands."""

import copy
import json
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.frozen import EMPTY, FrozenDict, freeze, freeze_strict, well_formed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Long:
    def __str__(self) -> str:
        return "x" * 10_000_000


@dataclass
class Node:
    name: str
    next: object = None


def plain(value):
    return json.loads(json.dumps(value))


@given(JSON)
def test_json_stays_what_it_is(value):
    assert plain(freeze(value)) == plain(freeze_strict(value, "x")) == json.loads(json.dumps(value))


@given(JSON)
def test_what_is_frozen_once_is_shared_afterwards(value):
    frozen = freeze({"value": value})

    assert freeze(frozen) is frozen
    assert copy.copy(frozen) is copy.deepcopy(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__setitem__("a", 2),
        lambda data: data.__delitem__("a"),
        lambda data: data.update(a=2),
        lambda data: data.pop("a"),
        lambda data: data.popitem(),
        lambda data: data.clear(),
        lambda data: data.setdefault("b", 2),
        lambda data: data.__ior__({"b": 2}),
    ],
)
def test_frozen_data_refuses_every_change(change):
    """E11"""
    data = freeze({"a": 1})

    with pytest.raises(TypeError, match="read-only"):
        change(data)
    assert data == {"a": 1}


def test_changing_the_source_later_changes_nothing():
    """E11"""
    source = {"rows": [1, {"deep": [2]}]}
    frozen = freeze(source)
    source["rows"][1]["deep"].append(3)

    assert plain(frozen) == {"rows": [1, {"deep": [2]}]}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        ("NaN is fine", "NaN is fine"),
        (Colour.RED, "red"),
        ({3, 1, 2}, (1, 2, 3)),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (Decimal("1.10"), "1.10"),
        (Node("a"), {"name": "a", "next": None}),
        (Odd(), "<Odd without a text>"),
        ({1: "a", "1": "b"}, {"1": "a", "1 (str)": "b"}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
    ],
)
def test_what_json_does_not_know_becomes_something_it_knows(value, kept):
    """K08, K21"""
    assert freeze(value) == kept


def test_a_foreign_text_is_bounded():
    text = freeze(Long())

    assert len(text) < 1_100
    assert text.endswith("… (10,000,000 characters in all)")


def test_circles_are_cut_instead_of_overflowing_the_stack():
    """E11, Z13"""
    row: list = [1]
    row.append(row)
    node = Node("a")
    node.next = node

    assert freeze(row) == (1, "<a circular reference>")
    assert freeze(node)["next"] == "<a circular reference>"


def test_deep_data_is_cut():
    deep: list = []
    for _ in range(10_000):
        deep = [deep]

    assert "<nested too deep>" in json.dumps(freeze(deep))


@pytest.mark.parametrize("freeze_it", [freeze, lambda value: freeze_strict(value, "data")])
def test_a_none_key_is_refused_however_deep(freeze_it):
    """E11"""
    with pytest.raises(InvalidValueError, match="a key of data"):
        freeze_it({"a": [{None: 1}]})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": object()}]}, "metadata.a[1].b"),
        ({"a": float("nan")}, "metadata.a"),
        ([float("inf")], "metadata[0]"),
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "metadata.when"),
        ({"set": {1}}, "metadata.set"),
    ],
)
def test_strict_data_is_refused_with_the_place(value, path):
    """P9"""
    with pytest.raises(InvalidValueError) as caught:
        freeze_strict(value, "metadata")

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\ud83d\ude00b", "a😀b"),
        ("x\udcaf", "x\ufffd"),
        ("\ud83d", "\ufffd"),
        ("\\ud83d", "\\ud83d"),
        ("a\0b", "a\0b"),
        ("\u202eabc", "\u202eabc"),
    ],
)
def test_text_is_well_formed_keys_too(text, kept):
    """K22"""
    assert well_formed(text) == kept
    assert freeze({text: text}) == {kept: kept}
    kept.encode()


def test_equal_data_has_an_equal_hash():
    assert hash(FrozenDict(a=1, b=(2,))) == hash(FrozenDict(b=(2,), a=1))
    assert EMPTY == {}
