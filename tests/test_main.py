"""The command line: what it prints, and the code with which it ends."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentflex_nb.__main__ import main
from agentflex_nb.lab import Lab
from agentflex_nb.testing import check

CHATS = Path(__file__).parents[1] / "datasets" / "support_chats.jsonl"


def test_replay_fills_a_lab_and_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "chats.duckdb"

    assert main(["replay", str(CHATS), "--lab", str(path)]) == 0

    said = capsys.readouterr().out
    assert said.startswith("support_chats.jsonl: 8 conversations in ")
    assert "       13 turns: 12 COMPLETED, 1 FAILED; FAILED are those whose recording stops" in said
    assert "       12 tool calls\n" in said
    assert "       59 recorded messages, all unchanged\n" in said
    assert "        3 messages of users that nobody answered" in said
    suggested = said[said.index("    import agentflex_nb") :]
    run = subprocess.run([sys.executable, "-c", _unindented(suggested)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def _unindented(code: str) -> str:
    return "\n".join(line.strip() for line in code.splitlines())


def test_it_runs_as_a_module_with_a_progress_bar(tmp_path: Path):
    command = [sys.executable, "-m", "agentflex_nb", "replay", str(CHATS), "--lab", str(tmp_path / "chats.duckdb")]

    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (run.returncode, "13/13" in run.stderr) == (0, True)


def test_a_limit_plays_the_first_conversations_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "chats.duckdb"

    assert main(["replay", str(CHATS), "--lab", str(path), "--limit", "2", "--durability", "power"]) == 0

    assert "2 conversations" in capsys.readouterr().out
    with Lab(path, display=False) as lab:
        assert set(lab.turns().conversation_id) == {"opening-hours", "late-parcel"}


def test_what_differs_from_the_recording_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    call = {"id": "x", "function": {"name": "f", "arguments": "{half"}}
    talk = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "bad JSON"},
        {"role": "assistant", "content": "sorry"},
    ]
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps(talk))

    assert main(["replay", str(file), "--lab", str(tmp_path / "x.duckdb")]) == 0

    assert "4 recorded messages, 1 of them changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "chats.jsonl: No such file or directory"),
        ("", "chats.jsonl holds no conversation"),
        ('{"role": "user"}', "chats.jsonl, line 1, messages: only role; expected a conversation"),
    ],
)
def test_a_file_that_cannot_be_played_is_one_line_and_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
):
    file = tmp_path / "chats.jsonl"
    if content is not None:
        file.write_text(content)

    assert main(["replay", str(file), "--lab", str(tmp_path / "x.duckdb")]) == 1

    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("agentflex: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "x.duckdb").exists()


def test_a_lab_that_cannot_be_used_is_one_line_and_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "no.duckdb"
    path.write_text("this is no database")

    assert main(["replay", str(CHATS), "--lab", str(path)]) == 1

    assert capsys.readouterr().err.startswith(f"agentflex: {path}")
    assert path.read_text() == "this is no database"


def test_the_same_file_again_into_the_same_lab_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["replay", str(CHATS), "--lab", str(tmp_path / "chats.duckdb")]
    main(command)

    assert main(command) == 1
    assert "conversation 'opening-hours' stands in this lab already" in capsys.readouterr().err


def test_the_stop_button_ends_it_with_130_and_keeps_what_was_played(tmp_path: Path):
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    file, path = tmp_path / "many.jsonl", tmp_path / "many.duckdb"
    file.write_text(f"{json.dumps(talk * 10)}\n" * 300)
    command = [sys.executable, "-m", "agentflex_nb", "replay", str(file), "--lab", str(path)]

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = ""
        for letter in iter(lambda: run.stderr.read(1), ""):
            said += letter
            if re.search(r"\b[1-9]\d*/3000", said):  # the bar has moved
                break
        run.send_signal(signal.SIGINT)
        said += run.stderr.read()

    assert run.returncode == 130, said[-2000:]
    assert f"agentflex: stopped; what was played until now stands in {path}" in said
    with Lab(path, display=False) as lab:
        assert 0 < len(lab.turns()) < 3_000
        check(lab)


@pytest.mark.parametrize(
    "words", [[], ["replay"], ["replay", "x"], ["replay", "x", "--lab", "y", "--limit", "0"], ["rewind"]]
)
def test_a_command_that_is_not_understood_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert "usage: agentflex" in capsys.readouterr().err
