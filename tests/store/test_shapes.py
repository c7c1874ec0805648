from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.frozen import EMPTY, FrozenDict, freeze
from agentflex_nb.store.shapes import microseconds, moment, shape_of

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    name: str = ""
    size: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    id: str
    colour: Colour = Colour.RED
    limit: int = 20
    open: bool = False
    grown: datetime | None = None
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    days: tuple[datetime, ...] = ()
    names: tuple[str, ...] = ()
    data: FrozenDict | str | None = None
    metadata: FrozenDict = EMPTY
    child: "Tree | None" = None
    value: Any = field(default=None)


FULL = Tree(
    id="t",
    limit=0,
    open=True,
    grown=NOON,
    leaf=Leaf(name="a"),
    leaves=(Leaf(size=Size.SMALL), Leaf()),
    days=(NOON,),
    names=("x", "y"),
    data=EMPTY,
    metadata=freeze({"a": [1, {"b": None}]}),
    child=Tree(id="c", data="text"),
    value=(1, "2"),
)


def test_a_value_becomes_plain_data():
    assert shape_of(Tree).encode(FULL) == {
        "id": "t",
        "colour": "red",
        "limit": 0,
        "open": True,
        "grown": microseconds(NOON),
        "leaf": {"name": "a"},
        "leaves": [{"size": 1}, {}],
        "days": [microseconds(NOON)],
        "names": ("x", "y"),
        "data": {},
        "metadata": {"a": (1, {"b": None})},
        "child": {"id": "c", "colour": "red", "limit": 20, "data": "text"},
        "value": (1, "2"),
    }


def test_only_empty_defaults_are_left_out():
    assert shape_of(Tree).encode(Tree(id="t")) == {"id": "t", "colour": "red", "limit": 20}


def test_a_value_comes_back_equal_and_frozen():
    written = shape_of(Tree).encode(FULL) | {"names": ["x", "y"], "metadata": {"a": [1, {"b": None}]}}

    read = shape_of(Tree).decode(written)

    assert read == FULL
    assert type(read.metadata) is type(read.metadata["a"][1]) is type(read.data) is FrozenDict
    assert type(read.leaves) is type(read.names) is tuple
    assert type(read.colour) is Colour


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({"id": "t", "height": 3}, "height"),
        ({"id": "t", "colour": "blue"}, "blue"),
        ({"id": "t", "leaf": {"x": 1}}, "x"),
    ],
)
def test_what_is_not_known_is_refused(data, names):
    with pytest.raises((ValueError, KeyError), match=names):
        shape_of(Tree).decode(data)


def test_a_shape_without_a_field_neither_writes_nor_reads_it():
    bare = shape_of(Tree).without("leaves")

    assert "leaves" not in bare.encode(FULL)
    with pytest.raises(ValueError, match="leaves"):
        bare.decode({"id": "t", "leaves": []})


@pytest.mark.parametrize("hint", [set, "dict[str, int]", "Leaf | Tree", bytes])
def test_a_type_that_json_cannot_hold_is_refused_when_the_shape_is_taken(hint):
    unfit = dataclass(type("Unfit", (), {"__annotations__": {"part": hint}, "__module__": __name__}))

    with pytest.raises(InvalidValueError, match=r"Unfit\.part"):
        shape_of(unfit)


def test_times_are_exact_to_the_microsecond_in_any_zone():
    east = timezone(timedelta(hours=5, minutes=45))

    for at in (
        NOON,
        NOON.astimezone(east),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime.max.replace(tzinfo=UTC),
    ):
        assert moment(microseconds(at)) == at
    assert moment(0).tzinfo is UTC
