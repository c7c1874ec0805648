"""The fold: exactly once, whatever dies when; and every derived table, exact on small logs."""

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from agentflex_nb.core.errors import StoreError
from agentflex_nb.core.inputs import AgentResumeCommand, CallsChecked, Proceed, ToolReturned
from agentflex_nb.core.values import PackedValue
from agentflex_nb.store import fold as folding
from agentflex_nb.store.archive import Archive
from agentflex_nb.store.fold import DERIVED, Fold, fold
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.store.unfolded import FoldCursor
from agentflex_nb.testing.store_contract import ASK, Tale

WITHOUT = {"events": "event_pk", "turns": "first_event_pk"}  # these say in which order rows came to this file
KEPT = ("events", "snapshots", "messages", "turn_messages", "conversation_messages", "kept_results")
WHOLE = PackedValue("application/octet-stream", bytes(range(256)))


@pytest.fixture
def record(tmp_path: Path):
    with closing(SqliteStore(tmp_path / "live", "process")) as store:
        yield store


@pytest.fixture
def archive():
    with closing(Archive()) as opened:
        yield opened


def tell(store, turn_id="t1", **options) -> Tale:
    """A turn that asks, is answered and completes, in a conversation."""
    tale = Tale(store, turn_id, conversation_id=f"of {turn_id}", **options).step().call(ASK)
    tale.say(AgentResumeCommand.approve_tool(tale.turn.questions[0].id, by="alice"), Proceed())
    call = tale.turn.pending[0].call.id
    return tale.say(CallsChecked({call: ASK}), ToolReturned(call, "paid", "bytes", WHOLE)).finish()


def content(archive, table: str) -> list[tuple]:
    columns = f"* exclude ({WITHOUT[table]})" if table in WITHOUT else "*"
    return archive.rows(f"select {columns} from {table} order by all")


# -- exactly once ------------------------------------------------------------------------------------------------------


def test_everything_is_carried_over_and_let_go_of(record, archive):
    tale = tell(record)

    assert fold(record, archive)
    events = archive.rows("select sequence, type from events order by event_pk")
    assert events == [(event.sequence, event.type.value) for event in tale.events]
    assert archive.rows("select distinct version from snapshots order by 1") == [
        (n,) for n in range(tale.turn.version + 1)
    ]
    assert archive.rows("select turn_id, tool_call_id, media_type, bytes, body from kept_results") == [
        ("t1", "t1.2.0", WHOLE.media_type, 256, WHOLE.data)
    ]
    assert record.load("t1") is None
    assert record.events("t1") == []
    assert record.result("t1.2.0") is None


def test_a_second_fold_of_the_same_rows_takes_nothing(record, archive):
    tell(record)
    with archive.cursor() as cursor:
        folding.take(cursor, record.record_id, record.unfolded(FoldCursor()))
    before = {table: content(archive, table) for table in (*KEPT, *DERIVED)}

    assert fold(record, archive)  # as after a crash between the archive's commit and the record's letting go
    assert {table: content(archive, table) for table in (*KEPT, *DERIVED)} == before
    assert not record.unfolded(FoldCursor()).journal


def test_another_record_is_folded_from_its_beginning(record, archive, tmp_path):
    count = len(tell(record).events)
    fold(record, archive)
    with closing(SqliteStore(tmp_path / "another", "process")) as another:
        tell(another, "t2")
        fold(another, archive)

    assert archive.rows("select turn_id, count(*) from events group by 1 order by 1") == [("t1", count), ("t2", count)]
    assert archive.rows("select event_pk from events order by 1") == [(n + 1,) for n in range(2 * count)]


def test_a_turn_folded_commit_by_commit_equals_one_folded_at_once(record, archive, tmp_path):
    class FoldsEachTime:
        def commit(self, *args, **kwargs):
            record.commit(*args, **kwargs)
            fold(record, archive)

    tell(FoldsEachTime())
    with closing(SqliteStore(tmp_path / "once", "process")) as once, closing(Archive()) as other:
        tell(once)
        fold(once, other)

        for table in (*KEPT, *DERIVED):
            assert content(archive, table) == content(other, table), table


def test_turns_folded_in_small_sets_lose_nothing(record, archive, monkeypatch):
    monkeypatch.setattr(folding, "_BATCH", {"rows": 2, "text": 2_000})
    tales = [tell(record, f"t{n}") for n in range(3)]

    assert fold(record, archive)
    for tale in tales:
        told = archive.rows("select sequence from events where turn_id = ? order by event_pk", [tale.turn.id])
        assert told == [(event.sequence,) for event in tale.events]
    assert archive.rows("select turn_id, status, message_count from turns order by 1") == [
        (tale.turn.id, "COMPLETED", len(tale.turn.messages)) for tale in tales
    ]


def test_a_message_is_kept_once_however_many_turns_hold_it(record, archive):
    """P16."""
    one = Tale(record, "t1", conversation_id="c").step().finish()
    fold(record, archive)
    Tale(record, "t2", conversation_id="c", attached=one.turn.messages).finish()
    fold(record, archive)

    assert archive.rows("select count(*) from messages where content = 'hello from t1'") == [(1,)]
    assert archive.rows("select count(*), count(distinct hash) from messages")[0] == (
        archive.rows("select count(distinct hash) from messages")[0] * 2
    )
    assert archive.rows("select turn_id, position from used_messages where content = 'hello from t1' order by 1") == [
        ("t1", 0),
        ("t2", 0),
    ]


# what must not be found after a crash
BROKEN = (
    "select turn_id from events group by 1 having count(*) <> max(sequence)",
    "select turn_id from events group by turn_id, sequence having count(*) > 1",
    "select turn_id from snapshots group by turn_id, version having count(*) > 1",
    "select turn_id from turn_messages group by turn_id, position having count(*) > 1",
    "select hash from messages group by 1 having count(*) > 1",
    "select hash from turn_messages anti join messages using (hash)",
    "select conversation_id from conversation_messages group by 1 having count(*) <> max(position) + 1",
)

CRASHES = """
import sys
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import ASK, Tale

store = LabStore(sys.argv[1], "process")
print("open", flush=True)
number = int(sys.argv[2])
while True:
    tale = Tale(store, f"T{number:06}", conversation_id=f"c{number % 3}" if number % 2 else None)
    for _ in range(3):
        tale.step()
        print(tale.turn.id, tale.turn.version, len(tale.events), flush=True)
    tale.finish()
    print(tale.turn.id, tale.turn.version, len(tale.events), flush=True)
    number += 1
"""


@pytest.mark.slow
def test_what_was_acknowledged_is_there_once_after_a_kill_at_any_moment(tmp_path):
    """E4, P18: ten lives of one lab, each killed; nothing acknowledged is lost, nothing is there twice."""
    lab, chance = tmp_path / "lab.duckdb", random.Random(7)
    acknowledged: dict[str, tuple[int, int]] = {}
    for life in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", CRASHES, str(lab), str(life * 10_000)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "open\n"
        time.sleep(chance.uniform(0.02, 0.7))
        child.send_signal(signal.SIGKILL)
        said, _ = child.communicate()
        for line in said.splitlines():
            if len(parts := line.split(" ")) == 3:
                acknowledged[parts[0]] = int(parts[1]), int(parts[2])

    assert len(acknowledged) > 10
    with closing(LabStore(lab, "process")) as store:
        kept = dict(store.archive.rows("select turn_id, {'v': version, 'n': event_count} from turns"))
        for turn_id, (version, events) in acknowledged.items():
            assert kept[turn_id]["v"] >= version, turn_id
            assert kept[turn_id]["n"] >= events, turn_id
        for broken in BROKEN:
            assert store.archive.rows(broken) == [], broken
        for turn_id in acknowledged:
            stored = store.load(turn_id)
            assert stored.turn.sequence == len(store.events(turn_id))


# -- when it fails -----------------------------------------------------------------------------------------------------


def test_a_fold_that_fails_is_kept_told_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "_RETRY", (0.05,))
    with closing(LabStore(tmp_path / "lab.duckdb", "process")) as store:
        archive = store.archive
        archive.query("alter table steps rename to hidden", write=True)
        tale = tell(store)  # runs go on

        with pytest.raises(StoreError, match=r"the archive is behind its record, tried \d+ times: .*steps"):
            _ = store.archive
        assert "steps" in str(store.trouble)
        assert store.load("t1").turn == tale.turn
        assert store.events("t1") == tale.events

        archive.query("alter table hidden rename to steps", write=True)
        assert store.archive.rows("select count(*) from events") == [(len(tale.events),)]
        assert store.trouble is None


def test_a_record_that_does_not_let_go_is_folded_once(record, archive, monkeypatch):
    monkeypatch.setattr(folding, "_RETRY", (0.01,))

    class Stubborn:
        """A record whose first three attempts to let go fail."""

        record_id, unfolded, refusals = record.record_id, staticmethod(record.unfolded), 3

        def forget(self, cursor):
            if self.refusals:
                self.refusals -= 1
                raise StoreError("the disk is full")
            record.forget(cursor)

    tale = tell(record)
    thread = Fold(Stubborn(), archive)
    thread.start()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (archive.rows("select 1 from turns") == [] or thread.failure):
        time.sleep(0.01)
    thread.close()

    assert thread.failure is None
    assert archive.rows("select count(*) from events") == [(len(tale.events),)]
    assert not record.unfolded(FoldCursor()).journal


def test_whoever_waits_for_a_fold_that_has_ended_is_told(record, archive):
    thread = Fold(record, archive)
    thread.start()
    thread.catch_up()
    thread.close()
    thread.tell()

    with pytest.raises(StoreError, match="is closed"):
        thread.catch_up()


def test_what_is_committed_is_in_the_archive_soon_without_being_asked_for(record, archive):
    thread = Fold(record, archive)
    thread.start()
    thread.catch_up()
    tell(record)
    thread.tell()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not archive.rows("select 1 from turns where status = 'COMPLETED'"):
        time.sleep(0.02)
    thread.close()

    assert archive.rows("select count(*) from turns where status = 'COMPLETED'") == [(1,)]


def test_the_archive_is_checkpointed_when_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "_IDLE", 0.1)
    with closing(LabStore(tmp_path / "lab.duckdb", "process")) as store:
        tell(store)
        archive = store.archive
        assert archive.log_bytes > 0

        deadline = time.monotonic() + 5
        while archive.log_bytes and time.monotonic() < deadline:
            time.sleep(0.02)
        assert archive.log_bytes == 0


# -- the way out -------------------------------------------------------------------------------------------------------

LEAVES = """
import os, sys
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import Tale

store = LabStore(sys.argv[1], "process")
for number in range(40):
    Tale(store, f"T{number:03}").step().finish()
"""


def test_an_interpreter_that_ends_without_closing_leaves_one_complete_file(tmp_path):
    lab = tmp_path / "lab.duckdb"
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES, str(lab)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["lab.duckdb"]
    with closing(Archive(lab)) as archive:
        assert archive.rows("select count(*) from turns where status = 'COMPLETED'") == [(40,)]


def test_a_forked_child_is_refused_and_hurts_nothing(tmp_path):
    lab = tmp_path / "lab.duckdb"
    forks = (
        LEAVES
        + """
child = os.fork()
if child == 0:
    try:
        store.load("T000")
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    sys.exit(0)  # an orderly end, which closes whatever is left open
assert os.waitpid(child, 0)[1] == 0
Tale(store, "after").step().finish()
print(store.archive.rows("select count(*) from turns"))
"""
    )
    ended = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", forks, str(lab)],
                           capture_output=True, text=True, timeout=60, check=False)  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("StoreError")
    assert "spawn, not fork" in ended.stdout
    assert ended.stdout.endswith("[(41,)]\n")
    assert [path.name for path in tmp_path.iterdir()] == ["lab.duckdb"]
