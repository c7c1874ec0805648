"""OpenAI Agents SDK, tracing off: bare | sqlite (SQLiteSession)."""

import asyncio
import json
import os
import sqlite3
from itertools import count as counting
from pathlib import Path
from typing import Any

os.environ["OPENAI_API_KEY"] = "none"

from agents import Agent, ModelResponse, Runner, RunState, SQLiteSession, function_tool, set_tracing_disabled
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

import workloads as wl

set_tracing_disabled(True)
MANY = 1_000


def message(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="msg", type="message", role="assistant", status="completed", content=[part])


class AtOnce(Model):
    def __init__(self, calls: int) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        number = 0 if isinstance(input, str) else len(input) // 2  # the question, then two items a call
        output: Any = message(wl.ANSWER)
        if number < self.calls:
            output = ResponseFunctionToolCall(
                id=f"fc_{number}", call_id=f"call_{number}", type="function_call", name=wl.TOOL,
                arguments=json.dumps(wl.arguments(number)),
            )  # fmt: skip
        usage = Usage(requests=1, input_tokens=100, output_tokens=20, total_tokens=120)
        return ModelResponse(output=[output], usage=usage, response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> Any:
        for number, piece in enumerate(wl.PIECES):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta", content_index=0, delta=piece, item_id="msg", output_index=0,
                sequence_number=number, logprobs=[],
            )  # fmt: skip
        whole = Response(
            id="resp", created_at=0, model="at once", object="response", output=[message("".join(wl.PIECES))],
            tool_choice="auto", tools=[], parallel_tool_calls=False, top_p=None,
        )  # fmt: skip
        yield ResponseCompletedEvent(type="response.completed", sequence_number=len(wl.PIECES), response=whole)


class OpenAIAgents(wl.Subject):
    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        self.agents: dict[int, Agent] = {}
        self.sessions = counting()

    def agent(self, calls: int, approval: bool = False) -> Agent:
        @function_tool(name_override=wl.TOOL, description_override=wl.TOOL_MEANING, needs_approval=approval)
        async def gauge(river: str, rows: int) -> str:
            return self.gauge(river, rows)

        return Agent(name="bench", instructions=wl.INSTRUCTIONS, model=AtOnce(calls), tools=[gauge])

    async def one(self, calls: int) -> None:
        if calls not in self.agents:
            self.agents[calls] = self.agent(calls)
        session = None
        if self.variant == "sqlite":
            session = SQLiteSession(str(next(self.sessions)), self.folder / "sessions.sqlite")
        result = await Runner.run(self.agents[calls], wl.QUESTION, max_turns=MANY, session=session)
        assert result.final_output == wl.ANSWER
        if session:
            session.close()

    def turns(self, count: int, calls: int) -> None:
        async def run() -> None:
            for _ in range(count):
                await self.one(calls)

        asyncio.run(run())

    def stream(self) -> None:
        if self.variant != "bare":
            raise wl.NotOffered

        async def run() -> int:
            result = Runner.run_streamed(Agent(name="bench", model=AtOnce(0)), wl.QUESTION)
            raw = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
            return raw.count("response.output_text.delta")

        assert asyncio.run(run()) == len(wl.PIECES)

    def approve(self) -> None:
        if self.variant != "sqlite":
            raise wl.NotOffered

        def connect() -> sqlite3.Connection:
            file = sqlite3.connect(self.folder / "states.sqlite")
            file.execute("pragma journal_mode = wal")
            file.execute("create table if not exists states(id integer primary key, state text)")
            return file

        async def run() -> None:
            asked = await Runner.run(self.agent(1, approval=True), wl.QUESTION)
            file = connect()
            row = file.execute("insert into states(state) values (?)", (asked.to_state().to_string(),)).lastrowid
            file.commit()
            file.close()
            file, agent = connect(), self.agent(1, approval=True)
            text = file.execute("select state from states where id = ?", (row,)).fetchone()[0]
            state = await RunState.from_string(agent, text)
            for interruption in state.get_interruptions():
                state.approve(interruption)
            result = await Runner.run(agent, state)
            assert result.final_output == wl.ANSWER
            file.execute("update states set state = ? where id = ?", (result.to_state().to_string(), row))
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


if __name__ == "__main__":
    wl.serve(OpenAIAgents)
