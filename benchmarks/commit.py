"""What one commit costs beside a plain write of the same bytes, and how many fit into a second when many turns commit.

    python benchmarks/commit.py [--rounds 5] [--commits 200]

A commit is a state of 2 kB and ten events (TS1). Plain writes and commits take turns, so both meet the same disk.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentflex_nb import AgentEvent, AgentExecutionPolicy, AgentStatus, EventType, SqliteStore, Turn
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.turn import TurnIdentity
from agentflex_nb.store.codec import encode_events, encode_turn

from machine import calibration_ms, load, quantile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS, STATE_BYTES = 10, 2_000
WIDTHS = (1, 16, 100)


def opened(name: str) -> Turn:
    """A turn that has not been saved, and that will take 2 kB."""
    identity = TurnIdentity(
        id=name, root_turn_id=name, agent_id="bench", agent_version="1", created_at=NOW, policy=AgentExecutionPolicy()
    )
    turn = Turn(identity=identity, status=AgentStatus.RUNNING)
    padding = "x" * (STATE_BYTES - len(encode_turn(turn).state))
    return replace(turn, identity=replace(identity, metadata=FrozenDict(padding=padding)))


def following(turn: Turn) -> tuple[Turn, list[AgentEvent]]:
    """Its next version, and the events that led to it."""
    events = [
        AgentEvent(
            turn_id=turn.id, root_turn_id=turn.id, parent_turn_id=None, agent_id="bench", agent_version="1",
            sequence=turn.sequence + number, type=EventType.TOOL_PROGRESS, occurred_at=NOW,
            data=FrozenDict(status="RUNNING", phase="TOOLS", step_count=1, max_steps=100, message="word " * 15),
        )
        for number in range(1, EVENTS + 1)
    ]  # fmt: skip
    return replace(turn, version=turn.version + 1, sequence=turn.sequence + EVENTS), events


def timed(work: Callable[..., object], *args: Any, **kwargs: Any) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work(*args, **kwargs)
    return time.perf_counter() - began


def write(file: int, text: bytes) -> None:
    """Durably, and nothing else."""
    os.write(file, text)
    os.fdatasync(file)


def one_at_a_time(durability: str, commits: int) -> tuple[list[float], list[float]]:
    """Seconds of plain writes, and of commits."""
    raw, kept = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "record.sqlite"), durability)
        plain = os.open(Path(folder, "plain"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        turn = opened("t1")
        for _ in range(commits):
            newer, events = following(turn)
            text = (encode_turn(newer).state + encode_events(events)).encode()
            raw.append(timed(write, plain, text))
            kept.append(timed(store.commit, newer, events, expected=turn.version, reserved=newer.sequence))
            turn = newer
        os.close(plain)
        store.close()
    return raw, kept


def at_once(width: int, commits: int) -> float:
    """Commits a second at "power" when so many turns commit at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "record.sqlite"), "power")

        def work(name: str) -> None:
            turn = opened(name)
            for _ in range(max(commits // width, 2)):
                newer, events = following(turn)
                store.commit(newer, events, expected=turn.version, reserved=newer.sequence)
                turn = newer

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(width)]

        def run() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        seconds = timed(run)
        store.close()
    return max(commits // width, 2) * width / seconds


def main() -> None:
    """Measure, and say what was wanted."""
    parser = argparse.ArgumentParser(description="What one commit costs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commits", type=int, default=200)
    given = parser.parse_args()
    beyond: dict[str, list[float]] = {"power": [], "process": []}
    halves: dict[str, list[float]] = {"raw": [], "power": [], "process": []}
    rates: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for number in range(given.rounds):
        print(f"- load {load():.1f}, calibration {calibration_ms():.1f} ms", file=sys.stderr)
        for durability in beyond:
            raw, kept = one_at_a_time(durability, given.commits)
            beyond[durability].append(statistics.median(kept) - statistics.median(raw))
            halves[durability].append(statistics.median(kept))
            halves["raw"].append(statistics.median(raw))
            print(f"  round {number + 1}, {durability}: p99 {quantile(kept, 0.99) * 1e3:.2f} ms", file=sys.stderr)
        for width in WIDTHS:
            rates[width].append(at_once(width, given.commits * 3))
    for what, seconds in halves.items():
        print(f"p50 of {'write and fdatasync' if what == 'raw' else f'a commit, {what}'}: {median_ms(seconds):.3f} ms")
    found = median_ms(beyond["power"])
    print(f"TS1: a commit at power takes {found:.3f} ms more than the plain write (wanted: at most 0.6)")
    print(f"TS1: a commit at process takes {median_ms(halves['process']):.3f} ms (wanted: under 0.2)")
    alone = statistics.median(rates[1])
    for width in WIDTHS[1:]:
        times = statistics.median(many / one for many, one in zip(rates[width], rates[1], strict=True))
        wanted = {16: 4, 100: 6}[width]
        print(f"TS2: {width} turns at a time, {times:.1f} times the {alone:.0f} commits/s of one (wanted: {wanted})")


def median_ms(seconds: list[float]) -> float:
    """In milliseconds."""
    return statistics.median(seconds) * 1e3


if __name__ == "__main__":
    main()
