"""kill -9, again and again: nothing that was acknowledged is lost, nothing is done twice, everything comes to its end.

AGENTFLEX_KILLS says how often (6 without it); AGENTFLEX_SEED repeats the same choices, though never the same instants.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import agentflex_nb

HERE = Path(__file__).parent
KILLS = int(os.environ.get("AGENTFLEX_KILLS", "6"))
SEED = int(os.environ.get("AGENTFLEX_SEED", "1"))
IN_ONE_LIFE = 12  # kills of one lab, before the next one begins
LOOK = 0.002  # seconds between two looks at a file that is to grow

# where the process ends itself -> the passing at which it may, at most
OWN_HAND = {
    "in the tool, after its effect": 12,
    "in the model's stream": 600,
    "before the tool": 15,
    "after the tool": 15,
    "after a commit": 80,
    "in the tool, before its effect": 12,
}
# where it is killed from outside, at any instant between two lines that it prints
FROM_OUTSIDE = {
    "at work": ("working", "closing"),
    "while it closes": ("closing", "closed"),
    "while it opens what another crash left": ("opening", "working"),
    "while it mends": ("working", "closed"),
    "while it folds": ("working", "closing"),
}
PLACES = [place for pair in zip(OWN_HAND, FROM_OUTSIDE, strict=False) for place in pair] + list(OWN_HAND)[-1:]


class Life:
    """A folder, and the processes that work in it one after another."""

    def __init__(self, kind: str, folder: Path, chance: random.Random) -> None:
        self.kind, self.folder, self.chance = kind, folder, chance
        self.lasts: dict[tuple[str, str, str], float] = {}  # (script, from, to) -> seconds, in a process that lived
        self.counts: Counter[str] = Counter()

    def run(self, script: str, *words: str) -> str:
        """Let a process live to its end; returns its last line."""
        with self._process(script, *words) as process:
            seen = dict(self._lines(process))
        assert process.returncode == 0, f"{script} {words} ended with {process.returncode}"
        marks = list(seen.items())
        for one, (begin, began) in enumerate(marks):
            for end, ended in marks[one + 1 :]:
                self.lasts[script, begin, end] = ended - began
        return marks[-1][0]

    def kill(self, script: str, place: str, *words: str) -> bool:
        """Kill a process between two of its lines; False if it was done before."""
        begin, end = FROM_OUTSIDE[place]
        with self._process(script, *words) as process:
            for line, _ in self._lines(process):
                if line == begin:
                    break
            if place == "while it folds":
                self._await_fold(process)
            else:
                time.sleep(self.chance.uniform(0, self.lasts[script, begin, end]))
            process.send_signal(signal.SIGKILL)
        return process.returncode == -signal.SIGKILL

    def die(self, place: str) -> bool:
        """Let a process kill itself; False if it never came there."""
        nth = self.chance.randint(1, OWN_HAND[place])
        with self._process("live.py", self._seed(), place, str(nth)) as process:
            process.wait()
        assert process.returncode in (0, -signal.SIGKILL), f"live.py ended with {process.returncode}"
        return process.returncode == -signal.SIGKILL

    def end(self, place: str) -> bool:
        """One kill at this place."""
        if place in OWN_HAND:
            return self.die(place)
        if place == "while it opens what another crash left":
            return self.kill("live.py", "at work", self._seed()) and self.kill("live.py", place, self._seed())
        if place == "while it mends":
            return self.kill("live.py", "at work", self._seed()) and self.kill("mend.py", place)
        return self.kill("live.py", place, self._seed())

    def mend(self) -> None:
        """The kernel that comes after finds nothing amiss, and leaves nothing open."""
        report = json.loads(self.run("mend.py"))
        assert report["faults"] == []
        self.counts.update(report["counts"])

    def put_away(self, number: int) -> None:
        """Keep what was heard so far on a page of its own, so that the next kernel compares only what is new."""
        (self.folder / "heard").rename(self.folder / f"heard-{number}")

    def take_back(self) -> None:
        """Everything that was ever heard, on one page again."""
        pages = sorted(self.folder.glob("heard-*"))
        text = "".join(page.read_text("utf-8") for page in pages)
        for page in pages:
            page.unlink()
        (self.folder / "heard").write_text(text, "utf-8")
        del self.counts["turns"], self.counts["acknowledged commits"]  # they are about to be counted again

    def _seed(self) -> str:
        return str(self.chance.randrange(1_000_000))

    def _process(self, script: str, *words: str) -> "subprocess.Popen[str]":
        home = str(Path(agentflex_nb.__file__).parents[1])
        return subprocess.Popen(
            [sys.executable, str(HERE / script), self.kind, str(self.folder), *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": home},
        )

    def _lines(self, process: "subprocess.Popen[str]") -> Iterator[tuple[str, float]]:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip("\n"), time.monotonic()

    def _await_fold(self, process: "subprocess.Popen[str]") -> None:
        """Wait until DuckDB writes: its log grows in the middle of a fold."""
        before = self._logged()
        for _ in range(self.chance.randint(1, 5)):
            while self._logged() == before and process.poll() is None:
                time.sleep(LOOK)
            before = self._logged()

    def _logged(self) -> int:
        log = self.folder / "lab.duckdb.wal"
        return log.stat().st_size if log.exists() else 0


def broken(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Sentence of invariants.sql -> rows of the archive that break it."""
    questions = re.split(r"^-- name: (.+)\n", (HERE / "invariants.sql").read_text("utf-8"), flags=re.MULTILINE)[1:]
    with duckdb.connect(str(folder / "lab.duckdb"), read_only=True) as archive:
        for table, columns in {
            "heard": {
                "pid": "bigint",
                "turn_id": "varchar",
                "sequence": "bigint",
                "type": "varchar",
                "version": "bigint",
            },
            "effects": {"key": "varchar"},
        }.items():
            archive.execute(
                f"create temp table {table} as from read_csv($pages, columns = {columns}, delim = ' ', header = false)",
                {"pages": str(folder / f"{table}*")},
            )
        answers = {
            sentence: archive.execute(question).fetchmany(5)
            for sentence, question in zip(questions[::2], questions[1::2], strict=True)
        }
    return {sentence: rows for sentence, rows in answers.items() if rows}


def at_rest(folder: Path) -> list[str]:
    """The files of the lab or the record."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(("lab.", "record.")))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(-(-KILLS // IN_ONE_LIFE)))
@pytest.mark.parametrize("kind", ["lab", "record"])
def test_a_killed_kernel_loses_nothing_and_does_nothing_twice(
    kind: str, number: int, tmp_path: Path, figures: dict[str, Counter[str]]
):
    """P17, P5, K31, K32, I1 to I7: after each kill a new process finishes every turn; what was heard is on record."""
    life = Life(kind, tmp_path, random.Random(f"{SEED} {number}"))
    places = [place for place in PLACES if kind == "lab" or place != "while it folds"]
    share = min(IN_ONE_LIFE, KILLS - number * IN_ONE_LIFE)
    kills = (
        share if kind == "lab" else -(-share // 4)
    )  # the lab holds a record, so the record alone is killed less often
    life.run("live.py", "0")
    life.mend()
    killed = tries = 0

    while killed < kills:
        place = places[(4 * number + tries) % len(places)]
        tries += 1
        assert tries < 3 * kills + 10, f"only {killed} of {tries} attempts hit the process while it lived"
        if not life.end(place):
            continue
        killed += 1
        life.mend()
        life.put_away(killed)
        if kind == "lab":
            assert at_rest(tmp_path) == ["lab.duckdb"]
            assert broken(tmp_path) == {}

    life.take_back()
    life.mend()
    figures[kind] += life.counts + Counter({"kills": killed})
