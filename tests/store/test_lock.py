"""One lab, one owner (K04)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentflex_nb.core.errors import LabLockedError, StoreError
from agentflex_nb.store.lock import LabLock

HOLDS = """
import sys, time
from pathlib import Path
from agentflex_nb.store.lock import LabLock
lock = LabLock.take(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("free", flush=True)
time.sleep(30)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return tmp_path / "lab.duckdb"


@pytest.fixture
def holder(lab):
    environment = os.environ | {"JPY_SESSION_NAME": "work/refunds.ipynb"}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(lab)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_told_who_holds_the_lab_within_a_second(lab, holder):
    began = time.monotonic()
    with pytest.raises(LabLockedError, match=rf"process {holder.pid} .*work/refunds\.ipynb.*since 20") as refusal:
        LabLock.take(lab)

    assert time.monotonic() - began < 1.5
    assert refusal.value.path == str(lab)


def test_a_lab_that_was_let_go_of_can_be_taken(lab, holder):
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "free\n"

    LabLock.take(lab).release()


def test_a_lock_of_a_process_that_was_killed_is_no_obstacle(lab, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lab.with_name("lab.duckdb.lock").exists()

    LabLock.take(lab).release()


def test_a_holder_that_goes_at_this_moment_is_waited_for(lab, holder):
    holder.stdin.write("\n")
    holder.stdin.flush()

    LabLock.take(lab).release()


def test_no_file_is_left_behind(lab):
    LabLock.take(lab).release()

    assert list(lab.parent.iterdir()) == []


def test_the_lock_says_who_holds_it(lab):
    lock = LabLock.take(lab)

    assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    lock.release()


def test_a_second_lock_in_this_process_is_refused(lab):
    lock = LabLock.take(lab)
    with pytest.raises(LabLockedError, match="this process"):
        LabLock.take(lab)
    lock.release()

    LabLock.take(lab).release()


def test_another_path_to_the_same_file_is_the_same_lab(lab):
    lab.touch()
    other = lab.with_name("other.duckdb")
    other.hardlink_to(lab)
    lock = LabLock.take(lab)

    with pytest.raises(LabLockedError, match="this process"):
        LabLock.take(other)
    lock.release()


def test_a_folder_that_forbids_writing_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"cannot be opened: lab\.duckdb\.lock cannot be written"):
        LabLock.take(tmp_path / "no such folder" / "lab.duckdb")


def test_a_forked_child_keeps_nobody_out(lab):
    lock = LabLock.take(lab)
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    lock.release()

    LabLock.take(lab).release()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_lock_that_is_let_go_of_twice_is_let_go_of_once(lab):
    lock = LabLock.take(lab)
    lock.release()
    second = LabLock.take(lab)
    lock.release()

    assert second.is_held
    assert second.path.exists()
    second.release()
