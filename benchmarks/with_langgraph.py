"""LangGraph, through LangChain's create_agent: bare | sqlite (SqliteSaver, as it comes)."""

import os
import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import count as counting
from pathlib import Path
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"
warnings.simplefilter("ignore")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

import workloads as wl


class Model(BaseChatModel):
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "at once"

    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        number = len(messages) // 2 - 1  # instructions, question, then two messages a call
        wanted = (
            [{"name": wl.TOOL, "args": wl.arguments(number), "id": f"call_{number}"}] if number < self.calls else []
        )
        reply = AIMessage(content="" if wanted else wl.ANSWER, tool_calls=wanted, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Streaming(Model):
    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for piece in wl.PIECES:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


class LangGraph(wl.Subject):
    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        self.threads, self.agents = counting(), {}
        self.saver = self.new_saver() if variant == "sqlite" else None
        self.tool = StructuredTool.from_function(self.gauge, name=wl.TOOL, description=wl.TOOL_MEANING)
        self.question = {"messages": [{"role": "user", "content": wl.QUESTION}]}

    def new_saver(self) -> SqliteSaver:
        return SqliteSaver(sqlite3.connect(self.folder / "checkpoints.sqlite", check_same_thread=False))

    def agent(self, model: BaseChatModel, saver: Any, **more: Any) -> Any:
        return create_agent(model, [self.tool], system_prompt=wl.INSTRUCTIONS, checkpointer=saver, **more)

    def known(self, calls: int) -> Any:
        if calls not in self.agents:
            self.agents[calls] = self.agent(Model(calls=calls), self.saver)
        return self.agents[calls]

    def thread(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": str(next(self.threads))}, "recursion_limit": 1_000}

    def one(self, calls: int) -> None:
        assert self.known(calls).invoke(self.question, self.thread())["messages"][-1].content == wl.ANSWER

    def turns(self, count: int, calls: int) -> None:
        for _ in range(count):
            self.one(calls)

    def stream(self) -> None:
        if "stream" not in self.agents:
            self.agents["stream"] = self.agent(Streaming(), self.saver)
        pieces = self.agents["stream"].stream(self.question, self.thread(), stream_mode="messages")
        assert sum(bool(piece.content) for piece, _ in pieces) >= len(wl.PIECES)

    def approve(self) -> None:
        if self.variant != "sqlite":
            raise wl.NotOffered
        thread = self.thread()
        first, second = self.new_saver(), self.new_saver()
        for saver, said in ((first, self.question), (second, Command(resume={"decisions": [{"type": "approve"}]}))):
            guard = HumanInTheLoopMiddleware(interrupt_on={wl.TOOL: True})
            result = self.agent(Model(calls=1), saver, middleware=[guard]).invoke(said, thread)
            saver.conn.close()
        assert result["messages"][-1].content == wl.ANSWER

    def together(self, count: int) -> None:
        self.known(1)
        with ThreadPoolExecutor(wl.WIDTH) as threads:
            list(threads.map(self.one, [1] * count))


if __name__ == "__main__":
    wl.serve(LangGraph)
