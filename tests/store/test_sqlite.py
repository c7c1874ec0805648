import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import ConversationBusyError, StoreDamagedError, StoreError, VersionConflictError
from agentflex_nb.core.inputs import AgentResumeCommand, CallsChecked, Proceed
from agentflex_nb.core.messages import user
from agentflex_nb.store.codec import encode_answer
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import ASK, KeptStoreContract, Tale, loaded, told

ENDLESS = AgentExecutionPolicy(max_iterations=0, max_steps=0)


class TestSqliteStore(KeptStoreContract):
    def open(self, folder):
        return SqliteStore(folder / "turns")


class TestSqliteStoreThatSurvivesItsProcessOnly(KeptStoreContract):
    def open(self, folder):
        return SqliteStore(folder / "turns", "process")


class TestTwoStoresOnOneFile(KeptStoreContract):
    """One saves what the other opened: nothing is remembered that the file does not say."""

    def open(self, folder):
        return TakingTurns(SqliteStore(folder / "turns", "process"), SqliteStore(folder / "turns", "process"))


class TakingTurns:
    """Two stores, each asked for every second thing."""

    def __init__(self, *stores):
        self._stores = list(stores)

    def __getattr__(self, name):
        self._stores.reverse()
        return getattr(self._stores[0], name)

    def close(self):
        for store in self._stores:
            store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns"


def rows(path: Path, question: str) -> list[tuple]:
    """What stands in a file, seen from outside."""
    with sqlite3.connect(path) as connection:
        found = connection.execute(question).fetchall()
    connection.close()
    return found


# -- what is written ---------------------------------------------------------------------------------------------------


def written(path: Path, steps: int) -> int:
    """Characters that a turn of so many steps leaves in the file."""
    store = SqliteStore(path, "process")
    tale = Tale(store, policy=ENDLESS)
    for _ in range(steps):
        tale.step()
    store.close()
    return sum(
        rows(path, f"select sum({'+'.join(f'length({part})' for part in parts)}) from {table}")[0][0]
        for table, parts in {"journal": ("events", "coalesce(state, '')"), "messages": ("body",)}.items()
    )


def test_what_is_written_grows_with_the_steps_and_no_faster(tmp_path):
    """P16, K20."""
    short, long = written(tmp_path / "short", 50), written(tmp_path / "long", 200)

    assert long / short < 1.05 * 200 / 50


def states_of(path, answers):
    """How many characters of state a turn writes that asks before each of so many calls."""
    store = SqliteStore(path, "process")
    tale = Tale(store, policy=ENDLESS)
    for _ in range(answers):
        tale.call(ASK).say(AgentResumeCommand.reject_tool(tale.turn.questions[0].id, "x" * 500, by="alice"), Proceed())
    assert store.load("t1").turn == tale.turn
    assert len(tale.turn.answers) == answers
    store.close()
    return rows(path, "select sum(length(state)) from journal")[0][0]


def test_answers_are_written_once_however_long_the_turn_goes_on(tmp_path):
    """P16, A13"""
    short, long = states_of(tmp_path / "short", 20), states_of(tmp_path / "long", 80)

    assert long / short < 1.05 * 80 / 20


def test_answers_that_an_earlier_version_wrote_into_the_state_are_still_there(tmp_path):
    path = tmp_path / "turns"
    tale = Tale(SqliteStore(path, "process")).call(ASK)
    tale.say(AgentResumeCommand.approve_tool(tale.turn.questions[0].id, by="alice"))
    tale.store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("delete from turn_answers")
        row, state = connection.execute("select id, state from journal order by id desc").fetchone()
        old = {**json.loads(state), "answers": [json.loads(encode_answer(answer)) for answer in tale.turn.answers]}
        connection.execute("update journal set state = ? where id = ?", [json.dumps(old), row])
    connection.close()

    store = SqliteStore(path, "process")
    tale.store = store
    assert store.load("t1").turn == tale.turn
    tale.say(Proceed())
    tale.say(CallsChecked({tale.turn.pending[0].call.id: ASK}))
    assert store.load("t1").turn == tale.turn
    store.close()


def test_a_message_is_written_once_however_many_turns_attach_it(path):
    """P16: content is addressed by its hash."""
    store = SqliteStore(path)
    history = [user("said once " + "x" * 100)]
    for n in range(5):
        Tale(store, f"t{n}", attached=history).finish()
    store.close()

    assert rows(path, "select count(*) from messages where body like '%said once%'") == [(1,)]
    assert rows(path, "select count(*) from messages where body like '%Be brief.%'") == [(1,)]
    assert rows(path, "select count(*) from turn_messages join messages using (hash) where body like '%once%'") == [
        (5,)
    ]
    assert b"said once" in path.read_bytes()
    assert path.read_bytes().count(b"said once") == 1


def test_a_change_of_a_head_has_one_journal_row(path):
    store = SqliteStore(path)
    tale = Tale(store)
    store.append("t1", [told(2)], reserved=9)
    store.request_cancel("t1")
    store.request_cancel("t1")
    tale.step()
    store.close()

    assert rows(path, "select version, state is null, json_array_length(events) from journal order by id") == [
        (0, 0, 1),
        (None, 1, 1),
        (None, 1, 0),
        (1, 0, 6),
        (2, 0, 3),
    ]
    assert rows(path, "select changed from heads") == rows(path, "select max(id) from journal")


def test_the_step_of_a_message_is_the_one_in_which_it_was_saved(path):
    store = SqliteStore(path)
    Tale(store, attached=[user("before")]).step().step().finish()
    store.close()

    assert [row[0] for row in rows(path, "select step from turn_messages order by position")] == [0, 0, 1, 1, 2, 2, 3]


# -- many processes ----------------------------------------------------------------------------------------------------


def test_two_stores_race_for_one_version_and_one_wins(path):
    """A9, K16."""
    one, other = SqliteStore(path, "process"), SqliteStore(path, "process")
    start = Tale(one).turn

    def race(store: SqliteStore) -> int:
        wins = 0
        for _ in range(40):
            turn = loaded(store).turn
            try:
                store.commit(replace(turn, version=turn.version + 1), [], expected=turn.version, reserved=0)
                wins += 1
            except VersionConflictError:
                pass
        return wins

    with ThreadPoolExecutor(2) as pool:
        wins = sum(pool.map(race, (one, other)))

    assert loaded(one).turn == replace(start, version=wins)
    one.close()
    other.close()


def test_another_process_is_seen_at_once(path):
    """T13, V3."""
    here, there = SqliteStore(path), SqliteStore(path)
    Tale(here, conversation_id="c1").call(ASK)

    assert there.request_cancel("t1")

    assert here.is_cancel_requested("t1")
    with pytest.raises(ConversationBusyError):
        Tale(there, "t2", conversation_id="c1")
    here.close()
    there.close()


# -- the end of a process ----------------------------------------------------------------------------------------------

SAVER = """
import sys
from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import Tale
store = SqliteStore(sys.argv[1], sys.argv[2])
tale = Tale(store, "t" + sys.argv[3], policy=AgentExecutionPolicy(max_iterations=0, max_steps=0))
while True:
    tale.step()
    print(tale.turn.version, tale.turn.sequence, len(tale.turn.messages), flush=True)
"""


@pytest.mark.parametrize("durability", ["power", "process"])
def test_no_acknowledged_commit_is_lost_when_the_process_is_killed(path, durability):
    """P5, E4, K31."""
    for n, patience in enumerate((0.01, 0.03, 0.07)):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, path, durability, str(n)], stdout=subprocess.PIPE, text=True
        ) as saver:
            first = saver.stdout.readline()
            time.sleep(patience)
            saver.send_signal(signal.SIGKILL)
            told = [first, *saver.stdout.read().splitlines()]
        whole = [line for line in told if re.fullmatch(r"\d+ \d+ \d+\s*", line)]
        version, sequence, messages = map(int, whole[-1].split())

        store = SqliteStore(path)
        kept = loaded(store, f"t{n}")

        assert saver.returncode == -signal.SIGKILL
        assert kept.turn.version >= version
        assert kept.logged == kept.turn.sequence >= sequence
        assert len(kept.turn.messages) >= messages
        assert [event.sequence for event in store.events(f"t{n}")] == list(range(1, kept.logged + 1))
        store.close()


FORKED = """
import os, sys
from agentflex_nb.core.errors import StoreError
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import Tale
store = SqliteStore(sys.argv[1])
tale = Tale(store)
child = os.fork()
if child == 0:
    refused = 0
    for touch in (lambda: store.load("t1"), tale.step, lambda: store.request_cancel("t1")):
        try:
            touch()
        except StoreError as error:
            refused += "fork" in str(error)
    store.close()
    sys.exit(refused)
refused = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
tale = Tale(store, "t2").step()
assert store.load("t2").turn == tale.turn
print(refused, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused_and_takes_nothing_from_its_parent(path):
    run = subprocess.run([sys.executable, "-c", FORKED, path], capture_output=True, text=True, check=False)

    assert (run.stdout, run.stderr) == ("3\n", "")
    store = SqliteStore(path)
    assert (loaded(store, "t1").turn.version, loaded(store, "t2").turn.version) == (0, 2)
    store.close()


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_turn_that_lost_a_message_is_not_half_loaded(path):
    store = SqliteStore(path)
    Tale(store).step()
    with sqlite3.connect(path) as connection:
        connection.execute("delete from messages where body like '%refunded%'")
    connection.close()

    with pytest.raises(StoreDamagedError, match="2 of its 3 messages"):
        store.load("t1")
    store.close()


def test_a_message_in_the_place_of_another_fails_the_save_and_no_other(path):
    store = SqliteStore(path)
    tale, other = Tale(store), Tale(store, "t2")
    with sqlite3.connect(path) as connection:
        connection.execute("insert into turn_messages(turn_id, position, hash, step) values ('t1', 1, 'x', 0)")
    connection.close()

    with pytest.raises(StoreError, match="nothing was written"):
        tale.step()

    assert rows(path, "select version from heads where turn_id = 't1'") == [(0,)]
    assert other.step().turn == loaded(store, "t2").turn
    store.close()
