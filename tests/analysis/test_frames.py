"""Each table as a frame: the same columns and dtypes always, narrowed down in SQL."""

import json

import numpy as np
import pandas as pd
import pytest

from agentflex_nb.analysis.frames import frame
from agentflex_nb.core.errors import QueryError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus

FRAMES = (
    "turns",
    "steps",
    "events",
    "messages",
    "model_calls",
    "tool_calls",
    "suspensions",
    "snapshots",
    "agents",
    "decisions",
)


@pytest.mark.parametrize("name", FRAMES)
def test_columns_and_dtypes_are_those_of_an_empty_lab(archive, empty, name):
    """K09."""
    full, none = frame(archive, name), frame(empty, name)

    assert len(full) > 0
    assert len(none) == 0
    assert list(full.columns) == list(none.columns)
    assert list(full.dtypes) == list(none.dtypes)
    assert list(frame(archive, name, limit=1).dtypes) == list(none.dtypes)


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_names_its_turn_and_keeps_to_the_contract(empty, name):
    dtypes = {str(dtype) for dtype in frame(empty, name).dtypes}

    assert {"turn_id", "agent_id"} & set(frame(empty, name).columns)
    assert dtypes <= {"str", "Int64", "float64", "boolean", "datetime64[us, UTC]", "category"}


def test_what_the_fold_keeps_for_itself_is_not_shown(archive):
    assert not {"first_event_pk", "reserved", "logged"} & set(frame(archive, "turns").columns)


def test_one_turn_or_several(archive):
    class Handle:
        id = "t2"

    assert set(frame(archive, "events", turn="t1").turn_id) == {"t1"}
    assert set(frame(archive, "events", turn=Handle()).turn_id) == {"t2"}
    assert set(frame(archive, "events", turn=["t1", Handle()]).turn_id) == {"t1", "t2"}
    assert len(frame(archive, "events", turn=[])) == 0


def test_events_come_in_the_order_in_which_they_happened(archive):
    events = frame(archive, "events", turn="t1")

    assert events.sequence.tolist() == list(range(1, len(events) + 1))
    assert events.type.iloc[-1] == "TURN_COMPLETED"
    assert list(events.type.cat.categories) == [str(type) for type in EventType]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"status": "COMPLETED"}, ["t1"]),
        ({"status": AgentStatus.COMPLETED}, ["t1"]),
        ({"status": ["COMPLETED", "WAITING_FOR_APPROVAL"]}, ["t1", "t2"]),
        ({"status": {"READY"}}, ["t3"]),
        ({"status": []}, []),
        ({"conversation_id": None}, ["t2", "t3"]),
        ({"status": "COMPLETED", "conversation_id": "c1"}, ["t1"]),
        ({"step_count": np.int64(2)}, ["t1"]),
        ("step_count = 1 or status = 'COMPLETED'", ["t1", "t2", "t3"]),
        ({"status": "' or 1 = 1 --"}, []),
    ],
)
def test_where_narrows_down(archive, where, found):
    assert frame(archive, "turns", where=where, order="turn_id").turn_id.tolist() == found


def test_a_condition_in_sql_takes_parameters(archive):
    assert frame(
        archive, "turns", where="turn_id = ? or turn_id = ?", params=["t1", "t3"], turn="t1"
    ).turn_id.tolist() == ["t1"]


def test_columns_order_and_limit(archive):
    turns = frame(archive, "turns", columns=["status", "turn_id"], order="turn_id desc", limit=2)

    assert list(turns.columns) == ["status", "turn_id"]
    assert turns.turn_id.tolist() == ["t3", "t2"]
    assert list(frame(archive, "turns", order=["status", "turn_id desc"]).turn_id) == ["t1", "t3", "t2"]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({"columns": ["statsu"]}, "no column 'statsu': did you mean status?"),
        ({"where": {"statsu": 1}}, "did you mean status"),
        ({"order": "statsu"}, "did you mean status"),
        ({"order": "status; drop table turns"}, "the order"),
        ({"columns": ['status" from lab; --']}, "no column"),
        ({"where": "statsu = 1"}, "statsu"),
        ({"where": "1 = 1; drop table turns"}, "syntax error|statements"),
        ({"limit": -1}, "a whole number, 0 or more"),
        ({"limit": "1; drop table turns"}, "a whole number, 0 or more"),
        ({"turn": object()}, "pass a turn, its id"),
        ({"turn": ["t1", 7]}, "pass a turn, its id"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_suggestion(archive, select, said):
    with pytest.raises(QueryError, match=said):
        frame(archive, "turns", **select)


def test_calls_come_with_their_results(archive):
    calls = frame(archive, "tool_calls", turn="t1")

    assert calls.result_text.tolist() == ["refunded in step 1"]
    assert json.loads(calls.arguments.iloc[0]) == {"order": "O-1", "amount": 60.5}


def test_what_waits_is_told_from_what_was_answered(archive):
    asked = frame(archive, "suspensions", order="turn_id")

    assert asked[["turn_id", "outcome"]].values.tolist() == [["t2", "PENDING"], ["t3", "APPROVED"]]
    assert asked.answered_by.isna().tolist() == [True, False]
    assert asked.waited_ms.isna().tolist() == [True, False]


def test_frames_do_what_notebooks_do_with_them(archive, tmp_path):
    """K09: masks, sums, merges, files and JSON."""
    turns = frame(archive, "turns")
    calls = frame(archive, "tool_calls").merge(turns[["turn_id", "status"]], on="turn_id", suffixes=("", "_of_turn"))

    assert len(calls) == 3
    assert turns[turns.status == "COMPLETED"].output.tolist() == ["Done."]
    assert turns.total_tokens.sum(min_count=1) == 12
    assert turns.groupby("status", observed=True).size().to_dict() == {
        "READY": 1,
        "WAITING_FOR_APPROVAL": 1,
        "COMPLETED": 1,
    }
    assert json.dumps(turns.to_dict("records"), default=str)
    turns.to_parquet(tmp_path / "turns.parquet")
    assert list(pd.read_parquet(tmp_path / "turns.parquet").turn_id) == list(turns.turn_id)
