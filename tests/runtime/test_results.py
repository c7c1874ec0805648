"""What tools returned: bounded for the model, kept whole, found again. T14, K08, K20"""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agentflex_nb.core.errors import ResultNotFoundError
from agentflex_nb.core.events import EventType
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.results import RecentValues
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store import values

call = ScriptedModel.call
FRAME = pd.DataFrame(
    {
        "n": range(1_000),
        "share": [None if n % 3 else n / 7 for n in range(1_000)],
        "name": [f"näme {n}" for n in range(1_000)],
        "at": pd.date_range("2026-01-01", periods=1_000, freq="h", tz="Europe/Berlin"),
    },
    index=pd.Index(range(5, 1_005), name="id"),
)


class Model:
    """Something that only its kernel can hold."""


def returning(value: Any, **given: Any) -> Any:
    @tool(name="give", **given)
    def give() -> Any:
        """Give it."""
        return value

    return give


def given(desk: Any, value: Any, **how: Any) -> Any:
    """A turn whose one tool has returned the value."""
    return desk.run(call("give"), "Done.", tools=[returning(value, **how)])


def result_event(desk: Any, turn: Any) -> Any:
    return desk.events(turn, EventType.TOOL_COMPLETED)[0].data


# -- what the model is shown -------------------------------------------------------------------------------------------


def test_a_text_is_cut_at_the_tools_bound_and_says_how_much_is_missing_and_where_it_is(desk):
    turn = given(desk, "x" * 5_000, max_result_chars=100)

    assert turn.messages[2].content == (
        f"{'x' * 100}\n[4,900 of 5,000 characters are not shown. The whole result is result:t1.1.0]"
    )
    assert turn.results["t1.1.0"] == "x" * 5_000


def test_a_text_within_the_bound_is_told_as_it_is(desk):
    turn = given(desk, "x" * 100, max_result_chars=100)

    assert turn.messages[2].content == "x" * 100
    assert "kept" not in result_event(desk, turn)


def test_without_a_bound_nothing_is_cut(desk):
    """T14"""
    assert given(desk, "x" * 1_000_000).messages[2].content == "x" * 1_000_000


def test_a_long_list_is_told_in_outline(desk):
    turn = given(desk, [{"n": n} for n in range(1_000)], max_result_chars=120)

    content = turn.messages[2].content
    assert content.startswith('list of 1,000 items, the first of them:\n{"n": 0}\n{"n": 1}')
    assert content.endswith("\n[This is an outline. The whole result is result:t1.1.0]")
    assert len(turn.results["t1.1.0"]) == 1_000


def test_a_table_is_always_kept_whole_and_its_text_ends_with_its_address(desk):
    """K08"""
    turn = given(desk, FRAME)

    content = turn.messages[2].content
    assert content.startswith("DataFrame of 1000 x 4\n")
    assert content.endswith("\n[The whole result is result:t1.1.0]")
    assert (len(content) < 5_000, result_event(desk, turn)["value_type"]) == (True, "DataFrame")


def test_a_summary_of_the_tools_own_is_what_the_model_sees(desk):
    turn = given(desk, FRAME, summary=lambda frame: {"rows": len(frame)})

    told = "[This is a summary. The whole result is result:t1.1.0]"
    assert turn.messages[2].content == f'{{"rows": 1000}}\n{told}'


def test_a_summary_is_bounded_too(desk):
    turn = given(desk, FRAME, summary=lambda frame: "s" * 1_000, max_result_chars=10)

    assert turn.messages[2].content.startswith("s" * 10 + "\n[")


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError()])
def test_a_summary_that_raises_is_left_out(desk, error):
    """K35: the tool has done its work."""

    def summary(value: Any) -> str:
        raise error

    assert given(desk, [1, 2], summary=summary).messages[2].content == "[1, 2]"


def test_model_store_and_screen_see_the_same_text(desk):
    """T14"""
    model = ScriptedModel(call("give"), "Done.")
    turn = desk.run(model=model, tools=[returning(FRAME, max_result_chars=200)])

    content = turn.messages[2].content
    assert model.requests[1].messages[-1].content == content == result_event(desk, turn)["result"]


# -- what is kept ------------------------------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        return one.dtype == other.dtype
    return type(one) is type(other) and one == other


WHOLE = {
    "table": FRAME,
    "empty table": FRAME.iloc[:0],
    "two levels": FRAME.set_index(["n", "name"]),
    "array": np.arange(10_000.0).reshape(100, 100),
    "array of flags": np.ones(1_000, dtype=bool),
    "array of times": np.arange("2026-01", "2030-01", dtype="datetime64[D]"),
    "array of text": np.array(["é" * 50] * 200),
    "text": "é\0😀" * 1_000,
    "list": list(range(1_000)),
    "mapping": {f"k{n}": [n, None, True, 1.5, "é"] for n in range(300)},
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_value_comes_back_whole_in_this_kernel_and_in_the_next(desk, kind):
    """K08, K20"""
    value = WHOLE[kind]
    turn = given(desk, value, max_result_chars=50)

    assert turn.results["t1.1.0"] is value
    desk.forget_values()
    assert same(value, turn.results["t1.1.0"])
    assert same(value, desk.runner.result("result:t1.1.0"))


def test_what_json_does_not_have_is_kept_as_what_stands_for_it(desk):
    """K21"""
    turn = given(desk, {"loss": math.nan, "pair": (1, 2), "pad": "x" * 100}, max_result_chars=50)
    desk.forget_values()

    assert turn.results["t1.1.0"] == {"loss": "NaN", "pair": [1, 2], "pad": "x" * 100}


@pytest.mark.parametrize(
    ("value", "again"),
    [
        ("plain", "plain"),
        ('{"a": 1}', '{"a": 1}'),
        ("null", "null"),
        ({"a": 1}, {"a": 1}),
        ([1, None], [1, None]),
        (None, None),
        (7, 7),
        (np.int64(3), 3),
        (np.array([1, 2]), [1, 2]),
    ],
)
def test_what_the_text_tells_wholly_is_read_from_it(desk, value, again):
    """Text stays text, also where it looks like JSON."""
    turn = given(desk, value)
    desk.forget_values()

    assert turn.results["t1.1.0"] == again
    assert type(turn.results["t1.1.0"]) is type(again)
    assert "kept" not in result_event(desk, turn)


def test_an_object_that_cannot_be_kept_is_at_hand_as_long_as_its_kernel_lives(desk):
    model = Model()
    turn = given(desk, model, summary=lambda model: "a model")

    assert turn.messages[2].content.endswith("result:t1.1.0, as long as this kernel lives]")
    assert turn.results["t1.1.0"] is model
    desk.forget_values()
    with pytest.raises(ResultNotFoundError, match="was a Model, of which only the text was kept"):
        _ = turn.results["t1.1.0"]


def test_a_table_that_arrow_cannot_hold_is_at_hand_too(desk):
    """K08: equal column names."""
    turn = given(desk, pd.DataFrame([[1, 2]], columns=["a", "a"]))

    assert "as long as this kernel lives" in turn.messages[2].content
    assert turn.results["t1.1.0"].shape == (1, 2)


def test_what_is_too_large_for_the_store_is_not_promised(desk, monkeypatch):
    monkeypatch.setattr(values, "LARGEST", 1_000)
    turn = given(desk, "x" * 5_000, max_result_chars=10)

    assert "as long as this kernel lives" in turn.messages[2].content
    assert turn.results["t1.1.0"] == "x" * 5_000


def test_results_are_a_mapping_in_the_order_of_the_calls(desk):
    agent = desk.agent(call("give"), call("give"), "Done.", tools=[returning({"a": 1})])
    turn = desk.runner.run(agent, "go")

    assert list(turn.results) == ["t1.1.0", "t1.2.0"]
    assert len(turn.results) == 2
    assert turn.results["result:t1.2.0"] == {"a": 1}
    assert repr(turn.results) == "Results(t1.1.0, t1.2.0)"
    assert "t9.1.0" not in turn.results
    with pytest.raises(KeyError, match=r"is none of this turn: it has: t1\.1\.0, t1\.2\.0"):
        _ = turn.results["t9.1.0"]
    with pytest.raises(ResultNotFoundError, match="is not in this store"):
        desk.runner.result("result:t9.1.0")


def test_a_failed_calls_result_is_what_the_model_was_told(desk):
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("boom")

    turn = desk.run(call("fail"), tools=[fail])

    assert turn.results["t1.1.0"] == "Error: ValueError: boom"


def test_a_result_that_was_told_is_kept_though_the_process_dies_right_after(desk):
    """T14, P5: one commit has both."""
    agent = desk.agent(call("give"), "Done.", tools=[returning(FRAME)])
    turn = desk.runner.create(agent, "go")
    desk.runner.step(turn)
    desk.unfinished.add(turn.id)
    desk.forget_values()

    stored = desk.store.load(turn.id)
    assert stored.turn.messages[-1].content.endswith("result:t1.1.0]")
    assert same(FRAME, desk.runner.result("t1.1.0"))


def test_the_newest_values_are_at_hand_and_the_oldest_are_let_go_of():
    recent = RecentValues(most=2)
    recent.put("a", None)
    recent.put("b", 2)
    assert recent.get("a") == (None,)
    recent.put("c", 3)

    assert [recent.get(id) for id in "abc"] == [(None,), None, (3,)]


def test_a_large_result_is_written_once(desk):
    """K20: later steps do not write it again, and what is shown stays small."""
    steps = [call("give"), *[call("small")] * 10, "Done."]
    turn = desk.run(*steps, tools=[returning("x" * 1_000_000, max_result_chars=100), returning_small()])

    state = json.dumps([len(message.content) for message in turn.messages])
    assert max(json.loads(state)) < 300
    assert len(repr(turn)) < 2_000
    assert len(turn.results["t1.1.0"]) == 1_000_000


def returning_small() -> Any:
    @tool(name="small")
    def small() -> str:
        """Small."""
        return "small"

    return small
