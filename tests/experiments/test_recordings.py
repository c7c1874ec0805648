"""Files of recordings: which conversations they hold, in which order, under which id."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from agentflex_nb.core.messages import Role
from agentflex_nb.experiments.chat import RecordingFormatError
from agentflex_nb.experiments.recordings import Recording, read_recordings

ROOT = Path(__file__).parents[2]
HELLO = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def lines(folder: Path, *conversations: Any, encoding: str = "utf-8") -> Path:
    path = folder / "chats.jsonl"
    path.write_text("\n".join(map(json.dumps, conversations)), encoding)
    return path


def table(folder: Path, **columns: list[Any]) -> Path:
    path = folder / "chats.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def read(path: Path, **options: Any) -> list[Recording]:
    return list(read_recordings(path, **options))


def texts(recording: Recording) -> list[str]:
    return [message.content for message in recording.messages]


# -- JSON lines --------------------------------------------------------------------------------------------------------


def test_a_line_is_a_conversation_bare_or_with_an_id_and_facts(tmp_path: Path):
    facts = {"id": 7, "score": 0.5, "tools": [{"name": "f"}], "note": "x" * 201, "messages": HELLO}
    bare, full = read(lines(tmp_path, HELLO, facts))

    assert (bare.id, bare.place, bare.metadata) == ("chats-1", "line 1", {})
    assert (full.id, full.place, full.metadata) == ("7", "line 2", {"id": 7, "score": 0.5})
    assert texts(bare) == texts(full) == ["hi", "hello"]


def test_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    path.write_text(f"\n{json.dumps(HELLO)}\n\n \n{json.dumps(HELLO)}\n", "utf-8-sig")

    assert [recording.place for recording in read(path)] == ["line 2", "line 5"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"messages": [', r"line 2: no JSON"),
        ("3", r"line 2, messages: a int; expected a conversation"),
        ('{"role": "user", "content": "x"}', r"line 2, messages: only role, content; expected a conversation"),
        ('{"messages": null}', r"line 2, messages: a NoneType; expected"),
        (
            '{"messages": [{"role": "user", "content": 3}]}',
            r"line 2, messages\[0\]\.content: a int; expected text or null",
        ),
    ],
)
def test_a_line_that_is_no_conversation_is_refused_with_its_number(tmp_path: Path, line: str, said: str):
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{json.dumps(HELLO)}\n{line}\n")

    with pytest.raises(RecordingFormatError, match=said):
        read(path)


def test_text_that_is_no_utf_8_is_refused_with_its_place(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    path.write_bytes(b'[{"role": "user", "content": "caf\xe9"}]')

    with pytest.raises(RecordingFormatError, match=r"after line 0: .*expected text in UTF-8"):
        read(path)


def test_an_id_that_comes_twice_is_refused_with_both_places(tmp_path: Path):
    twice = {"id": "a", "messages": HELLO}

    with pytest.raises(RecordingFormatError, match=r"line 3, id: 'a' comes again, after line 1; expected an id a"):
        read(lines(tmp_path, twice, HELLO, twice))


def test_a_large_file_is_read_as_it_is_needed(tmp_path: Path):
    path = lines(tmp_path, HELLO)
    with path.open("a") as file:
        file.write("\nnot JSON")

    assert next(read_recordings(path)).id == "chats-1"


# -- parquet -----------------------------------------------------------------------------------------------------------


def test_a_row_is_a_conversation_where_there_is_a_column_of_messages(tmp_path: Path):
    calling = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = [
        {"role": "user", "content": "go", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [calling]},
    ]
    path = table(tmp_path, conversation_id=["a", "b"], messages=[asked, HELLO], score=[1.0, None])
    first, second = read(path)

    assert (first.id, first.place, first.metadata) == ("a", "row 1", {"conversation_id": "a", "score": 1.0})
    assert [call.name for call in first.messages[1].tool_calls] == ["f"]
    assert texts(second) == ["hi", "hello"]


def test_messages_may_stand_as_json_text(tmp_path: Path):
    assert texts(read(table(tmp_path, messages=[json.dumps(HELLO)]))[0]) == ["hi", "hello"]


ROWS: dict[str, list[Any]] = {
    "task": [1, 2, 1, 2],
    "trial": [0, 0, 0, 0],
    "role": ["assistant", "user", "user", "assistant"],
    "content": ["hello", "yo", "hi", "hey"],
}


def test_a_row_is_a_message_where_there_is_a_column_of_roles(tmp_path: Path):
    first, second = read(table(tmp_path, order=[1, 0, 0, 1], **ROWS))

    assert (first.id, first.place, first.metadata) == ("task=1/trial=0", "row 3", {"task": 1, "trial": 0})
    assert texts(first) == ["hi", "hello"]
    assert (second.id, texts(second)) == ("task=2/trial=0", ["yo", "hey"])


def test_rows_stand_in_their_own_order_where_no_column_gives_one(tmp_path: Path):
    assert [texts(recording) for recording in read(table(tmp_path, **ROWS))] == [["hello", "hi"], ["yo", "hey"]]


def test_columns_that_tell_conversations_apart_are_known_by_name_or_given(tmp_path: Path):
    path = table(tmp_path, conversation_id=["x", "y", "x", "y"], model=["m", "n", "o", "p"], **ROWS)

    assert [recording.id for recording in read(path)] == ["x", "y"]
    assert [recording.id for recording in read(path, by=["trial"])] == ["0"]
    assert len(read(path, by=["conversation_id", "model"])) == 4


def test_rows_with_nothing_to_tell_them_apart_are_one_conversation(tmp_path: Path):
    (only,) = read(table(tmp_path, role=["user", "assistant"], content=["hi", "hello"]))

    assert (only.id, texts(only)) == ("chats", ["hi", "hello"])


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"text": ["x"]}, {}, "columns text; expected a column messages, or columns role and content"),
        (ROWS, {"by": ["user"]}, "row 1, user: nothing; expected a value; the columns are task, trial, role, content"),
        ({**ROWS, "trial": [0, None, 0, 0]}, {}, "row 2, trial: nothing; expected a value"),
        ({**ROWS, "order": [1, 0, 1, 1]}, {}, "row 3, order: 1, as in row 1; expected a number, and another one"),
        ({**ROWS, "order": [1, 0, None, 1]}, {}, "row 3, order: None; expected a number"),
        ({**ROWS, "role": ["tool", "user", "user", "user"]}, {}, "row 1: a tool's result without a call"),
    ],
)
def test_rows_that_make_no_conversations_are_refused(
    tmp_path: Path, columns: dict[str, list[Any]], options: dict[str, Any], said: str
):
    with pytest.raises(RecordingFormatError, match=said):
        read(table(tmp_path, **columns), **options)


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path):
    path = tmp_path / "chats.parquet"
    path.write_text("hello")

    with pytest.raises(RecordingFormatError, match=r"chats\.parquet: .*; expected a parquet file"):
        read(path)


# -- what there is -----------------------------------------------------------------------------------------------------


def test_the_authored_file_holds_what_its_readme_says():
    recordings = read(ROOT / "datasets" / "support_chats.jsonl")
    said = (ROOT / "datasets" / "README.md").read_text("utf-8")

    assert all(f"| {recording.id} |" in said for recording in recordings)
    assert "Eight conversations" in said
    assert len(recordings) == 8
    assert f"{sum(len(recording.messages) for recording in recordings)} messages" in said


@pytest.mark.real_data
def test_real_conversations_are_read_whole(data_dir: Path):
    recordings = read(data_dir / "taubench_airline_gpt4o_messages.parquet")
    messages = [message for recording in recordings for message in recording.messages]

    assert len(recordings) == 200
    assert len(messages) == 5_308
    assert sum(len(message.tool_calls) for message in messages) == 1_164
    assert sum(message.role is Role.TOOL for message in messages) == 1_164


@pytest.mark.real_data
def test_pass_hat_k_of_the_real_rewards_is_the_published_row(data_dir: Path):
    """A golden check of the reading: pass^k of k = 1 to 4, in SQL."""
    import duckdb

    query = """
        with tasks as (
                 select task_id, count(*) as n, count(*) filter (reward = 1) as c from read_parquet($path) group by all
             ),
             ks as (select unnest([1, 2, 3, 4]) as k)
        select k, round(avg(case when c < k then 0 else
            list_product([(c - i) / (n - i) for i in range(k)]) end), 3) from tasks, ks group by k order by k
    """
    samples = str(data_dir / "taubench_airline_gpt4o_samples.parquet")

    assert duckdb.execute(query, {"path": samples}).fetchall() == [(1, 0.420), (2, 0.273), (3, 0.220), (4, 0.200)]
