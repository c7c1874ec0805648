"""What an import costs, how much memory is in use after it, and what must be installed.

python benchmarks/footprint.py [--runs 7] [--peers FOLDER] [--peer langgraph=PYTHON]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

from machine import calibration_ms, load

# what is imported -> the statements; a name of ours is loaded when it is first touched
OURS = {
    "agentflex_nb": "import agentflex_nb",
    "agentflex_nb, an agent run in memory": (
        "from agentflex_nb import Agent, AgentRunner, MemoryStore, ScriptedModel, tool"
    ),
    "agentflex_nb, an agent run on SQLite": (
        "from agentflex_nb import Agent, AgentRunner, ScriptedModel, SqliteStore, tool"
    ),
    "agentflex_nb, a lab": "from agentflex_nb import Agent, Lab, ScriptedModel, tool",
}
THEIRS = {
    "langgraph": "from langchain.agents import create_agent; from langgraph.checkpoint.sqlite import SqliteSaver",
    "pydantic_ai": "from pydantic_ai import Agent",
    "openai_agents": "from agents import Agent, Runner, SQLiteSession",
    "inspect": "from inspect_ai import Task, eval; from inspect_ai.agent import react",
    "smolagents": "from smolagents import ToolCallingAgent",
}
PROBE = """
import time
began = time.process_time()
{statement}
took = time.process_time() - began
from pathlib import Path
resident = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line)
print(took * 1000, resident / 1024)
"""


def probe(python: str, statement: str) -> tuple[float, float]:
    """CPU ms of the import, and MB in use after it."""
    code = PROBE.format(statement=statement)
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return float(told[0]), float(told[1])


def core_dependencies() -> list[str]:
    """Names of the packages that an installation without extras asks for."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    return sorted(re.split(r"[\[<>=;~! ]", line)[0] for line in project["dependencies"])


def main() -> None:
    """Measure, and say what was wanted."""
    parser = argparse.ArgumentParser(description="What an import costs.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--peers", default=os.environ.get("AGENTFLEX_PEERS", ""), help="folder of virtual environments")
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON, for one peer", metavar="NAME=PYTHON")
    given = parser.parse_args()

    pythons = {name: Path(given.peers, name, "bin", "python") for name in THEIRS} if given.peers else {}
    known = {name: str(python) for name, python in pythons.items() if python.exists()}
    known |= dict(one.split("=", 1) for one in given.peer)
    rows = [(name, sys.executable, statement) for name, statement in OURS.items()]
    rows += [(name, python, THEIRS[name]) for name, python in known.items()]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in rows}
    for _, python, statement in rows:
        probe(python, statement)  # once unmeasured: byte code is written, files are in the cache
    for _ in range(given.runs):
        for name, python, statement in rows:
            found[name].append(probe(python, statement))

    print(f"load {load():.1f}, calibration {calibration_ms():.1f} ms\n")
    print("| import | CPU ms | MB |\n|---|---|---|")
    for name, runs in found.items():
        cpu, memory = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"| {name} | {cpu:.0f} | {memory:.0f} |")
    if "langgraph" in found:
        print()
        for name in OURS:
            share = statistics.median(
                ours[0] / theirs[0] for ours, theirs in zip(found[name], found["langgraph"], strict=True)
            )
            print(f"TR7: {name}: {share:.2f} of LangGraph's import (wanted: under 0.25)")
    dependencies = core_dependencies()
    print(f"\n{len(dependencies)} dependencies of the core: {', '.join(dependencies)}")


if __name__ == "__main__":
    main()
