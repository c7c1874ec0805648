"""Tools from plain functions: schema, check of arguments, results as text. K07, K08, K21, K22, T9, T10, T14."""

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, Field

from agentflex_nb.core.errors import InvalidAgentError, InvalidValueError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.runner import AgentRunner
from agentflex_nb.runtime.tools import InvalidArgumentsError, Tool, as_tool, to_text, tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Seat(BaseModel):
    row: int
    letter: str = "A"


# -- the schema --------------------------------------------------------------------------------------------------------


def test_the_schema_comes_from_the_signature_and_the_description_from_the_docstring():
    @tool
    def book(
        name: str,
        seats: Annotated[int, Field(description="how many", ge=1)] = 1,
        note: Optional[str] = None,  # noqa: UP045 - as people write it
        tone: Literal["calm", "loud"] = "calm",
        colour: Colour = Colour.RED,
        *,
        where: list[Seat] | None = None,
    ) -> str:
        """Book seats.

        As many as there are.
        """
        return name

    schema = book.definition.parameters

    assert book.description == "Book seats.\n\nAs many as there are."
    assert schema["required"] == ("name",)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["name"] == {"type": "string"}
    assert schema["properties"]["seats"] == {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "how many",
    }
    assert schema["properties"]["tone"]["enum"] == ("calm", "loud")
    assert schema["properties"]["colour"]["default"] == "red"
    assert "Seat" in schema["$defs"]
    assert list(schema["properties"]) == ["name", "seats", "note", "tone", "colour", "where"]


def test_arguments_become_what_the_function_expects():
    seen: list[Any] = []

    @tool
    def book(seat: Seat, colour: Colour, when: dt.date, rest: list[int], free, also=7) -> None:
        """Book."""
        seen.extend([seat, colour, when, rest, free, also])

    arguments = freeze(
        {"seat": {"row": 3}, "colour": "blue", "when": "2026-02-03", "rest": [1, 2], "free": {"a": [{"b": 1}]}}
    )
    book(**book.check(arguments))

    assert seen == [Seat(row=3), Colour.BLUE, dt.date(2026, 2, 3), [1, 2], {"a": [{"b": 1}]}, 7]
    assert (type(seen[4]), type(seen[4]["a"])) == (dict, list)  # the tool's own to change


@pytest.mark.parametrize(
    "name", ["schema", "copy", "json", "_x", "model_config", "self", "cls", "validate", "dict", "p0"]
)
def test_a_parameter_may_have_any_name(name):
    scope: dict[str, Any] = {}
    exec(f"def f({name}: int, *, other: str = 'x'):\n    return {name}, other", scope)
    made = tool(name="f")(scope["f"])

    assert list(made.definition.parameters["properties"]) == [name, "other"]
    assert made(**made.check({name: 3})) == (3, "x")


def test_postponed_annotations_are_resolved_and_what_a_function_returns_is_nobodys_business():
    scope: dict[str, Any] = {"Seat": Seat}
    exec("from __future__ import annotations\ndef f(seat: Seat) -> NeverImported: return seat.row", scope)
    made = tool(scope["f"])

    assert made(**made.check({"seat": {"row": 4}})) == 4


class Desk:
    def __init__(self) -> None:
        self.books: list[str] = []

    def book(self, name: str) -> str:
        """Book."""
        self.books.append(name)
        return name

    def __call__(self, name: str) -> str:
        """Called."""
        return name


def test_methods_and_callable_objects_and_partials_are_tools_too():
    desk = Desk()
    for made in [tool(desk.book), tool(name="called")(desk), tool(name="part")(functools.partial(desk.book))]:
        assert list(made.definition.parameters["properties"]) == ["name"]
        assert made(**made.check({"name": "Ann"})) == "Ann"
    half = tool(name="half")(functools.partial(lambda a, b: (a, b), b=2))
    assert half(**half.check({"a": 1})) == (1, 2)


def test_decorated_functions_keep_their_signature():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def book(seat: Seat) -> int:
        """Book."""
        return seat.row

    assert book(**book.check({"seat": {"row": 4}})) == 4


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(*names): pass", "written|write them out"),
        ("def f(**names): pass", "write them out"),
        ("def f(a, /): pass", "write them out"),
        ("def f(a: 'Unknown'): pass", "Unknown"),
        ("def f(a: object()): pass", "f"),
        ("def f(a: complex_thing): pass", "annotate"),
        ("def f(a: int = Field(3)): pass", "Annotated"),
    ],
)
def test_a_signature_that_cannot_be_a_schema_is_refused_where_it_is_made(source, said):
    class Foreign:
        pass

    scope: dict[str, Any] = {"complex_thing": Foreign, "Field": Field}
    exec(source, scope)
    with pytest.raises(InvalidAgentError, match=said):
        tool(scope["f"])


def test_a_default_that_is_no_json_stays_out_of_the_schema_without_a_warning():
    nothing = object()

    @tool
    def f(a: Any = nothing) -> bool:
        """Compare."""
        return a is nothing

    assert f.definition.parameters["properties"] == {"a": {}}
    assert f(**f.check({})) is True


def test_a_schema_may_be_written_out_and_is_copied():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    made = Tool(name="f", description="", function=lambda a: a, parameters=schema)
    schema["properties"]["a"]["type"] = "string"

    assert made.definition.parameters["properties"]["a"]["type"] == "integer"
    assert made.check({"a": 3}) == {"a": 3}
    with pytest.raises(InvalidArgumentsError, match=r"\$\.a"):
        made.check({"a": "x"})
    with pytest.raises(TypeError, match="read-only"):
        made.definition.parameters["properties"]["a"]["type"] = "string"


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": object()}, {"minimum": float("nan")}])
def test_a_schema_that_is_none_is_refused(schema):
    with pytest.raises((InvalidAgentError, InvalidValueError)):
        Tool(name="f", description="", function=print, parameters=schema)


def test_a_schema_made_from_a_signature_is_read_only():
    @tool
    def f(a: int) -> int:
        """F."""
        return a

    with pytest.raises(TypeError, match="read-only"):
        f.definition.parameters["properties"]["a"]["type"] = "string"


@pytest.mark.parametrize(
    "name", ["", " ", "add ", " add", "request_user_input", "create_task_plan", "update_task_plan"]
)
def test_empty_padded_and_reserved_names_are_refused(name):
    """K06, T10."""
    with pytest.raises(InvalidAgentError):
        tool(name=name)(lambda: None)


def test_two_tools_of_one_name_are_refused():
    """K06, T10."""

    @tool(name="add")
    def one() -> None:
        """One."""

    @tool(name="add")
    def two() -> None:
        """Two."""

    with pytest.raises(InvalidAgentError, match="two tools named 'add'"):
        Agent("a", model=ScriptedModel("x"), tools=[one, two])


def test_what_is_no_function_is_refused():
    with pytest.raises(InvalidAgentError, match="a function"):
        Tool(name="f", description="", function="print")


def test_a_tool_stays_a_tool_and_a_function_becomes_one():
    made = as_tool(Desk().book)

    assert as_tool(made) is made
    assert made.name == "book"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "row: Field required"),
        ({"row": "x"}, "row: "),
        ({"row": 1, "more": 2}, "more: "),
        ({"row": None}, "row: "),
    ],
)
def test_arguments_that_do_not_fit_say_where_and_why(arguments, said):
    @tool
    def f(row: int) -> None:
        """F."""

    with pytest.raises(InvalidArgumentsError, match=said):
        f.check(arguments)


# -- results -----------------------------------------------------------------------------------------------------------


class Hostile:
    def __repr__(self):
        raise ValueError("no text")


class Huge:
    def __repr__(self):
        return "x" * 10_000_000


class Liar:
    @property
    def shape(self):
        raise ValueError("no shape")


class Endless:
    shape = (2, 2)

    def tolist(self):
        raise RecursionError("deep")


@dataclasses.dataclass
class Point:
    x: int
    deeper: Any = None


circle: list[Any] = [1]
circle.append(circle)
FRAME = pd.DataFrame({"a": [1, 2], "b": [float("nan"), 3.0]})

ODD = {
    "np.int64": (np.int64(3), "3"),
    "np.bool_": (np.bool_(True), "true"),
    "np.float32 nan": (np.float32("nan"), '"NaN"'),
    "np.array": (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
    "np.datetime64": (np.datetime64("2026-01-02T03:04:05", "ns"), '"2026-01-02T03:04:05.000000000"'),
    "pd.NA": (pd.NA, '"<NA>"'),
    "pd.NaT": (pd.NaT, '"NaT"'),
    "pd.Timestamp": (pd.Timestamp("2026-01-02"), '"2026-01-02T00:00:00"'),
    "pd.Series": (pd.Series([1, 2], index=["x", "y"]), "Series of 2\n"),
    "frame": (FRAME, "DataFrame of 2 x 2\n"),
    "frame of two levels": (FRAME.set_index(["a", "b"]), "DataFrame of 2 x 0\n"),
    "frame with equal columns": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "DataFrame of 1 x 2\n"),
    "datetime": (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), '"2026-01-02T00:00:00+00:00"'),
    "date": (dt.date(2026, 1, 2), '"2026-01-02"'),
    "timedelta": (dt.timedelta(hours=1), '"1:00:00"'),
    "decimal": (decimal.Decimal("1.10"), '"1.10"'),
    "uuid": (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    "path": (pathlib.PurePosixPath("/tmp/x"), '"/tmp/x"'),
    "enum": (Colour.BLUE, "blue"),
    "bytes": (b"\xff\x00", "\"b'\\\\xff\\\\x00'\""),
    "set": ({2, 1}, "[1, 2]"),
    "tuple keys": ({(1, 2): 3}, None),
    "int and text keys": ({1: "a", "1": "b"}, None),
    "pydantic": (Seat(row=3), '{"row": 3, "letter": "A"}'),
    "pydantic in a list": ([Seat(row=3)], '[{"row": 3, "letter": "A"}]'),
    "dataclass": (Point(1, Point(2)), '{"x": 1, "deeper": {"x": 2, "deeper": null}}'),
    "exception": (ValueError("x"), '"x"'),
    "module": (json, None),
    "lambda": (lambda: None, None),
    "circle": (circle, None),
    "hostile": (Hostile(), None),
    "hostile in a dict": ({"a": Hostile()}, None),
    "huge": (Huge(), None),
    "liar": (Liar(), None),
    "endless": (Endless(), None),
    "none": (None, "null"),
    "empty": ("", ""),
    "nan": ({"loss": float("nan"), "best": -float("inf"), "note": "NaN is fine"}, None),
    "none key": ({None: 1}, None),
    "surrogates": ("a\ud83d", "a\ufffd"),
    "surrogate key": ({"a\ud83d": "b\udcaf"}, '{"a\ufffd": "b\ufffd"}'),
    "typed escape": ("a\\ud83d", "a\\ud83d"),
    "nul": ("a\0b", "a\0b"),
    "large int": (10**30, str(10**30)),
    "enormous int": (10**5000, None),
    "generator": ((n for n in range(3)), None),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_result_of_any_kind_becomes_well_formed_text_once(kind, tmp_path):
    """K08, K21, K22, T14: never refused, the same for model, store and event, and short where it is foreign."""
    value, expected = ODD[kind]

    @tool
    def give() -> Any:
        """Give it."""
        return value

    model = ScriptedModel(ScriptedModel.call("give"), "Done.")
    store = SqliteStore(tmp_path / "turns.sqlite", "process")
    turn = AgentRunner(store).run(Agent("a", model=model, tools=[give]), "go")
    text = turn.messages[2].content

    assert turn.output == "Done."
    text.encode()
    assert expected is None or text == expected or (expected.endswith("\n") and text.startswith(expected))
    assert len(text) < 10_000
    assert model.requests[1].messages[-1].content == text
    stored = store.load(turn.id)
    assert stored is not None
    assert stored.turn == turn.to_snapshot()
    store.close()


def test_numbers_that_json_does_not_have_become_words():
    """K21."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = to_text(ODD["nan"][0])

    assert json.loads(text, parse_constant=refuse) == {"loss": "NaN", "best": "-Infinity", "note": "NaN is fine"}


def test_keys_that_would_fall_together_are_told_apart():
    """K08."""
    assert sorted(json.loads(to_text({1: "a", "1": "b"})).values()) == ["a", "b"]


def test_a_large_table_is_printed_with_its_head_and_tail():
    """K08."""
    text = to_text(pd.DataFrame({"a": range(1_000_000)}))

    assert text.startswith("DataFrame of 1000000 x 1\n")
    assert len(text) < 5_000


def test_text_is_never_shortened():
    """T14."""
    assert len(to_text("x" * 1_000_000)) == 1_000_000
    assert len(json.loads(to_text(["x" * 100_000]))[0]) == 100_000


def test_an_async_tool_is_awaited():
    @tool
    async def later(n: int) -> int:
        """Later."""
        await asyncio.sleep(0)
        return n + 1

    model = ScriptedModel(ScriptedModel.call("later", n=1), "Done.")
    turn = AgentRunner(MemoryStore()).run(Agent("a", model=model, tools=[later]), "go")

    assert turn.messages[2].content == "2"


def test_the_type_of_a_callable_parameter_is_refused():
    with pytest.raises(InvalidAgentError, match="types that JSON can carry"):

        @tool
        def f(a: Callable[[], None]) -> None:
            """F."""


def test_a_generator_is_refused_for_it_would_never_run():
    """T14"""

    def lines(n: int):
        """Lines."""
        yield n

    async def later(n: int):
        """Later."""
        yield n

    for function in (lines, later):
        with pytest.raises(InvalidAgentError, match="would never run"):
            tool(function)


@pytest.mark.parametrize("approval", ["yes", 1, None, {}])
def test_an_approval_is_a_flag_or_a_function(approval):
    """A1: what looks like a guard must be one."""
    with pytest.raises(InvalidAgentError, match="True, False, or a function"):
        tool(approval=approval)(lambda: 1)
