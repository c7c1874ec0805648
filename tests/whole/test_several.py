"""Several threads, processes and listeners at once, on one lab: K04, K12, K16, K30, K36."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import agentflex_nb as af
from agentflex_nb.core.errors import LabLockedError, QueryError, StoreError
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing import check, press

script = af.ScriptedModel
HOME = str(Path(af.__file__).parents[1])


@af.tool
def look() -> str:
    """Look."""
    return "seen"


def looking() -> af.Agent:
    return af.Agent("a", model=script(script.call("look"), "Done."), tools=[look])


HOLDER = """
import sys, time, agentflex_nb as af
@af.tool
def slow() -> str:
    "Be slow."
    print("at work", flush=True)
    time.sleep(60)
    return "slow"
script = af.ScriptedModel
lab = af.Lab(sys.argv[1], display=False)
lab.run(af.Agent("a", version="1", model=script(script.call("slow"), "Done."), tools=[slow]), "go")
"""


def test_a_lab_that_a_running_kernel_holds_is_free_once_that_is_killed(tmp_path):
    """K04, K31: refused at once, by the number of the process; nothing half made is left, nothing must be cleaned."""
    path = tmp_path / "lab.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": HOME}
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"at work\n"
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(LabLockedError, match=f"process {holder.pid}"):
                af.Lab(path, display=False)
            assert time.monotonic() - began < 2
        with pytest.raises(duckdb.IOException):
            duckdb.connect(str(path), read_only=True)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()

    with af.Lab(path, display=False) as lab:
        (status,) = lab.turns().status
        assert status == "RUNNING"
        assert lab.runner.cancel(lab.turns().turn_id[0], "its kernel died")
        assert lab.run(looking(), "go").output == "Done."
        check(lab)


@pytest.mark.parametrize("second", ["approve", "reject"])
def test_two_presses_at_the_same_moment_are_one_answer(tmp_path, at_once, second):
    """K12: in two views of one panel; the loser is told in the panel."""
    done = []

    @af.tool(approval=True)
    def pay() -> str:
        """Pay."""
        done.append(1)
        return "paid"

    with af.Lab(tmp_path / "lab.duckdb", display=True, durability="process") as lab:
        turn = lab.run(af.Agent("a", model=script(script.call("pay"), "Done."), tools=[pay]), "go")
        panel = lab._listener.panel(turn.id)
        at_once(lambda: press(panel, "approve"), lambda: press(panel, second))
        deadline = time.monotonic() + 10
        while not turn.status.is_terminal and time.monotonic() < deadline:
            time.sleep(0.01)
        turn.wait(10)

        assert turn.status == "COMPLETED"
        assert len(lab.events(where={"type": "TURN_RESUMED"})) == 1
        assert len(done) == (lab.suspensions().outcome[0] == "APPROVED")
        check(lab)


@pytest.mark.slow
def test_turns_listeners_and_questions_share_a_lab(tmp_path, at_once, caplog):
    """K16: four threads of turns, a listener that writes and one whose database fails, and two that ask."""
    mine = duckdb.connect()
    mine.execute("create table heard (id varchar)")
    lock, over = threading.Lock(), threading.Event()

    def writes(event):
        with lock:
            mine.execute("insert into heard values (?)", [event.event_id])

    def fails(event):
        mine.cursor().execute("insert into nowhere values (1)")

    with af.Lab(tmp_path / "lab.duckdb", display=False, durability="process", listeners=[writes, fails]) as lab:
        seen: list[int] = []

        def turns():
            for _ in range(15):
                assert lab.run(looking(), "go").output == "Done."

        def asks():
            while not over.is_set():
                frame = lab.events()
                assert frame.type.notna().all()
                seen.append(len(frame))

        def asks_in_sql():
            while not over.is_set():
                assert lab.sql("select ? as n, count(*) as events from events", [7]).n[0] == 7
                with pytest.raises(QueryError):
                    lab.sql("begin")

        asking = [threading.Thread(target=target) for target in (asks, asks_in_sql)]
        for thread in asking:
            thread.start()
        results = at_once(turns, turns, turns, turns, seconds=100)
        over.set()
        for thread in asking:
            thread.join(20)

        assert results == [None] * 4
        events = lab.events()
        assert len(events) == mine.execute("select count(distinct id) from heard").fetchall()[0][0]
        assert (seen, len(lab.turns())) == (sorted(seen), 60)
        assert list(lab.runner.listener_errors.values()) == [len(events)]
        assert ["fails raised at" in record.getMessage() for record in caplog.records] == [True]
        check(lab)
    mine.close()


@pytest.mark.parametrize("word", ["begin", "commit", "rollback"])
def test_nobody_begins_or_ends_a_transaction_of_the_lab(lab, word):
    """K16: not even who may write."""
    for _ in range(2):
        for may_write in (False, True):
            with pytest.raises(QueryError):
                lab.sql(word, write=may_write)
        assert lab.run(looking(), "go").output == "Done."

    assert len(lab.turns()) == 2


def test_a_listener_may_sleep_leave_and_bring_another(lab):
    """K30: while events are told; the run is what it is without it."""
    heard: dict[str, int] = {"late": 0, "slow": 0}

    def late(event):
        heard["late"] += 1

    def slow(event):
        heard["slow"] += 1
        if event.type == "MODEL_TEXT_DELTA":
            time.sleep(0.3)
        if event.type == "TOOL_STARTED":
            lab.runner.remove_event_listener(slow)
            lab.runner.add_event_listener(late)

    lab.runner.add_event_listener(slow)
    turn = lab.run(looking(), "go")

    assert turn.output == "Done."
    kinds = [event.type for event in turn.events()]
    assert heard["slow"] == kinds.index("TOOL_STARTED") + 1
    assert heard["late"] == len(kinds) - heard["slow"]
    assert lab.runner.listener_errors == {}


def test_a_listener_that_drops_a_table_does_not_change_the_run(tmp_path):
    """K30: who asks is told, and the record is whole beside the file."""

    def vandal(event):
        if event.type == "MODEL_STARTED":
            lab.sql("drop table if exists steps", write=True)

    lab = af.Lab(tmp_path / "lab.duckdb", display=False, listeners=[vandal])
    turn = lab.run(looking(), "go")
    assert turn.output == "Done."
    with pytest.raises(StoreError, match="steps"):
        lab.steps()
    with pytest.raises(StoreError, match="steps"):
        lab.close()

    with closing(SqliteStore(tmp_path / "lab.duckdb.live")) as record:
        assert record.load(turn.id).turn == turn.to_snapshot()
