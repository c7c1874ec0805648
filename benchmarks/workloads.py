"""What every runtime is asked to do, in the same words, with a model that answers at once. Standard library only.

    WL1  one answer
    WL2  one tool call, then the answer
    WL3  twenty tool calls, one after another, then the answer
    WL4  an answer in 2,000 pieces, counted as they come
    WL5  a call that needs an approval: suspended, saved, loaded into fresh objects, approved, finished
    WL6  many WL2, sixteen at a time
    WL8  two hundred tool calls

A script of this folder that knows one runtime makes a `Subject` of it and gives it to `serve`: its process measures
what the standard input tells it to, so that all runtimes can be measured in turn, within seconds of one another.
"""

import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import Reading

INSTRUCTIONS = (
    "You answer questions about rivers. Look every figure up before you use it, and name your sources in one sentence."
)
QUESTION = (
    "Which of these rivers carries the most water at its mouth, and how much more than the second one? Name the gauges."
)
ANSWER = (
    "River 4 carries the most: 6,200 cubic metres a second at the gauge of its delta, 1,900 more than river 2. "
    "Both figures are means of thirty years, read from the rows of the two gauges named in the table."
)
TOOL, TOOL_MEANING = "gauge", "Read what a gauge of a river has measured."
PIECES = [f"word{number:04d} " for number in range(2_000)]
WIDTH = 16
CALLS = {"WL1": 0, "WL2": 1, "WL3": 20, "WL8": 200}


def arguments(number: int) -> dict[str, Any]:
    """Of the tool call with this number."""
    return {"river": f"river {number}", "rows": 3}


def read_gauge(river: str, rows: int) -> str:
    """The tool's result, about 200 characters."""
    measured = ", ".join(
        f'{{"year": {1990 + row}, "flow": {4_000 + 37 * row}, "gauge": "mouth"}}' for row in range(rows)
    )
    return f'{{"river": "{river}", "unit": "m3/s", "mean_of_years": 30, "rows": [{measured}]}}'


class NotOffered(Exception):
    """This runtime has nothing like it, or it would be the same as in another variant."""


class Subject:
    """A runtime in one way of keeping its turns. Every turn is a new conversation of an agent made beforehand."""

    least_cpu = 0.5
    """Seconds of CPU time that a measurement takes at least; a shorter one tells more of the machine."""

    def __init__(self, variant: str, folder: Path) -> None:
        self.variant, self.folder = variant, folder
        self.marks: list[float] = []
        self.marking = False

    def gauge(self, river: str, rows: int) -> str:
        """What the tool does; it notes when it is called, where the growth of a turn's cost is asked for."""
        if self.marking:
            self.marks.append(time.process_time())
        return read_gauge(river, rows)

    def turns(self, count: int, calls: int) -> None:
        """Run so many turns one after another, each with so many tool calls, and check the answers."""
        raise NotOffered

    def stream(self) -> None:
        """WL4 once; check that every piece came."""
        raise NotOffered

    def approve(self) -> None:
        """WL5 once."""
        raise NotOffered

    def together(self, count: int) -> None:
        """WL6 with so many turns."""
        raise NotOffered

    def settle(self) -> None:
        """Wait until everything is stored that will be."""

    def close(self) -> None:
        """Let go of files."""

    def measure(self, workload: str, count: int) -> dict[str, float]:
        """CPU and wall time in ms and bytes written, each a turn."""
        if workload == "WL8":
            return self._grow()
        work = self._work(workload, count)
        work()
        self.settle()
        gc.collect()
        before, repeats = Reading.now(), 0
        while repeats == 0 or Reading.now().since(before).cpu < self.least_cpu:
            work()
            repeats += 1
        self.settle()
        used = Reading.now().since(before)
        return per_turn(used, repeats * count)

    def _work(self, workload: str, count: int) -> Callable[[], None]:
        if workload in CALLS:
            return lambda: self.turns(count, CALLS[workload])
        if workload == "WL6":
            return lambda: self.together(count)
        once = self.stream if workload == "WL4" else self.approve
        return lambda: [once() for _ in range(count)] and None

    def _grow(self) -> dict[str, float]:
        self.turns(1, CALLS["WL2"])
        gc.collect()
        self.marks, self.marking = [], True
        before = Reading.now()
        self.turns(1, CALLS["WL8"])
        self.settle()
        used, self.marking = Reading.now().since(before), False
        return per_turn(used, 1) | {"growth": growth(self.marks)}


def per_turn(used: Reading, count: int) -> dict[str, float]:
    """A reading over so many turns."""
    return {"cpu_ms": used.cpu / count * 1e3, "wall_ms": used.wall / count * 1e3, "written": used.written / count}


def growth(marks: list[float]) -> float:
    """What the last twenty steps cost, in terms of the first twenty."""
    steps = [after - before for before, after in pairwise(marks)]
    return statistics.median(steps[-20:]) / statistics.median(steps[:20])


def serve(make: Callable[[str, Path], Subject]) -> None:
    """Measure what is asked for, a line of JSON each, until the input ends: variant (argument 1), workload, count."""
    variant = sys.argv[1]
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a runtime prints is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=asked["folder"]))
        subject = make(variant, folder)
        try:
            answer: dict[str, Any] = subject.measure(asked["workload"], asked["count"])
        except NotOffered:
            answer = {}
        finally:
            subject.close()
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(answer), file=answers, flush=True)
