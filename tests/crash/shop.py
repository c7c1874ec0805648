"""What a kernel that is going to be killed runs: agents, the traces that they leave outside, and the moments to die.

The process that is killed and the one that comes after it import this file, so both have the same agents.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import agentflex_nb as af

call, say = af.ScriptedModel.call, af.ScriptedModel.say

ADDRESS = af.AgentForm("address", "Where to?", {"type": "object", "required": ["city"]})
STORY = " ".join(f"word{number}" for number in range(40))


class Outside:
    """Files that no store knows of. A line is one `write`, so it is there as a whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, page: str, line: str) -> None:
        page_file = os.open(self.folder / page, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(page_file, f"{line}\n".encode())
        os.close(page_file)

    def lines(self, page: str) -> list[str]:
        file = self.folder / page
        return file.read_text("utf-8").splitlines() if file.exists() else []


class Death:
    """Ends the process where it stands, as kill -9 does, the nth time that it passes a moment."""

    def __init__(self, moment: str = "", nth: int = 1) -> None:
        self._moment, self._left, self._lock = moment, nth, threading.Lock()

    def passes(self, moment: str) -> None:
        if moment == self._moment:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)


class MortalModel:
    """A scripted model that may be killed between two pieces of a reply."""

    def __init__(self, death: Death, *replies: Any) -> None:
        self._death, self._script = death, af.ScriptedModel(*replies, delay=0.001)

    @property
    def name(self) -> str:
        return "mortal"

    def stream(self, request: af.ModelRequest) -> Iterator[Any]:
        for delta in self._script.stream(request):
            self._death.passes("in the model's stream")
            yield delta


class MortalTools(af.AgentMiddleware):
    """May be killed when a tool is known to start and has not been entered, and when it has returned unrecorded."""

    def __init__(self, death: Death) -> None:
        self._death = death

    def around_tool(self, call: Any, proceed: Any) -> Any:
        self._death.passes("before the tool")
        result = proceed(call)
        self._death.passes("after the tool")
        return result


def agents_of(outside: Outside, death: Death) -> dict[str, af.Agent]:
    def take_effect(page: str) -> None:
        death.passes("in the tool, before its effect")
        outside.note(page, af.AgentToolContext.current().idempotency_key)
        death.passes("in the tool, after its effect")

    @af.tool
    def charge(order: str) -> str:
        """Charge an order. Twice would be a fault."""
        take_effect("effects")
        return f"charged {order}"

    @af.tool(approval=True)
    def refund(order: str) -> str:
        """Refund an order, once somebody has said yes. Twice would be a fault."""
        take_effect("effects")
        return f"refunded {order}"

    @af.tool(idempotent=True)
    def reserve(order: str) -> str:
        """Reserve an order. Twice under one key does what once does."""
        take_effect("repeatable")
        return f"reserved {order}"

    @af.tool
    def ship(order: str) -> str:
        """Ship an order, once somebody has said where to. Twice would be a fault."""
        data = af.AgentToolContext.current().form_data
        if data is None:
            raise af.FormRequired("address", "Where to?")
        take_effect("effects")
        return f"shipped {order} to {data['city']}"

    @af.tool(idempotent=True)
    def shaky(order: str) -> str:
        """Works at the third attempt. Twice under one key does what once does."""
        key = af.AgentToolContext.current().idempotency_key
        outside.note("attempts", key)
        if outside.lines("attempts").count(key) < 3:
            raise ConnectionError("the line is bad")
        take_effect("repeatable")
        return f"done {order}"

    @af.tool(external=True)
    def deliver(order: str) -> str:
        """Carried out by somebody else."""
        raise NotImplementedError

    def busy(*reply: Any) -> Any:
        """A reply that comes at the third attempt only."""
        return lambda request: af.RateLimitError("busy") if request.attempt < 3 else list(reply)

    scripts: dict[str, tuple[Any, ...]] = {
        "charger": ([say("I charge it."), call("charge", order="O-1")], "Charged."),
        "refunder": (call("refund", order="O-2"), "Refunded."),
        "twofold": ([call("reserve", order="O-3"), call("charge", order="O-3")], "Both are done."),
        "guarded": ([call("charge", order="O-4"), call("refund", order="O-4")], STORY),
        "talker": ([say(STORY), call("reserve", order="O-5")], STORY),
        "shipper": ([call("ship", order="O-6"), call("charge", order="O-6")], "Shipped."),
        "asker": (call("request_user_input", form_key="address"), call("charge", order="O-7"), "Asked."),
        "patient": (busy(say("At last."), call("charge", order="O-8")), busy("Charged.")),
        "shaken": ([call("shaky", order="O-9"), call("charge", order="O-9")], "Done."),
        "sender": ([call("charge", order="O-10"), call("deliver", order="O-10")], "Delivered."),
    }
    tools = [charge, refund, reserve, ship, shaky, deliver]
    soon = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(max_retries=9, initial_delay=0.005, max_delay=0.02))
    return {
        id: af.Agent(
            id, model=MortalModel(death, *script), tools=tools, forms=[ADDRESS], middlewares=[MortalTools(death)],
            execution_policy=soon,
        )
        for id, script in scripts.items()
    }  # fmt: skip


def answer(turn: af.AgentTurn, question: af.Question) -> None:
    """What a person says to a question about something that has not happened yet."""
    if question.type == "USER_INPUT":
        turn.submit({"city": "Oslo"}, question.id)
    elif question.type == "EXTERNAL_TOOL":
        turn.supply({"delivered": True}, call_id=question.id)
    else:
        turn.approve(question.id)


def listener(outside: Outside, death: Death) -> Any:
    """Notes every event that it hears; what it hears of a saved state is an acknowledgement."""

    def hear(event: af.AgentEvent) -> None:
        version = event.data.get("version", -1)
        outside.note("heard", f"{os.getpid()} {event.turn_id} {event.sequence} {event.type.value} {version}")
        if event.type is af.EventType.SNAPSHOT_SAVED:
            death.passes("after a commit")

    return hear


@contextmanager
def opened(kind: str, folder: Path, death: Death) -> Iterator[af.AgentRunner]:
    """The runner of the lab, or of the record alone, in this folder; a clean close at the end."""
    outside = Outside(folder)
    if kind == "lab":
        lab = af.Lab(folder / "lab.duckdb", user="alice", display=False, durability="process")
        runner, close = lab.runner, lab.close
    else:
        store = af.SqliteStore(folder / "record.sqlite")
        runner, close = af.AgentRunner(store), store.close
    runner.add_event_listener(listener(outside, death), key="notes")
    for agent in agents_of(outside, death).values():
        runner.loader.register(agent)
    yield runner
    print("closing", flush=True)
    close()
    print("closed", flush=True)
