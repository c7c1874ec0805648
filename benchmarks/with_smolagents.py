"""smolagents, ToolCallingAgent, nothing printed or stored: bare. Each answer is a call of its final_answer tool."""

import io
import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from rich.console import Console
from smolagents import ChatMessage, LogLevel, Model, Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    TokenUsage,
)

import workloads as wl


class AtOnce(Model):
    def __init__(self, calls: int) -> None:
        super().__init__(model_id="at once")
        self.calls = calls

    def wanted(self, number: int) -> Any:
        last = number >= self.calls
        name, given = ("final_answer", {"answer": wl.ANSWER}) if last else (wl.TOOL, wl.arguments(number))
        function = ChatMessageToolCallFunction(name=name, arguments=given)
        return ChatMessageToolCall(id=f"call_{number}", type="function", function=function)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        call = self.wanted(len(messages) // 2 - 1)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call], token_usage=TokenUsage(100, 20))

    def generate_stream(self, messages: Any, **_: Any) -> Any:
        for piece in wl.PIECES:
            yield ChatMessageStreamDelta(content=piece)
        call = self.wanted(0)
        call.function.arguments = json.dumps(call.function.arguments)
        delta = ChatMessageToolCallStreamDelta(index=0, id=call.id, type="function", function=call.function)
        yield ChatMessageStreamDelta(content="", tool_calls=[delta], token_usage=TokenUsage(100, 20))


class Smolagents(wl.Subject):
    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        subject = self

        class Gauge(Tool):
            name, description, output_type = wl.TOOL, wl.TOOL_MEANING, "string"
            inputs = {  # noqa: RUF012 - the library asks for a plain dict
                "river": {"type": "string", "description": "its name"},
                "rows": {"type": "integer", "description": "how many"},
            }

            def forward(self, river: str, rows: int) -> str:
                return subject.gauge(river, rows)

        self.tool, self.here = Gauge(), threading.local()  # an agent holds its own history: one a thread

    def agent(self, calls: int, **more: Any) -> Any:
        agents = self.here.__dict__
        if calls not in agents:
            made = agents[calls] = ToolCallingAgent(
                tools=[self.tool], model=AtOnce(calls), instructions=wl.INSTRUCTIONS, max_steps=1_000,
                verbosity_level=LogLevel.OFF, **more,
            )  # fmt: skip
            made.logger.console = Console(file=io.StringIO())  # it draws streamed text even so
        return agents[calls]

    def turns(self, count: int, calls: int) -> None:
        for _ in range(count):
            assert self.agent(calls).run(wl.QUESTION) == wl.ANSWER

    def stream(self) -> None:
        events = self.agent(0, stream_outputs=True).run(wl.QUESTION, stream=True)
        pieces = sum(isinstance(event, ChatMessageStreamDelta) and bool(event.content) for event in events)
        assert pieces == len(wl.PIECES)

    def together(self, count: int) -> None:
        with ThreadPoolExecutor(wl.WIDTH) as threads:
            list(threads.map(self.turns, [1] * count, [1] * count))


if __name__ == "__main__":
    wl.serve(Smolagents)
