"""This package: memory | record-process | record-power | lab-process | lab-power.

`record` is the SQLite record of live turns alone, `lab` all of it: what was committed is folded into the DuckDB file
before a measurement ends.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import agentflex_nb as af
from agentflex_nb.store.lab_store import LabStore

import workloads as wl

USAGE = af.UsageDelta(af.Usage(input_tokens=100, output_tokens=20))


class Model:
    """Asks for so many calls, one a round, and then answers, in one piece or in many."""

    name = "at once"

    def __init__(self, calls: int, pieces: list[str]) -> None:
        self._calls, self._pieces = calls, pieces

    def stream(self, request: af.ModelRequest) -> Iterator[Any]:
        number = request.iteration - 1
        if number < self._calls:
            yield af.ToolCallDelta(0, f"call_{number}", wl.TOOL, json.dumps(wl.arguments(number)))
            yield USAGE
            yield af.Finish(reason="tool_calls")
            return
        for piece in self._pieces:
            yield af.TextDelta(piece)
        yield USAGE
        yield af.Finish(reason="stop")


class Us(wl.Subject):
    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        kind, _, durability = variant.partition("-")
        self.store: Any = {
            "memory": lambda: af.MemoryStore(),
            "record": lambda: af.SqliteStore(folder / "record.sqlite", durability),
            "lab": lambda: LabStore(folder / "lab.duckdb", durability),
        }[kind]()
        self.is_lab = kind == "lab"
        self.heard = 0
        self.runner = self.new_runner(af.AgentRunnerOptions())
        self.unjoined = self.new_runner(af.AgentRunnerOptions(text_beat=0))  # each piece is an event of its own
        self.agents: dict[Any, af.Agent] = {}

    def new_runner(self, options: af.AgentRunnerOptions) -> af.AgentRunner:
        return af.AgentRunner(self.store, listeners=[self.hear], options=options)

    def hear(self, event: af.AgentEvent) -> None:
        self.heard += 1

    def agent(self, calls: int, pieces: tuple[str, ...] = (wl.ANSWER,), approval: bool = False) -> af.Agent:
        key = calls, len(pieces), approval
        if key not in self.agents:

            def gauge(river: str, rows: int) -> str:
                return self.gauge(river, rows)

            self.agents[key] = af.Agent(
                "-".join(map(str, key)),
                instructions=wl.INSTRUCTIONS,
                model=Model(calls, list(pieces)),
                tools=[af.tool(name=wl.TOOL, description=wl.TOOL_MEANING, approval=approval)(gauge)],
                execution_policy=af.AgentExecutionPolicy(max_iterations=0, max_steps=0),
            )
        return self.agents[key]

    def turns(self, count: int, calls: int) -> None:
        agent = self.agent(calls)
        for _ in range(count):
            assert self.runner.run(agent, wl.QUESTION).text == wl.ANSWER

    def stream(self) -> None:
        self.heard = 0
        turn = self.unjoined.run(self.agent(0, tuple(wl.PIECES)), wl.QUESTION)
        assert turn.text == "".join(wl.PIECES)
        assert self.heard > len(wl.PIECES)

    def approve(self) -> None:
        if self.variant == "memory":
            raise wl.NotOffered
        agent = self.agent(1, approval=True)
        id = self.runner.run(agent, wl.QUESTION).id
        fresh = self.new_runner(af.AgentRunnerOptions())
        fresh.loader.register(agent)
        assert fresh.restore(id).approve().text == wl.ANSWER

    def together(self, count: int) -> None:
        with ThreadPoolExecutor(wl.WIDTH) as threads:
            for turn in [threads.submit(self.runner.run, self.agent(1), wl.QUESTION) for _ in range(count)]:
                assert turn.result().text == wl.ANSWER

    def settle(self) -> None:
        if self.is_lab:
            assert self.store.archive

    def close(self) -> None:
        self.store.close()


if __name__ == "__main__":
    wl.serve(Us)
