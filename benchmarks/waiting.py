"""What a turn costs while it waits for an answer: threads and memory, for many of them in one kernel.

python benchmarks/waiting.py [how many, 10,000 by default]
"""

import gc
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import agentflex_nb as af
import psutil
from agentflex_nb.core.model import Finish, ModelDelta, ToolCallDelta


@af.tool(approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


class Model:
    """Asks for a refund, and keeps nothing; a ScriptedModel keeps every request, for tests."""

    name = "asks"

    def stream(self, request: af.ModelRequest) -> Iterator[ModelDelta]:
        yield ToolCallDelta(index=0, id="c", name="refund", arguments='{"order": "O-1"}')
        yield Finish(reason="tool_calls")


def resident() -> int:
    """Bytes of memory that the process has, databases included."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def main(count: int = 10_000) -> None:
    """Let so many turns wait, and tell what they cost."""
    agent = af.Agent("desk", model=Model(), tools=[refund])
    with (
        tempfile.TemporaryDirectory() as folder,
        af.Lab(Path(folder) / "lab.duckdb", display=False, durability="process") as lab,
    ):
        for _ in range(200):
            lab.run(agent, "Refund it.")
        lab.turns(limit=1)
        threads, before = threading.active_count(), resident()
        tracemalloc.start()
        turns = [lab.run(agent, "Refund it.") for _ in range(count)]
        lab.turns(limit=1)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        assert all(turn.status == "WAITING_FOR_APPROVAL" for turn in turns)
        more = threading.active_count() - threads
        del turns
        gc.collect()
        dropped, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"{count:,} waiting turns, {more} threads more")
        print(
            f"Python objects: {kept / count / 1000:.1f} kB a turn whose handle is kept, "
            f"{dropped / count / 1000:.1f} without"
        )
        print(f"the whole process, with its databases: {(resident() - before) / count / 1000:.1f} kB a turn")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
