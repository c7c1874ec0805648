"""The DuckDB file: what it refuses, how it is asked (K04, K10, K16)."""

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from agentflex_nb.core.errors import LabLockedError, NewerFormatError, QueryError, StoreDamagedError, StoreError
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.store.archive import SCHEMA, Archive


@pytest.fixture
def archive():
    with closing(Archive()) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.duckdb"


def one(archive, text, params=None, **options):
    """The single value of an answer."""
    return archive.query(text, params, **options).column(0).to_pylist()[0]


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_file_of_another_kind_is_refused(path):
    path.write_text("turn,status\n" * 1_000)

    with pytest.raises(StoreDamagedError, match="choose another path"):
        Archive(path)
    assert path.read_text().startswith("turn,status")


def test_a_sqlite_file_is_refused_and_nothing_is_fetched_to_read_it(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table notes (text)")
        connection.commit()

    with pytest.raises(StoreDamagedError, match="another kind of file") as refusal:
        Archive(path)
    assert "http" not in str(refusal.value)


def test_what_is_no_sql_is_refused(path):
    with closing(Archive(path)) as archive, pytest.raises(QueryError, match="pass SQL as text"):
        archive.query(None)


def test_a_duckdb_file_of_somebody_else_keeps_its_tables(path):
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table events (mine integer)")

    with pytest.raises(StoreError, match="has tables of its own named events"):
        Archive(path)


def test_other_tables_may_stand_beside_those_of_a_lab(path):
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table rewards as select 1 as reward")

    with closing(Archive(path)) as archive:
        assert one(archive, "select reward from rewards") == 1


def test_a_newer_lab_is_not_misread(path):
    with closing(Archive(path)) as archive:
        archive.query("update lab set value = ? where key = 'schema'", [str(SCHEMA + 1)], write=True)

    with pytest.raises(NewerFormatError, match="upgrade agentflex-nb") as refusal:
        Archive(path)
    assert (refusal.value.found, refusal.value.known) == (SCHEMA + 1, SCHEMA)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match="make its folder first"):
        Archive(tmp_path / "nowhere" / "lab.duckdb")


def test_a_program_that_has_the_file_open_is_named(path):
    Archive(path).close()
    holds = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", holds, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()

    with pytest.raises(LabLockedError, match=f"process {holder.pid} "):
        Archive(path)
    holder.communicate(b"")


def test_the_file_can_be_read_by_duckdb_1_5(path):
    with closing(Archive(path)) as archive:
        tags = one(archive, "select tags from duckdb_databases() where path = ?", [str(path)])

    assert dict(tags)["storage_version"].startswith("v1.5.0")


def test_a_closed_archive_says_so(path):
    archive = Archive(path)
    archive.close()
    archive.close()

    with pytest.raises(StoreError, match="is closed"):
        archive.query("select 1")


def test_an_archive_that_is_opened_anew_has_what_was_committed(path):
    with closing(Archive(path)) as archive:
        archive.query("create table mine as select 7 as x", write=True)
        archive.reopen()

        assert one(archive, "select x from mine") == 7


# -- asking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("delete from events", "may change something"),
        ("create table mine (i integer)", "may change something"),
        ("set threads = 1", "may change something"),
        ("copy turns to 'turns.csv'", "may change something"),
        ("attach ':memory:' as other", "may change something"),
        ("commit", "may change something"),
        ("with gone as (delete from lab returning *) from gone", "may change something"),
        ("explain analyze insert into lab values ('a', 'b')", "may change something"),
        ("select 1; drop table turns", "2 statements"),
        ("", "0 statements"),
    ],
)
def test_a_question_changes_nothing(archive, statement, said):
    """K10."""
    with pytest.raises(QueryError, match=said):
        archive.query(statement)
    assert one(archive, "select count(*) from lab") == 1


def test_a_statement_that_should_write_may(archive):
    archive.query("create table rewards (turn_id varchar, reward double)", write=True)
    archive.query("insert into rewards values ($turn, $reward)", {"turn": "t1", "reward": 1.0}, write=True)

    assert one(archive, "select reward from rewards") == 1.0


def test_a_statement_that_fails_leaves_nothing_half_done(archive):
    archive.query("create table rewards (reward integer not null)", write=True)
    with pytest.raises(QueryError):
        archive.query("insert into rewards values (1), (null)", write=True)

    assert one(archive, "select count(*) from rewards") == 0


def test_a_missing_table_is_named_with_what_it_may_have_been(archive):
    with pytest.raises(QueryError, match=r"no table or view turn: did you mean turns\?"):
        archive.query("select * from turn")
    with pytest.raises(QueryError, match=r"no table or view rows: there are agent_versions, .*tables="):
        archive.query("select * from rows")


def test_a_missing_column_is_named_with_what_there_is(archive):
    with pytest.raises(QueryError, match="Candidate bindings"):
        archive.query("select stat from turns")


def test_a_variable_of_the_caller_is_never_a_table(archive):
    """K10: the table wins, and without one there is an error."""
    events = pd.DataFrame({"type": ["mine"]})  # noqa: F841
    mine = pd.DataFrame({"x": [1]})  # noqa: F841

    assert one(archive, "select count(*) from events") == 0
    with pytest.raises(QueryError, match="no table or view mine"):
        archive.query("select * from mine")


def test_a_frame_is_lent_by_name(archive):
    lent = pd.DataFrame({"turn_id": ["t1", "t2"], "reward": [1.0, None]})

    assert one(archive, "select count(reward) from rewards", tables={"rewards": lent}) == 1
    with pytest.raises(QueryError, match="no table or view rewards"):
        archive.query("select * from rewards")


@pytest.mark.parametrize("name", ["events", "Events", "waits", 'x"; drop table turns; --', ""])
def test_a_lent_frame_hides_no_table(archive, name):
    with pytest.raises(QueryError, match="lent"):
        archive.query("select 1", tables={name: pd.DataFrame({"x": [1]})})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.int64(7), 7),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (AgentStatus.COMPLETED, "COMPLETED"),
        (pd.NA, None),
        (pd.NaT, None),
        ({"a"}, ["a"]),
        ((np.int64(1), np.int64(2)), [1, 2]),
        (9007199254740993, 9007199254740993),
        ("Robert'); drop table turns; --", "Robert'); drop table turns; --"),
    ],
)
def test_values_of_a_notebook_are_taken_as_they_are(archive, given, found):
    """K10."""
    assert one(archive, "select ?", [given]) == found
    assert one(archive, "select $value", {"value": given}) == found


DATA = {
    "none": None,
    "word": "null",
    "a.b": 1,
    'a"b': 2,
    "": 3,
    "big": 10**30,
    "exact": 9007199254740993,
    "nul": "x\0y",
}


def test_json_is_kept_to_the_letter(archive):
    """K10: null, a missing key and the word are three things; numbers keep their digits."""
    archive.query("create table told as select ?::json as data", [json.dumps(DATA)], write=True)

    assert json.loads(one(archive, "select data from told")) == DATA
    assert archive.rows(
        "select (data->'none') is null, data->>'none' is null, (data->'missing') is null from told"
    ) == [(False, True, True)]
    assert archive.rows("select data->>'word', data->>'/a.b', data->>'exact', data->>'big' from told") == [
        ("null", "1", str(2**53 + 1), str(10**30))
    ]


def test_times_are_utc_wherever_the_machine_stands(archive, monkeypatch):
    """K09."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        with closing(Archive()) as here:
            told = here.query("select make_timestamptz(1767225600000000) as t, current_setting('TimeZone') as zone")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert told.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert told.column("t").to_pylist()[0].isoformat() == "2026-01-01T00:00:00+00:00"
    assert told.column("zone").to_pylist() == ["UTC"]


def test_many_threads_get_their_own_rows(archive):
    """K16."""
    wrong: list[tuple[int, int]] = []

    def ask(number: int) -> None:
        for n in range(20):
            wanted = number * 1_000 + n
            if (got := one(archive, "select ?::integer from range(3)", [wanted])) != wanted:
                wrong.append((wanted, got))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_long_query_stops_when_the_person_at_the_kernel_says_so(archive):
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        archive.query("select sum(sqrt(i)) from range(200_000_000_000) numbers(i)")

    assert time.monotonic() - began < 10
    assert one(archive, "select 1") == 1


def test_the_views_are_answered_by_an_empty_lab(archive):
    views = ("timeline", "open_calls", "waits", "trajectories", "tool_results", "used_messages", "conversations")

    assert [archive.query(f"from {view}").num_rows for view in views] == [0] * len(views)
    assert set(views) <= set(archive.names())


@pytest.mark.parametrize(
    "text",
    [
        "copy (select 1) to '{file}'",
        "explain analyze copy (select 1) to '{file}'",
        "/* a question */ explain analyze copy (select 1) to '{file}'",
        "explain (analyze) copy (select 1) to '{file}'",
        "-- no harm\nexplain explain analyze copy (select 1) to '{file}'",
        "copy (pivot range(3) t(n) on n) to '{file}'",
        "explain analyze set threads = 1",
        "explain analyze checkpoint",
        "explain analyze create table mine as select 1",
    ],
)
def test_a_question_writes_nothing_also_where_it_is_dressed_as_one(path, tmp_path, text):
    with closing(Archive(path)) as archive, pytest.raises(QueryError):
        archive.query(text.format(file=tmp_path / "out.csv"))
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "text",
    [
        "select 1", "from turns", "with a as (select 1) from a", "(select 1) union all (select 2)", "values (1)",
        "pivot turns on status using count(*)", "with a as (pivot turns on status using count(*)) from a",
        "explain select 1", "explain analyze select 1", "-- why\nselect 1", "describe turns", "show tables",
        "summarize turns", "table turns", "/* ü */ explain (analyze) select 'copy'",
    ],
)  # fmt: skip
def test_every_kind_of_question_is_answered(path, text):
    with closing(Archive(path)) as archive:
        assert archive.query(text) is not None
