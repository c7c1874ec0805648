"""PydanticAI: bare | sqlite (it has no store of its own: all messages as JSON in SQLite, a commit a turn)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

import workloads as wl

UNLIMITED = UsageLimits(request_limit=None)


def at_once(calls: int) -> FunctionModel:
    async def reply(messages: list[Any], _: Any) -> ModelResponse:
        number = len(messages) // 2  # the question, then two messages a call
        more = number < calls
        part = ToolCallPart(wl.TOOL, wl.arguments(number), f"call_{number}") if more else TextPart(wl.ANSWER)
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=100, output_tokens=20))

    return FunctionModel(reply)


async def in_pieces(messages: list[Any], _: Any) -> AsyncIterator[str]:
    for piece in wl.PIECES:
        yield piece


class PydanticAI(wl.Subject):
    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        self.agents: dict[int, Any] = {}
        self.file = self.open() if variant == "sqlite" else None

    def open(self) -> sqlite3.Connection:
        file = sqlite3.connect(self.folder / "turns.sqlite")
        file.execute("pragma journal_mode = wal")
        file.execute("create table if not exists turns(id integer primary key, messages blob)")
        return file

    def agent(self, calls: int, approval: bool = False) -> Any:
        outputs = [str, DeferredToolRequests] if approval else str
        made = Agent(at_once(calls), instructions=wl.INSTRUCTIONS, output_type=outputs)

        @made.tool_plain(name=wl.TOOL, requires_approval=approval)
        async def gauge(river: str, rows: int) -> str:
            """Read what a gauge of a river has measured."""
            return self.gauge(river, rows)

        return made

    async def one(self, calls: int) -> None:
        if calls not in self.agents:
            self.agents[calls] = self.agent(calls)
        result = await self.agents[calls].run(wl.QUESTION, usage_limits=UNLIMITED)
        assert result.output == wl.ANSWER
        if self.file:
            self.file.execute("insert into turns(messages) values (?)", (result.all_messages_json(),))
            self.file.commit()

    def turns(self, count: int, calls: int) -> None:
        async def run() -> None:
            for _ in range(count):
                await self.one(calls)

        asyncio.run(run())

    def stream(self) -> None:
        async def run() -> int:
            agent = Agent(FunctionModel(stream_function=in_pieces), instructions=wl.INSTRUCTIONS)
            async with agent.run_stream_events(wl.QUESTION) as events:
                return sum([isinstance(event, PartDeltaEvent | PartStartEvent) async for event in events])

        assert asyncio.run(run()) >= len(wl.PIECES)

    def approve(self) -> None:
        if self.variant != "sqlite":
            raise wl.NotOffered

        async def run() -> None:
            asked = await self.agent(1, approval=True).run(wl.QUESTION, usage_limits=UNLIMITED)
            file = self.open()
            row = file.execute("insert into turns(messages) values (?)", (asked.all_messages_json(),)).lastrowid
            file.commit()
            file.close()
            file = self.open()
            history = file.execute("select messages from turns where id = ?", (row,)).fetchone()[0]
            answers = DeferredToolResults(approvals={call.tool_call_id: True for call in asked.output.approvals})
            result = await self.agent(1, approval=True).run(
                message_history=ModelMessagesTypeAdapter.validate_json(history), deferred_tool_results=answers,
                usage_limits=UNLIMITED,
            )  # fmt: skip
            assert result.output == wl.ANSWER
            file.execute("update turns set messages = ? where id = ?", (result.all_messages_json(), row))
            file.commit()
            file.close()

        asyncio.run(run())

    def together(self, count: int) -> None:
        async def run() -> None:
            room = asyncio.Semaphore(wl.WIDTH)

            async def in_turn() -> None:
                async with room:
                    await self.one(1)

            await asyncio.gather(*(in_turn() for _ in range(count)))

        asyncio.run(run())

    def close(self) -> None:
        if self.file:
            self.file.close()


if __name__ == "__main__":
    wl.serve(PydanticAI)
