import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from agentflex_nb.core.errors import (
    InvalidValueError,
    NewerFormatError,
    StoreDamagedError,
    StoreError,
    TurnNotFoundError,
)
from agentflex_nb.store.sqlite_file import SqliteFile

FIRST = "create table meta(key text primary key, value text);\ncreate table notes(id integer primary key, text text);\n"
SECOND = "alter table notes add column colour text default 'red'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def file(path):
    file = SqliteFile(path, "power", [FIRST])
    yield file
    file.close()


def note(text):
    return lambda connection: connection.execute("insert into notes(text) values (?)", (text,)).lastrowid


def notes(file):
    with file.read() as connection:
        return [row[0] for row in connection.execute("select text from notes order by id")]


class Company:
    """Writers who come while one is writing, and so are written together."""

    def __init__(self, file):
        self.file, self.pool, self._go_on = file, ThreadPoolExecutor(16), Event()

    def __enter__(self):
        begun = Event()

        def hold(connection):
            begun.set()
            assert self._go_on.wait(10)

        self.first = self.pool.submit(self.file.write, hold)
        assert begun.wait(10)
        return self

    def write(self, work):
        before = len(self.file._waiting)
        future = self.pool.submit(self.file.write, work)
        while len(self.file._waiting) == before:
            time.sleep(0.001)
        return future

    def __exit__(self, *_):
        self._go_on.set()
        self.pool.shutdown()


# -- writing -----------------------------------------------------------------------------------------------------------


def test_what_a_writer_returns_comes_back(file):
    assert file.write(note("a")) == 1
    assert notes(file) == ["a"]


def test_writers_who_wait_share_one_transaction(file):
    """TS2."""
    said = []
    file.write(lambda connection: connection.set_trace_callback(said.append))
    said.clear()

    with Company(file) as company:
        writers = [company.write(note(f"{n}")) for n in range(8)]

    assert [writer.result() for writer in writers] == list(range(1, 9))
    assert said.count("commit") == 2  # the one who wrote when they came, and all of them


def test_a_refusal_in_company_is_heard_by_its_own_writer_only(file):
    def refuse(connection):
        raise TurnNotFoundError("t1")

    with Company(file) as company:
        writers = [company.write(work) for work in (note("a"), refuse, note("b"))]

    assert [type(writer.exception()) for writer in writers] == [type(None), TurnNotFoundError, type(None)]
    assert notes(file) == ["a", "b"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_fault_in_company_hurts_nobody_else_and_leaves_nothing(file, place):
    def fault(connection):
        note("half done")(connection)
        connection.execute("insert into nowhere values (1)")

    works = [note("a"), note("b")]
    works.insert(place, fault)
    with Company(file) as company:
        writers = [company.write(work) for work in works]

    failed = [writer for writer in writers if writer.exception()]
    assert failed == [writers[place]]
    assert isinstance(failed[0].exception(), StoreError)
    assert notes(file) == ["a", "b"]


def test_a_mistake_in_company_is_raised_where_it_was_made(file):
    def mistaken(connection):
        note("half done")(connection)
        return 1 / 0

    with Company(file) as company:
        writers = [company.write(work) for work in (note("a"), mistaken, note("b"))]

    assert [type(writer.exception()) for writer in writers] == [type(None), ZeroDivisionError, type(None)]
    assert notes(file) == ["a", "b"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stop_in_company_leaves_the_others_to_be_written(file, place):
    """Y7: the stop button reaches the writer who writes for all."""
    pressed = Event()

    def stop_once(connection):
        note("in between")(connection)
        if not pressed.is_set():
            pressed.set()
            raise KeyboardInterrupt

    works = [note("a"), note("b")]
    works.insert(place, stop_once)
    with Company(file) as company:
        writers = [company.write(work) for work in works]

    assert isinstance(writers[0].exception(), KeyboardInterrupt)  # the first of those who waited wrote for them
    assert [writer.exception() for writer in writers[1:]] == [None, None]
    everything = ["a", "b"]
    everything.insert(place, "in between")
    assert notes(file) == everything[1:]
    assert file.write(note("afterwards"))


def test_a_writer_who_is_alone_when_stopped_leaves_nothing(file):
    def stop(connection):
        note("half done")(connection)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file.write(stop)

    assert notes(file) == []
    assert file.write(note("a")) == 1


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_reader_sees_one_state_until_it_is_done(file):
    file.write(note("a"))
    with file.read() as connection:
        before = connection.execute("select count(*) from notes").fetchone()
        file.write(note("b"))

        assert connection.execute("select count(*) from notes").fetchone() == before == (1,)

    assert notes(file) == ["a", "b"]


def test_readers_do_not_wait_for_a_writer(file):
    with Company(file):
        assert notes(file) == []


def test_a_reader_who_fails_leaves_a_connection_that_works(file):
    with pytest.raises(StoreError, match="no such table"), file.read() as connection:
        connection.execute("select * from nowhere")

    assert notes(file) == []


# -- versions ----------------------------------------------------------------------------------------------------------


def test_an_older_file_is_led_to_the_newest_version_and_keeps_its_rows(path):
    old = SqliteFile(path, "power", [FIRST])
    old.write(note("a"))
    old.close()

    for _ in range(2):
        new = SqliteFile(path, "power", [FIRST, SECOND])
        with new.read() as connection:
            assert connection.execute("select text, colour from notes").fetchall() == [("a", "red")]
        new.close()


def test_a_migration_that_fails_changes_nothing(path):
    SqliteFile(path, "power", [FIRST]).close()

    with pytest.raises(StoreError, match="nowhere"):
        SqliteFile(path, "power", [FIRST, SECOND + ";\nupdate nowhere set x = 1"])

    SqliteFile(path, "power", [FIRST, SECOND]).close()


def test_a_newer_file_is_refused_with_what_to_do(path):
    SqliteFile(path, "power", [FIRST, SECOND]).close()

    with pytest.raises(NewerFormatError, match="upgrade agentflex-nb") as refusal:
        SqliteFile(path, "power", [FIRST])

    assert (refusal.value.found, refusal.value.known) == (2, 1)


def test_many_may_make_one_file_at_the_same_time(path):
    for number in range(60):  # one opening in seventy was called off before openers waited for one another
        new = path.with_name(f"notes{number}")
        with ThreadPoolExecutor(6) as pool:
            files = list(pool.map(SqliteFile, [new] * 6, ["process"] * 6, [[FIRST, SECOND]] * 6))

        for file in files:
            file.write(note("a"))
            file.close()
        with sqlite3.connect(new) as connection:
            assert connection.execute("select count(*) from notes").fetchone() == (6,)
        connection.close()


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_durability_that_is_none_is_refused(path):
    with pytest.raises(InvalidValueError, match="'power' or 'process'"):
        SqliteFile(path, "maybe", [FIRST])


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_power_syncs_every_commit_and_process_does_not(path, durability, level):
    file = SqliteFile(path, durability, [FIRST])

    assert file.write(lambda connection: connection.execute("pragma synchronous").fetchone()) == (level,)
    file.close()


def test_a_full_disk_says_so_and_keeps_what_was_written(file):
    """K32"""
    file.write(note("a"))
    file.write(lambda connection: connection.execute("pragma max_page_count = 5").fetchone())

    with pytest.raises(StoreError, match="free some space"):
        file.write(note("x" * 100_000))

    assert notes(file) == ["a"]
    file.write(lambda connection: connection.execute("pragma max_page_count = 1000000").fetchone())
    file.write(note("b"))
    assert notes(file) == ["a", "b"]


def test_a_file_that_may_only_be_read_says_so(file):
    """K32"""
    file.write(lambda connection: connection.execute("pragma query_only = 1"))

    with pytest.raises(StoreError, match="read-only"):
        file.write(note("a"))

    assert notes(file) == []


def test_another_process_that_writes_for_long_is_named_as_the_cause(file, path):
    file.write(lambda connection: connection.execute("pragma busy_timeout = 20"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")

    with pytest.raises(StoreError, match="another process has been writing"):
        file.write(note("a"))

    other.execute("rollback")
    other.close()
    assert file.write(note("a")) == 1


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(StoreError, match="its folder exists"):
        SqliteFile(tmp_path / "nowhere" / "notes", "power", [FIRST])


def test_a_file_of_another_kind_is_damaged(path):
    path.write_bytes(b"%PDF-1.7 " * 500)

    with pytest.raises(StoreDamagedError, match="not a database") as damage:
        SqliteFile(path, "power", [FIRST])

    assert damage.value.path == str(path)
    assert path.read_bytes().startswith(b"%PDF")


def test_the_tables_of_something_else_are_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table mine(x)")
    connection.close()

    with pytest.raises(StoreDamagedError, match="something else"):
        SqliteFile(path, "power", [FIRST])

    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("mine",)]
    connection.close()


def test_pages_that_were_overwritten_are_damaged(path):
    """K32"""
    file = SqliteFile(path, "power", [FIRST])
    for n in range(200):
        file.write(note(f"{n}" * 50))
    file.close()
    with path.open("r+b") as raw:
        raw.seek(2_048)
        raw.write(b"\xa5" * 20_000)

    def opened_and_read():
        file = SqliteFile(path, "power", [FIRST])
        try:
            notes(file)
        finally:
            file.close()

    with pytest.raises(StoreDamagedError, match="malformed"):
        opened_and_read()


def test_a_log_without_its_head_is_damaged_not_empty(path, tmp_path):
    """K32: acknowledged commits that lie there would be gone without a word."""
    file = SqliteFile(path, "power", [FIRST])
    file.write(note("acknowledged"))
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    log = bytearray(path.with_name("notes-wal").read_bytes())
    file.close()
    log[:64] = bytes(64)
    tmp_path.joinpath("copy-wal").write_bytes(log)

    with pytest.raises(StoreDamagedError, match="copy-wal"):
        SqliteFile(copy, "power", [FIRST])


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_closed_file_is_one_file_and_says_that_it_is_closed(file, path, tmp_path):
    file.write(note("a"))

    file.close()
    file.close()

    assert [kept.name for kept in tmp_path.iterdir()] == [path.name]
    with pytest.raises(StoreError, match="closed"):
        file.write(note("b"))
    with pytest.raises(StoreError, match="closed"):
        notes(file)


def test_close_waits_for_those_who_are_writing(file, path):
    with Company(file) as company:
        writer = company.write(note("a"))
        closer = company.pool.submit(file.close)

    closer.result()
    assert writer.result() == 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("select text from notes").fetchall() == [("a",)]
    connection.close()


def test_a_reader_at_work_while_the_file_closes_reads_to_its_end(file, tmp_path):
    file.write(note("a"))
    with file.read() as connection:
        file.close()

        assert connection.execute("select text from notes").fetchall() == [("a",)]

    assert len(list(tmp_path.iterdir())) == 1
