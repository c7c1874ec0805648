"""What a turn costs, here and in other runtimes, measured in turn within each round.

    python benchmarks/turns.py [--rounds 5] [--peers FOLDER] [--peer NAME=PYTHON] [--workloads WL2,WL3]

FOLDER (or AGENTFLEX_PEERS) holds a virtual environment a peer, named as in PEERS; README.md says how to make them.
CPU time of the whole process; ratios are taken within a round, and the median over the rounds is told.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from machine import calibration_ms, load

HERE = Path(__file__).parent
OURS = ("memory", "record-process", "record-power", "lab-process", "lab-power")
PEERS = {
    "langgraph": ("bare", "sqlite"),
    "pydantic_ai": ("bare", "sqlite"),
    "openai_agents": ("bare", "sqlite"),
    "inspect": ("log", "quiet"),
    "smolagents": ("bare",),
}
# workload -> turns in one repeat of a measurement
COUNTS = {"WL1": 20, "WL2": 20, "WL3": 3, "WL4": 1, "WL5": 5, "WL6": 64, "WL8": 1}
# target, workload, ours, peers -> how many times faster it shall be, or how many microseconds a piece it may take
TARGETS = [
    ("TR1", "WL2", "memory", "all", 7),
    ("TR1", "WL3", "memory", "smolagents", 2),
    ("TR1", "WL3", "memory", "all but smolagents", 20),
    ("TR2", "WL2", "lab-power", "langgraph sqlite", 3),
    ("TR2", "WL3", "lab-power", "langgraph sqlite", 5),
    ("TR2", "WL6", "lab-power", "langgraph sqlite", 4),
    ("TR2", "WL3", "lab-process", "langgraph sqlite", 8),
    ("TR3", "WL8", "lab-power", "langgraph sqlite", 12),
    ("TR5", "WL5", "lab-power", "all", 2),
]

Results = dict[str, dict[str, list[dict[str, float]]]]  # workload -> subject -> one answer a round


@contextmanager
def subject(python: str, script: str, variant: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that measures one runtime, from now until the block ends."""
    process = subprocess.Popen(
        [python, str(HERE / script), variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.stdin:
            process.stdin.close()
        process.wait()


def ask(process: "subprocess.Popen[str]", **question: Any) -> dict[str, float]:
    """One measurement; {} where the runtime has nothing like it."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(question), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args} ended with {process.wait()} at {question}")
    answer: dict[str, float] = json.loads(line)
    return answer


def measure(pythons: dict[str, str], workloads: list[str], rounds: int) -> tuple[Results, list[str]]:
    """All answers, and what the machine was like in each round."""
    results: defaultdict[str, defaultdict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    weather = []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        subjects = {
            f"ours {variant}": stack.enter_context(subject(sys.executable, "with_us.py", variant)) for variant in OURS
        }
        for peer, python in pythons.items():
            for variant in PEERS[peer]:
                subjects[f"{peer} {variant}"] = stack.enter_context(subject(python, f"with_{peer}.py", variant))
        for number in range(rounds):
            weather.append(f"load {load():.1f}, calibration {calibration_ms():.1f} ms")
            print(f"round {number + 1}: {weather[-1]}", file=sys.stderr, flush=True)
            for workload in workloads:
                order = list(subjects)
                random.Random(number).shuffle(order)
                for name in order:
                    answer = ask(subjects[name], workload=workload, count=COUNTS[workload], folder=folder)
                    if answer:
                        results[workload][name].append(answer)
    return {workload: dict(answers) for workload, answers in results.items()}, weather


def median(answers: list[dict[str, float]], what: str = "cpu_ms") -> float:
    """Over the rounds."""
    return statistics.median(answer[what] for answer in answers)


def ratio(answers: dict[str, list[dict[str, float]]], slow: str, fast: str) -> float:
    """How many times faster, compared within each round."""
    return statistics.median(
        one["cpu_ms"] / other["cpu_ms"] for one, other in zip(answers[slow], answers[fast], strict=True)
    )


def report(results: Results) -> Iterator[str]:
    """The tables, as Markdown."""
    known = {name for answers in results.values() for name in answers}
    names = sorted(known, key=lambda name: (not name.startswith("ours"), name))
    yield from table("CPU ms a turn", results, names, "cpu_ms", 1)
    yield from table("kB written a turn", results, names, "written", 1e3)
    if "WL4" in results:
        pieces = [f"{name} {median(answers) / 2:.1f}" for name, answers in results["WL4"].items()]  # 2,000 of them
        yield f"WL4, µs a piece: {', '.join(pieces)}\n"
    if "WL8" in results:
        grown = [f"{name} {median(answers, 'growth'):.2f}" for name, answers in results["WL8"].items()]
        yield f"WL8, the last twenty steps in terms of the first twenty: {', '.join(grown)}\n"
    yield "| target | workload | ours | nearest peer | times faster | wanted | |\n|---|---|---|---|---|---|---|"
    for target, workload, ours, peers, wanted in TARGETS:
        answers = results.get(workload, {})
        rivals = [name for name in answers if not name.startswith("ours") and matches(peers, name)]
        if f"ours {ours}" in answers and rivals:
            nearest = min(rivals, key=lambda name: ratio(answers, name, f"ours {ours}"))
            found = ratio(answers, nearest, f"ours {ours}")
            verdict = "reached" if found >= wanted else "**not reached**"
            yield f"| {target} | {workload} | {ours} | {nearest} | {found:.1f} | {wanted} | {verdict} |"


def table(head: str, results: Results, names: list[str], what: str, unit: float) -> Iterator[str]:
    """Medians, a row a subject and a column a workload."""
    yield f"| {head} | {' | '.join(results)} |\n{'|---' * (len(results) + 1)}|"
    for name in names:
        cells = [f"{median(answers[name], what) / unit:.3g}" if name in answers else "" for answers in results.values()]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def matches(peers: str, name: str) -> bool:
    """Whether a subject is among those that a target names."""
    if peers.startswith("all"):
        return not (peers == "all but smolagents" and name.startswith("smolagents"))
    return name.startswith(peers)


def main() -> None:
    """Measure, and say what was wanted."""
    parser = argparse.ArgumentParser(description="What a turn costs, here and in other runtimes.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workloads", default=",".join(COUNTS))
    parser.add_argument("--peers", default=os.environ.get("AGENTFLEX_PEERS", ""), help="folder of virtual environments")
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON, for one peer", metavar="NAME=PYTHON")
    parser.add_argument("--out", type=Path, help="where to keep all measurements, as JSON")
    given = parser.parse_args()

    found = {name: Path(given.peers, name, "bin", "python") for name in PEERS} if given.peers else {}
    pythons = {name: str(python) for name, python in found.items() if python.exists()}
    pythons |= dict(one.split("=", 1) for one in given.peer)
    if missing := set(PEERS) - set(pythons):
        print(f"not measured, for want of an environment: {', '.join(sorted(missing))}", file=sys.stderr)
    results, weather = measure(pythons, given.workloads.split(","), given.rounds)
    if given.out:
        given.out.write_text(json.dumps({"weather": weather, "results": results}, indent=1), "utf-8")
    print("\n".join([*(f"- {line}" for line in weather), "", *report(results)]))


if __name__ == "__main__":
    main()
