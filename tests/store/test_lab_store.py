"""A lab: a live record and an archive that are one store, and at rest one file."""

import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest

from agentflex_nb.core.errors import ConversationBusyError, LabLockedError, StoreDamagedError, StoreError
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import user
from agentflex_nb.store.archive import Archive
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import ASK, KeptStoreContract, Tale


class TestLabStore(KeptStoreContract):
    def open(self, folder):
        return LabStore(folder / "lab.duckdb", "process")


class FoldsAtOnce:
    """A lab whose archive has everything before anything is asked: what has ended is never met in the live record."""

    def __init__(self, store):
        self._store, self.close = store, store.close

    def __getattr__(self, name):
        method = getattr(self._store, name)
        return lambda *args, **kwargs: (self._fold(), method(*args, **kwargs))[1]

    def _fold(self):
        try:
            return self._store.archive
        except StoreError:
            return None  # closed: the method itself says so


class TestLabStoreOutOfItsArchive(KeptStoreContract):
    def open(self, folder):
        return FoldsAtOnce(LabStore(folder / "lab.duckdb", "process"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.duckdb"


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_at_rest_a_lab_is_one_file(path):
    store = LabStore(path)
    Tale(store).step().finish()
    Tale(store, "t2").call(ASK)
    assert {"lab.duckdb.live", "lab.duckdb.lock"} <= set(beside(path))
    store.close()

    assert beside(path) == ["lab.duckdb"]


def test_a_turn_that_waits_is_armed_again_by_the_next_opening(path):
    """K14, P7: what yesterday's kernel asked is answered today, and goes on with its numbers."""
    with closing(LabStore(path)) as yesterday:
        asked = Tale(yesterday, conversation_id="c1").call(ASK)
        asked.turn = yesterday.load("t1").turn
        before = yesterday.load("t1")

    with closing(LabStore(path)) as today:
        assert today.load("t1") == before
        assert today.active_turns("c1") == ["t1"]
        with pytest.raises(ConversationBusyError):
            Tale(today, "t2", conversation_id="c1")

        asked.store = today
        asked.say(AgentResumeCommand.approve_tool(asked.turn.questions[0].id, by="alice"))
        assert today.events("t1") == asked.events
        assert today.archive.rows("select outcome, answered_by from suspensions") == [("APPROVED", "alice")]
        assert today.archive.rows("select count(*), max(sequence) from events") == [(len(asked.events),) * 2]


def test_a_turn_that_waits_over_several_openings_is_there_once(path):
    for _ in range(3):
        with closing(LabStore(path)) as store:
            if store.load("t1") is None:
                Tale(store).call(ASK)
            assert [stored.turn.id for stored in store.find(list(AgentStatus))] == ["t1"]

    with closing(LabStore(path)) as store:
        assert store.archive.rows("select count(*) from turns") == [(1,)]
        assert (
            store.archive.rows("select turn_id from turn_messages group by turn_id, position having count(*) > 1") == []
        )


def test_a_conversation_goes_on_where_an_earlier_kernel_left_it(path):
    with closing(LabStore(path)) as store:
        first = Tale(store, "t1", conversation_id="c1").finish()
        store.remember("c1", [user("are you there?")])

    with closing(LabStore(path)) as store:
        store.remember("c1", [user("hello?")])
        said = store.conversation("c1")
        _ = store.archive
        assert store.conversation("c1") == said
        assert [(turn_id, message.content) for turn_id, message in said] == [
            *(("t1", message.content) for message in first.turn.messages),
            (None, "are you there?"),
            (None, "hello?"),
        ]
        positions = store.archive.rows("select position from conversation_messages order by 1")
        assert positions == [(n,) for n in range(len(said))]


def test_a_lab_in_memory_keeps_nothing_and_does_everything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(LabStore(":memory:")) as store, closing(LabStore(":memory:")) as another:
        tale = Tale(store).step().finish()

        assert store.load("t1").turn == tale.turn
        assert store.archive.rows("select status from turns") == [("COMPLETED",)]
        assert another.load("t1") is None
    assert list(tmp_path.iterdir()) == []


def test_a_lab_is_open_once_in_a_process(path):
    store = LabStore(path)
    link = path.with_name("link.duckdb")
    link.symlink_to(path)
    for other in (path, link):
        with pytest.raises(LabLockedError, match="this process"):
            LabStore(other)
    store.close()

    LabStore(path).close()


KILLED = """
import os, signal, sys
from agentflex_nb.store.archive import Archive
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import ASK, Tale

store = LabStore(sys.argv[1])
Tale(store, "t1").step().finish()
Tale(store, "t2").call(ASK)
print("acknowledged", flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def test_what_a_killed_process_had_acknowledged_is_there(path):
    """K31: the live record is left behind, and the next opening folds it."""
    subprocess.run([sys.executable, "-c", KILLED, str(path), "killed"], capture_output=True, check=False, timeout=60)
    assert "lab.duckdb.live" in beside(path)

    with closing(LabStore(path)) as store:
        assert store.load("t1").turn.status is AgentStatus.COMPLETED
        assert store.load("t2").turn.status is AgentStatus.WAITING_FOR_APPROVAL
        assert store.archive.rows("select turn_id, status from turns order by 1") == [
            ("t1", "COMPLETED"),
            ("t2", "WAITING_FOR_APPROVAL"),
        ]
    assert beside(path) == ["lab.duckdb"]


def test_a_second_process_is_refused_until_the_first_one_is_gone(path):
    """K04."""
    first = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert first.stdout.readline() == b"acknowledged\n"
    with pytest.raises(LabLockedError, match=f"process {first.pid} "):
        LabStore(path)

    first.communicate(b"")
    with closing(LabStore(path)) as store:
        assert store.archive.rows("select count(*) from turns") == [(2,)]


def test_a_read_only_connection_of_the_user_hurts_nothing(path):
    """K04."""
    with closing(LabStore(path)) as store:
        Tale(store).finish()
        with pytest.raises(duckdb.Error):
            duckdb.connect(str(path), read_only=True)
        Tale(store, "t2").finish()

        assert store.archive.rows("select count(*) from turns") == [(2,)]


def test_a_file_of_another_kind_leaves_nothing_behind(path):
    path.write_text("hello, world\n" * 1_000)
    with pytest.raises(StoreDamagedError):
        LabStore(path)

    assert beside(path) == ["lab.duckdb"]


def test_a_closed_lab_is_closed_for_good(path):
    store = LabStore(path)
    store.close()
    store.close()

    with pytest.raises(StoreError, match="is closed"):
        _ = store.archive


def test_a_lab_that_cannot_fold_keeps_its_live_record(path):
    store = LabStore(path)
    store.archive.query("alter table steps rename to hidden", write=True)
    tale = Tale(store).finish()
    with pytest.raises(StoreError, match=r"its last events still lie in lab\.duckdb\.live"):
        store.close()
    assert beside(path) == ["lab.duckdb", "lab.duckdb.live"]

    with closing(Archive(path)) as archive:
        archive.query("alter table hidden rename to steps", write=True)
    with closing(LabStore(path)) as mended:
        assert mended.archive.rows("select count(*) from events") == [(len(tale.events),)]


APPROVED = """
import os, signal, sys
import agentflex_nb as af

@af.tool(approval=True)
def pay() -> str:
    "Pay."
    return "paid"

script = af.ScriptedModel
lab = af.Lab(sys.argv[1], display=False, durability="process")
lab.run(af.Agent("a", model=script("Hi.")), "go")
turn = lab.run(af.Agent("b", version="1", model=script(script.call("pay"), "Done."), tools=[pay]), "go")
lab.events()
if sys.argv[2] == "late":
    lab.run(af.Agent("a", model=script("Hi.")), "go", conversation_id="c")
turn.approve()
lab.events()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("damage", ["cut", "cut far", "gone", "empty", "flipped"])
@pytest.mark.parametrize("victim", ["lab.duckdb.wal", "lab.duckdb.live-wal"])
def test_a_log_that_lost_its_end_takes_no_decision_back_without_a_word(path, victim, damage):
    """K32: an approved call must not wait for its approval again; what is gone is said, or nothing is gone."""
    subprocess.run([sys.executable, "-c", APPROVED, str(path), "late"], check=False, timeout=60)
    log = path.with_name(victim)
    whole = log.read_bytes()
    cut = {"cut": whole[:-37], "cut far": whole[: len(whole) // 2], "gone": b"", "empty": b""}
    log.write_bytes(cut.get(damage, whole[: len(whole) // 2] + b"\xff" + whole[len(whole) // 2 + 1 :]))
    if damage == "gone":
        log.unlink()

    with suppress(StoreDamagedError), closing(LabStore(path)) as store:
        assert store.archive.rows("select status from turns") == [("COMPLETED",)] * 3
        Tale(store, "new").step().finish()
        assert store.archive.rows("select status from turns where turn_id = 'new'") == [("COMPLETED",)]


def test_an_archive_can_be_opened_as_far_as_it_goes_when_its_record_is_moved_away(path):
    """K32: as the error says."""
    subprocess.run([sys.executable, "-c", APPROVED, str(path), ""], check=False, timeout=60)
    log = path.with_name("lab.duckdb.wal")
    log.write_bytes(log.read_bytes()[:-37])
    with pytest.raises(StoreDamagedError, match=r"move lab\.duckdb\.live away"):
        LabStore(path)

    path.with_name("lab.duckdb.live").rename(path.with_name("aside"))
    with closing(LabStore(path)) as store:
        assert store.archive.rows("select status from turns order by turn_id") == [
            ("COMPLETED",),
            ("WAITING_FOR_APPROVAL",),
        ]
