"""Whatever tools return and people want to know of it: K08 to K10, K20, K21."""

import json
import math
import os
import subprocess
import sys
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentflex_nb as af
from agentflex_nb.core.errors import QueryError
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.view import show_all

from ..runtime.test_tools import ODD

script = af.ScriptedModel
HOME = str(Path(af.__file__).parents[1])


def strictly(text: str) -> Any:
    """JSON as a browser reads it: no NaN, no Infinity."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def telling(value: Any) -> af.Tool:
    @af.tool
    def tell() -> str:
        """Tell."""
        af.AgentToolContext.current().emit_progress("half", percent=value, deep={"value": [value]})
        return "told"

    return tell


@pytest.mark.parametrize("kind", ODD)
def test_progress_of_any_kind_is_told_and_kept_as_json(lab, kind):
    """K08, K21: nothing but a key that is None is refused, nothing is lost, and a page can read it."""
    value, _ = ODD[kind]
    turn = lab.run(af.Agent("a", model=script(script.call("tell"), "Done."), tools=[telling(value)]), "go")
    if kind == "none key":
        assert (turn.status, turn.error.kind) == ("FAILED", "InvalidValueError")
        return

    assert turn.output == "Done."
    (row,) = lab.events(where={"type": "TOOL_PROGRESS"}).to_dict("records")
    data = strictly(row["data"])
    assert (data["message"], data["deep"]["value"]) == ("half", [data["percent"]])
    assert len(row["data"]) < 100_000
    assert lab.sql("select data->>'message' as said from events where type = 'TOOL_PROGRESS'").said[0] == "half"
    strictly(json.dumps(show_all(View(turn_id=turn.id), turn.events()).items, default=repr, allow_nan=False))


@pytest.mark.parametrize("kind", ODD)
def test_metadata_is_json_or_refused_where_it_is_given(lab, kind):
    """K08, P9: of a run with an error, of an approval with a turn that failed and says so; never when it is saved."""
    value, _ = ODD[kind]

    def policy(turn, call, tool):
        return ToolApprovalDecision.require_approval("sure?", metadata={"given": value})

    agent = af.Agent("a", model=script(script.call("tell"), "Done."), tools=[telling(1)], approval_policy=policy)
    try:
        kept = lab.run(af.Agent("b", model=script("Hi.")), "go", options=af.AgentTurnOptions(metadata={"given": value}))
    except af.InvalidValueError:
        turn = lab.run(agent, "go")
        assert (turn.status, turn.error.code) == ("FAILED", "APPROVAL_POLICY_FAILED")
        assert "metadata.given" in turn.error.message
    else:
        assert lab.store.load(kept.id).turn == kept.to_snapshot()
        turn = lab.run(agent, "go")
        (question,) = turn.questions
        assert question.metadata["given"] == kept.to_snapshot().identity.metadata["given"]
        assert strictly(lab.suspensions().metadata[0])["given"] == strictly(json.dumps(question.metadata["given"]))


def test_a_number_that_is_none_in_the_arguments_never_reaches_a_tool(lab):
    """K21, K07"""
    reply = [af.ToolCallDelta(0, "c", "train", '{"lr": NaN}'), af.Finish(reason="tool_calls")]
    tool = af.tool(name="train")(lambda lr: ran.append(lr))
    ran: list[float] = []
    turn = lab.run(af.Agent("a", model=script(reply, "Sorry."), tools=[tool]), "go")

    assert (turn.output, ran) == ("Sorry.", [])


@pytest.mark.parametrize("given", ["NaN", "Infinity", math.nan, math.inf])
def test_a_number_that_is_none_fills_in_no_form(lab, given):
    """K21, K28"""
    form = af.AgentForm("f", "Form", {"type": "object", "properties": {"n": {"type": "number", "minimum": 0}}})
    model = script(script.call("request_user_input", form_key="f"), "Done.")
    turn = lab.run(af.Agent("a", model=model, forms=[form]), "go")

    with pytest.raises((af.CommandRefusedError, af.InvalidValueError)):
        turn.submit({"n": given})
    assert turn.submit({"n": 0.5}).output == "Done."


@pytest.mark.parametrize(
    "value",
    [
        {"loss": math.nan, "best": -math.inf, "note": "NaN is fine"},
        [np.float64("nan"), np.float32("inf")],
        pd.DataFrame({"loss": [math.nan, 1.0], "note": ["NaN is fine", None]}),
        {"rows": [{"deep": math.inf}]},
    ],
    ids=["dict", "numpy", "frame", "deep"],
)
def test_no_json_of_a_lab_holds_a_number_that_json_does_not_have(lab, value):
    """K21: in every column of every table."""

    @af.tool
    def measure() -> Any:
        """Measure."""
        af.AgentToolContext.current().emit_progress("measured", value=value)
        return value

    lab.run(af.Agent("a", model=script(script.call("measure"), "Done."), tools=[measure]), "go")

    columns = lab.sql("select table_name, column_name from duckdb_columns() where data_type = 'JSON'")
    assert len(columns) > 5
    for table, column in columns.itertuples(index=False):
        for text in lab.sql(f'select "{column}"::varchar as text from "{table}" where "{column}" is not null').text:
            strictly(text)


# -- questions of people -----------------------------------------------------------------------------------------------

ODD_KEYS = {
    "a.b": 1,
    'a"b': 2,
    "": 3,
    "none": None,
    "word": "null",
    "exact": 2**53 + 1,
    "big": 10**30,
    "huge": float("1e308"),
    "nothing": math.inf,
    **{f"key{n}": n for n in range(500)},
}


def test_odd_keys_and_large_numbers_are_found_in_sql(lab):
    """K10: also 500 keys that only one event has."""

    @af.tool
    def tell() -> str:
        """Tell."""
        af.AgentToolContext.current().emit_progress("odd", **ODD_KEYS)
        return "told"

    lab.run(af.Agent("a", model=script(script.call("tell"), "Done."), tools=[tell]), "go")

    asked = """
        select data->>'/a.b' as dot, data->>'/a"b' as quote, data->>'/' as empty, data->>'exact' as exact,
               data->>'big' as big, data->>'word' as word, data->>'none' is null as none, data->>'key499' as last,
               (data->'missing') is null as missing, json_exists(data, '$.none') as there
        from events where type = 'TOOL_PROGRESS'
    """
    (row,) = lab.sql(asked).to_dict("records")
    assert row == {
        "dot": "1", "quote": "2", "empty": "3", "exact": str(2**53 + 1), "big": str(10**30), "word": "null",
        "none": True, "last": "499", "missing": True, "there": True,
    }  # fmt: skip
    assert strictly(lab.events(where={"type": "TOOL_PROGRESS"}).data[0])["nothing"] == "Infinity"


def test_a_question_leaves_the_lab_as_it_was(lab):
    """K10: a million rows, one that is refused, one that was not read to its end."""
    rows = pd.DataFrame({"x": [1]})  # noqa: F841 - a variable of the notebook, which no query may find
    lab.run(af.Agent("a", model=script("Hi.")), "go")
    before = len(lab.events())

    assert len(lab.sql("select * from range(1_000_000)")) == 1_000_000
    assert lab.sql("select ?", [np.int64(1)]).iloc[0, 0] == 1
    for query in ("select * from rows", "delete from events", "select 1; select 2", "begin", "from turns where"):
        with pytest.raises(QueryError) as refused:
            lab.sql(query)
        assert "store/" not in str(refused.value)
    assert len(lab.events()) == before
    assert lab.run(af.Agent("a", model=script("Hi.")), "go").output == "Hi."


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Shanghai", "Pacific/Chatham"])
def test_times_are_those_of_the_events_wherever_the_machine_stands(tmp_path, zone):
    """K09: to the microsecond, also where the lab was made elsewhere."""
    with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
        turn = lab.run(af.Agent("a", model=script("Hi.")), "go")
        happened = [event.occurred_at for event in turn.events()]
    code = (
        "import sys, agentflex_nb as af\nwith af.Lab(sys.argv[1], display=False) as lab:\n"
        "    events, turns = lab.events(), lab.turns()\n"
        "    print(str(events.occurred_at.dtype), str(turns.created_at.dtype))\n"
        "    print(*[at.isoformat() for at in events.occurred_at], sep=chr(10))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "lab.duckdb"],
        env={**os.environ, "TZ": zone, "PYTHONPATH": HOME}, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip

    assert told[0] == "datetime64[us, UTC] datetime64[us, UTC]"
    assert [datetime.fromisoformat(at) for at in told[1:]] == happened


def test_a_sum_over_turns_of_which_one_has_no_tokens_says_so(lab):
    """K09: unknown is missing, not zero, whatever else is selected."""
    lab.run(af.Agent("known", model=script("One two.")), "go")
    lab.run(af.Agent("unknown", model=script("One two.", usage=False)), "go")

    tokens = lab.turns().set_index("agent_id").total_tokens
    assert (str(tokens.dtype), tokens.isna().to_dict()) == ("Int64", {"known": False, "unknown": True})
    assert tokens.sum(skipna=False) is pd.NA
    for some in ({"agent_id": "known"}, {"agent_id": "unknown"}, {"agent_id": "nobody"}):
        assert str(lab.turns(where=some).total_tokens.dtype) == "Int64"


# -- what is huge ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "results"), [(10_000_000, 1), (1_000_000, 50)], ids=["one of ten million", "fifty of a million"]
)
def test_huge_results_are_written_once_and_shown_in_small(tmp_path, size, results):
    """K20: the file grows with what is new, a late step costs what an early one costs, and no page is flooded."""
    took: list[float] = []

    @af.tool
    def give() -> str:
        """Give much."""
        return os.urandom(size // 2).hex()

    @af.tool
    def small() -> str:
        """Give little."""
        took.append(time.perf_counter())
        return "small"

    steps = [*[script.call("give")] * results, *[script.call("small")] * 20, "Done."]
    model = script(*steps, usage=False)
    policy = af.AgentExecutionPolicy(max_iterations=100)
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False, durability="process") as lab:
        turn = lab.run(af.Agent("a", model=model, tools=[give, small], execution_policy=policy), "go")
        assert turn.output == "Done."
        ids = [message.tool_call_id for message in turn.messages if message.role == "tool"]
        assert len(turn.results[ids[0]]) == size
        assert len(repr(turn)) < 2_000
        view = show_all(View(turn_id=turn.id), turn.events())
        assert len(str(view.items)) < 100_000 + 3_000 * results
        assert max(len(str(event.data)) for event in turn.events()) < 100_000
    assert path.stat().st_size < 2 * size * results + 10_000_000
    steps_took = [b - a for a, b in pairwise(took)]
    assert sorted(steps_took[10:])[4] < 2 * sorted(steps_took[:9])[4] + 0.05
    with af.Lab(path, display=False) as lab:
        assert len(lab.result(ids[0])) == size
