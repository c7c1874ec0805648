"""Turns for the panel, told by the core itself: what a panel is given here is what a runner would give it."""

import os
import queue
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

import agentflex_nb
from agentflex_nb.core.agent import AgentDefinition, AgentExecutionPolicy, ToolDefinition, ToolErrorStrategy
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.events import AgentEvent
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    DeltaKind,
    Input,
    ModelFailed,
    ModelReplied,
    Proceed,
    Streamed,
    ToolProgressed,
    ToolReturned,
)
from agentflex_nb.core.messages import ToolCall, Usage, assistant
from agentflex_nb.core.verdicts import ALLOWED, Strictness, Verdict
from agentflex_nb.testing import play
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.view import show_all

Kind = TypeVar("Kind")
ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASK = Verdict(strictness=Strictness.ASK, message="refund 120.0?", reason="over 50")


class Shop:
    """An agent with a free tool, a guarded one, one whose work is done outside and a form; its turns in short."""

    definition = AgentDefinition(
        id="shop",
        version="v1",
        name="shop",
        tools=(
            ToolDefinition(name="lookup", description="Look up.", parameters=FrozenDict(type="object")),
            ToolDefinition(name="refund", description="Refund.", parameters=FrozenDict(type="object"), guarded=True),
            ToolDefinition(name="ship", description="Ship.", parameters=FrozenDict(type="object"), external=True),
        ),
        forms=(AgentForm(key="address", description="Where it goes", schema=ADDRESS),),
        execution_policy=AgentExecutionPolicy(tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL),
    )

    def events(
        self, *inputs: Input, turn_id: str = "t1", streaming: bool = True, policy: AgentExecutionPolicy | None = None
    ) -> tuple[AgentEvent, ...]:
        definition = replace(self.definition, execution_policy=policy) if policy else self.definition
        return play(definition, *inputs, turn_id=turn_id, streaming=streaming).events

    def view(self, *inputs: Input, turn_id: str = "t1", **given: Any) -> View:
        return show_all(View(turn_id=turn_id), self.events(*inputs, turn_id=turn_id, **given))

    @staticmethod
    def only(view: View, kind: type[Kind]) -> Kind:
        """The one item of this kind."""
        found = [item for item in view.items if isinstance(item, kind)]
        assert len(found) == 1, found
        return found[0]

    @staticmethod
    def text(piece: str) -> Input:
        return Streamed(DeltaKind.TEXT, piece)

    @staticmethod
    def reasoning(piece: str) -> Input:
        return Streamed(DeltaKind.REASONING, piece)

    @staticmethod
    def call_piece(index: int, name: str, piece: str) -> Input:
        return Streamed(DeltaKind.TOOL_CALL, piece, FrozenDict(index=index, name=name))

    @staticmethod
    def reply(content: str = "", *calls: tuple[str, Mapping[str, Any]]) -> Input:
        asked = tuple(ToolCall(id="", name=name, arguments=FrozenDict(arguments)) for name, arguments in calls)
        usage = Usage(input_tokens=10, output_tokens=5)
        return ModelReplied(message=assistant(content, tool_calls=asked), usage=usage)

    @staticmethod
    def checked(**verdicts: Verdict) -> Input:
        """Verdicts by the step and position of the call: t1.1.0 is `_1_0`."""
        return CallsChecked({f"t1{place.replace('_', '.')}": verdict for place, verdict in verdicts.items()})

    def looked_up(self) -> tuple[Input, ...]:
        """One free call, run to its end."""
        return (
            Proceed(),
            self.reasoning("which order?"),
            self.text("I look it "),
            self.text("up."),
            self.reply("I look it up.", ("lookup", {"order": "O-1"})),
            self.checked(_1_0=ALLOWED),
            ToolProgressed("t1.1.0", "reading", FrozenDict(percent=50, rows=7)),
            ToolReturned("t1.1.0", '{"amount": 120}'),
        )

    def asked(self) -> tuple[Input, ...]:
        """Waits for approval of a refund."""
        return (
            *self.looked_up(),
            Proceed(),
            self.text("It can be refunded."),
            self.reply("It can be refunded.", ("refund", {"order": "O-1", "amount": 120.0})),
            self.checked(_2_0=ASK),
        )

    def approved(self) -> tuple[Input, ...]:
        """Approved, run, completed."""
        return (
            *self.asked(),
            AgentResumeCommand.approve_tool("t1.2.0", by="bob", via="panel"),
            Proceed(),
            self.checked(_2_0=ALLOWED),
            ToolReturned("t1.2.0", "sent"),
            Proceed(),
            self.text("Done."),
            self.reply("Done."),
        )

    def formed(self) -> tuple[Input, ...]:
        """Waits for a form that the model asked for."""
        return (Proceed(), self.reply("", ("request_user_input", {"form_key": "address", "message": "Where to?"})))

    def outside(self) -> tuple[Input, ...]:
        """Waits for a result from outside."""
        return (Proceed(), self.reply("", ("ship", {"order": "O-1"})), self.checked(_1_0=ALLOWED))

    def failing(self) -> tuple[Input, ...]:
        """The model is overloaded."""
        error = ErrorSummary(
            kind="OverloadedError", message="no capacity", code="OVERLOADED", retryable=True, status=529,
            provider_code="overloaded", request_id="r1",
        )  # fmt: skip
        return (Proceed(), ModelFailed(error=error))

    def two_asked(self) -> tuple[Input, ...]:
        """Waits for approval of two refunds."""
        calls = [("refund", {"order": order}) for order in ("O-1", "O-2")]
        return Proceed(), self.reply("", *calls), self.checked(_1_0=ASK, _1_1=ASK)


@pytest.fixture(scope="session")
def shop() -> Shop:
    return Shop()


class RecordingScreen:
    """A screen that keeps what it is given."""

    def __init__(self, immediate: bool = True) -> None:
        self.immediate = immediate
        self.started: Any = None
        self.messages: list[dict[str, Any]] = []
        self.kept: list[dict[str, Any]] = []
        self.settled: list[View] = []
        self.closed = False

    def start(self, view: View, whole: dict[str, Any]) -> None:
        self.started = whole

    def draw(self, view: View, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def keep(self, whole: dict[str, Any]) -> None:
        self.kept.append(whole)

    def settle(self, view: View) -> None:
        self.settled.append(view)

    def close(self, view: View) -> None:
        self.closed = True


class Page:
    """A browser's picture of a turn, after the rules of js/src/store.js: what a person would see."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self.n = -1
        self.gaps = 0
        self.items: dict[int, dict[str, Any]] = {}
        self.state: Mapping[str, Any] = {}
        self.take(whole)

    def take(self, message: Mapping[str, Any]) -> None:
        if message["n"] <= self.n:
            return
        if message["kind"] == "snapshot":
            self.items = {item["key"]: dict(item) for item in message["items"]}
        elif message["n"] != self.n + 1:
            self.gaps += 1
            return
        else:
            for grown in message["grown"]:
                item = self.items[grown["key"]]
                units = item["text"].encode("utf-16-le")[: 2 * grown["at"]]
                item["text"] = units.decode("utf-16-le") + grown["piece"]
                item["ended"] = grown["ended"]
            self.items |= {item["key"]: dict(item) for item in message["put"]}
            self.items = {key: item for key, item in self.items.items() if key >= message["state"]["dropped"]}
        self.n, self.state = message["n"], message["state"]

    @property
    def text(self) -> str:
        return "".join(item["text"] for item in self.items.values() if item["is"] == "text")


@pytest.fixture
def screen() -> RecordingScreen:
    return RecordingScreen()


@pytest.fixture
def new_screen() -> Callable[..., RecordingScreen]:
    return RecordingScreen


@pytest.fixture(scope="session")
def new_page() -> Callable[[Mapping[str, Any]], Page]:
    return Page


@pytest.fixture
def noon() -> datetime:
    return datetime.fromisoformat("2026-01-01T12:00:00+00:00")


class Kernel:
    """A real kernel with a front end that has no page: it runs cells, keeps what is published, and can click."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, cell: str = "cell", wait: float = 0.0) -> "Published":
        """Run a cell; what was published meanwhile, and in the `wait` seconds after it."""
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
        message = self._client.session.msg("execute_request", content, metadata={"cellId": cell})
        self._client.shell_channel.send(message)
        return self._published(wait, until=message["header"]["msg_id"])

    def click(self, comm_id: str, content: Mapping[str, Any], wait: float = 0.3) -> "Published":
        """Say something to a widget, as a page does."""
        data = {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
        message = self._client.session.msg("comm_msg", data)
        self._client.shell_channel.send(message)
        return self._published(wait, until=message["header"]["msg_id"])

    def _published(self, wait: float, until: str) -> "Published":
        published, deadline = Published(), time.monotonic() + 60
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self._client.get_iopub_msg(timeout=left)
            except queue.Empty:
                break
            published.messages.append(message)
            idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            if idle and message["parent_header"].get("msg_id") == until:
                deadline = time.monotonic() + wait
        return published


class Published:
    """What a kernel told its front ends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    @property
    def printed(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def error(self) -> str:
        return "\n".join("\n".join(content["traceback"]) for content in self.of("error"))

    @property
    def panels(self) -> list[str]:
        """The comms of panels that were opened."""
        opened = [content for content in self.of("comm_open") if "kept" in content["data"]["state"]]
        return [content["comm_id"] for content in opened]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The panels' own messages."""
        said = [content["data"] for content in self.of("comm_msg")]
        return [data["content"] for data in said if data.get("method") == "custom"]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that imports this checkout, with `events(*inputs)` and a shop in it."""
    from jupyter_client.manager import start_new_kernel

    home = Path(agentflex_nb.__file__).parents[1]
    folder = tmp_path_factory.mktemp("kernel")
    environment = {**os.environ, "PYTHONPATH": str(home), "IPYTHONDIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder)}
    environment.pop("AGENTFLEX_WIDGETS", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the kernel's own libraries warn of on their way up
        manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(folder))
    try:
        kernel = Kernel(client)
        published = kernel.run(
            f"import runpy; globals().update(runpy.run_path({str(Path(__file__))!r})); shop = Shop()"
        )
        assert not published.error
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
