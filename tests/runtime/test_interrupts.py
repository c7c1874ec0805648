"""The stop button: Y7, K05, K35. Real signals, in the main thread, at many points."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import Role, Usage
from agentflex_nb.core.model import UsageDelta
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime import interrupts
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.interrupts import held, honoured
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.runner import AgentTurnOptions
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore

call = ScriptedModel.call


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def stopped(work):
    """Run it at once; a press must come out of it."""
    with pytest.raises(KeyboardInterrupt):
        work()


@pytest.fixture(autouse=True)
def _the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


# -- the blocks --------------------------------------------------------------------------------------------------------


def test_a_press_within_a_held_block_waits_for_its_end():
    reached = []

    @stopped
    def work():
        with held():
            press()
            reached.append("end")

    assert reached == ["end"]


def test_a_window_lets_every_press_through_and_behind_it_they_wait():
    """K05: the user's own code may take its time to stop, and is stopped again."""
    reached = []

    @stopped
    def work():
        with held():
            try:
                with honoured():
                    try:
                        press()
                        reached.append("never")
                    finally:
                        reached.append("stubborn")
                        press()
                        reached.append("never")
            finally:
                press()
                reached.append("in peace")

    assert reached == ["stubborn", "in peace"]


def test_who_is_stopped_at_the_door_of_a_window_leaves_it_closed():
    reached = []

    @stopped
    def work():
        with held():
            press()
            try:
                with honoured():
                    reached.append("never")
            finally:
                press()
                reached.append("in peace")

    assert reached == ["in peace"]


def test_a_press_that_was_held_back_is_felt_at_the_next_window():
    reached = []

    @stopped
    def work():
        with held():
            press()
            reached.append("saved")
            with honoured():
                reached.append("never")

    assert reached == ["saved"]


def test_blocks_nest_as_runs_do_whose_tools_run_turns():
    reached = []

    with held():
        with honoured():
            try:
                with held():
                    press()
                    reached.append("inner block")
            except KeyboardInterrupt:
                reached.append("felt in the outer window")
        reached.append("outer block")

    assert reached == ["inner block", "felt in the outer window", "outer block"]


def test_a_press_and_an_error_at_once_is_a_press():
    def work():
        with held():
            press()
            raise ValueError("and this")

    with pytest.raises(KeyboardInterrupt) as interrupt:
        work()
    assert isinstance(interrupt.value.__context__, ValueError)


def test_a_handler_that_does_not_raise_is_called_and_the_window_stays_open():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append("noted"))
    try:
        with held():
            with honoured():
                press()
                press()
            press()
            assert calls == ["noted", "noted"]
        assert calls == ["noted"] * 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_the_signal_is_ignored_nothing_is_installed():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held(), honoured():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_neither_hold_nor_honour(at_once):
    def work():
        with held():
            assert signal.getsignal(signal.SIGINT) is not interrupts._press
            with honoured():
                return "done"

    assert at_once(work) == ["done"]


# -- runs --------------------------------------------------------------------------------------------------------------


class PressedWhileSaving(MemoryStore):
    """The button is pressed in the middle of one of its commits."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def commit(self, *args: Any, **kwargs: Any) -> None:
        self.left -= 1
        if self.left == 0:
            press()
        super().commit(*args, **kwargs)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_press_during_a_commit_lets_it_win_and_ends_the_turn_at_the_next_effect(number, memory_desk):
    """Y7, P18."""
    done = []

    @tool
    def act() -> str:
        """Act."""
        done.append(1)
        return "acted"

    store = memory_desk.store = PressedWhileSaving(number)
    runner = memory_desk.another_runner(store=store)
    agent = memory_desk.agent(call("act"), "Done.", tools=[act])

    with pytest.raises(KeyboardInterrupt):
        runner.run(agent, "go", conversation_id=memory_desk.conversation())

    (stored,) = store.find(list(AgentStatus))
    expected = AgentStatus.COMPLETED if number == 4 else AgentStatus.CANCELLED
    assert (stored.turn.status, len(done)) == (expected, int(number > 2))


@pytest.mark.parametrize("type", [EventType.SNAPSHOT_SAVED, EventType.MODEL_COMPLETED, EventType.TURN_COMPLETED])
def test_a_press_while_listeners_are_told_loses_no_event(desk, type):
    """Y7: the listener that is running finishes, and so do the others."""
    heard = []

    def pressing(event):
        if event.type is type and event.sequence > 1:
            press()

    runner = desk.another_runner(listeners=[pressing, heard.append])

    with pytest.raises(KeyboardInterrupt):
        runner.run(desk.agent("Hello."), "go", conversation_id=desk.conversation())

    turn = runner.restore(heard[0].turn_id)
    assert turn.status.is_terminal
    assert [event.sequence for event in heard] == [event.sequence for event in desk.store.events(turn.id)]


def test_a_press_in_a_tool_closes_its_call_and_reaches_the_cell(desk):
    """K05, X3: the call that had finished keeps its result."""

    @tool
    def quick() -> str:
        """Be quick."""
        return "quick result"

    @tool
    def slow() -> str:
        """Be slow."""
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
        for _ in range(500):
            time.sleep(0.01)
        raise AssertionError("it was not stopped")

    agent = desk.agent([call("quick"), call("slow"), call("quick")], tools=[quick, slow])
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())

    with pytest.raises(KeyboardInterrupt):
        desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED
    results = [message.content for message in turn.messages if message.role is Role.TOOL]
    assert results[0] == "quick result"
    assert results[1].startswith("Started, but its outcome is not known")
    assert results[2].startswith("Not run")
    assert desk.log(turn)[-3:] == ["SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_CANCELLED"]


def test_a_press_in_a_stream_keeps_the_text_that_came_and_ends_the_model_call(desk):
    """K05, E14, Z28."""

    def stop_here(request):
        return ["Half a ", "sentence", ScriptedModel.pause(0.01), KeyboardInterrupt()]

    turn = desk.runner.create(desk.agent(stop_here), "go", conversation_id=desk.conversation())

    with pytest.raises(KeyboardInterrupt):
        desk.runner.run_until_blocked(turn)

    log = desk.log(turn)
    told = "".join(event.data["content"] for event in desk.events(turn, EventType.MODEL_TEXT_DELTA))
    assert told == "Half a sentence"
    assert log.count("MODEL_FAILED") == log.count("MODEL_STARTED") == 1
    assert log[-5:] == ["CANCELLATION_REQUESTED", "MODEL_FAILED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_CANCELLED"]


@pytest.mark.parametrize("asked", [1, 2])
def test_what_a_model_had_counted_when_the_button_was_pressed_is_booked_once(desk, asked):
    """B9, Z11, K05: also where a middleware asked it before."""

    class AsksAgain(AgentMiddleware):
        def around_model(self, request, proceed):
            for _ in range(asked - 1):
                proceed(request)
            return proceed(request)

    def reply(request):
        end = ["Well."] if request.attempt < asked else ["Half a ", KeyboardInterrupt()]
        return [UsageDelta(Usage(input_tokens=5_000)), *end]

    turn = desk.runner.create(desk.agent(reply, middlewares=[AsksAgain()]), "go", conversation_id=desk.conversation())

    with pytest.raises(KeyboardInterrupt):
        desk.runner.run_until_blocked(turn)

    assert turn.usage.input_tokens == 5_000 * asked
    assert [event.data["usage"]["input_tokens"] for event in desk.events(turn, EventType.MODEL_FAILED)] == [
        5_000
    ] * asked


def test_a_reply_that_was_booked_is_not_booked_again_by_a_later_stop(desk):
    """B9"""

    @tool
    def stop() -> str:
        """Stop."""
        raise KeyboardInterrupt

    agent = desk.agent([UsageDelta(Usage(input_tokens=7)), call("stop")], tools=[stop])
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())

    with pytest.raises(KeyboardInterrupt):
        desk.runner.run_until_blocked(turn)

    assert turn.usage.input_tokens == 7


def test_a_schema_that_takes_for_ever_can_be_stopped_and_the_turn_goes_on_waiting(desk):
    """K28: a pattern with catastrophic backtracking."""
    slow = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    form = AgentForm("who", "Who", slow)
    turn = desk.run(call("request_user_input", form_key="who"), "Hello.", forms=[form])
    # from outside: a pattern at work keeps every thread of this process waiting
    kill = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])

    with pytest.raises(KeyboardInterrupt):
        turn.submit({"name": "a" * 60 + "!"})
    kill.wait()

    assert turn.status is AgentStatus.WAITING_FOR_USER
    assert turn.submit({"name": "aaa"}).output == "Hello."


def test_two_presses_are_no_worse_than_one(desk):
    """K05."""

    class Twice(MemoryStore):
        def commit(self, turn, *args, **kwargs):
            if turn.status is AgentStatus.CANCELLED:
                press()
            super().commit(turn, *args, **kwargs)

    desk.store = Twice()
    runner = desk.another_runner(store=desk.store)

    @tool
    def stop() -> str:
        """Be stopped."""
        press()
        return "never"

    with pytest.raises(KeyboardInterrupt):
        runner.run(desk.agent(call("stop"), tools=[stop]), "go", conversation_id=desk.conversation())

    assert [stored.turn.status for stored in desk.store.find(list(AgentStatus))] == [AgentStatus.CANCELLED]


def test_a_press_while_an_async_tool_runs_does_not_wait_for_it(desk):
    @tool
    async def stubborn() -> str:
        """Swallow every cancellation, for a while."""
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                continue
        return "late"

    begun = time.monotonic()
    turn = desk.runner.create(desk.agent(call("stubborn"), tools=[stubborn]), "go")
    with pytest.raises(KeyboardInterrupt):
        desk.runner.run_until_blocked(turn)

    assert time.monotonic() - begun < 0.8
    assert turn.status is AgentStatus.CANCELLED


def test_a_cancelled_coroutine_ends_its_turn_though_the_tools_thread_lives_on(desk):
    """K05 in a cell that awaits: there the stop button comes as CancelledError."""
    began, gate, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Be slow, and say something late."""
        context = AgentToolContext.current()
        began.set()
        gate.wait(10)
        context.emit_progress("too late")
        ended.set()
        return "too late"

    agent = desk.agent(call("slow"), "Never said.", tools=[slow])

    async def cell():
        running = asyncio.create_task(desk.runner.arun(agent, "go", conversation_id=desk.conversation()))
        while not began.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cell())
    (stored,) = desk.store.find(list(AgentStatus))
    desk.runner.restore(stored.turn.id).wait(1)  # it is done, whatever its thread does
    log = desk.store.events(stored.turn.id)
    assert (stored.turn.status, log[-1].type) == (AgentStatus.CANCELLED, EventType.TURN_CANCELLED)

    gate.set()
    assert ended.wait(5)
    time.sleep(0.1)
    assert desk.store.events(stored.turn.id) == log
    assert desk.store.load(stored.turn.id).turn == stored.turn


def test_a_coroutine_cancelled_while_its_turn_is_made_leaves_no_busy_conversation(desk):
    store, made, agent = desk.store, threading.Event(), desk.agent("Never said.")

    async def cell():
        runner = desk.another_runner(clock=lambda: (made.set(), time.sleep(0.1), desk.clock())[2])
        running = asyncio.create_task(runner.arun(agent, "go", conversation_id=desk.conversation()))
        while not made.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cell())

    deadline = time.monotonic() + 5
    while not store.find([AgentStatus.CANCELLED]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (store.active_turns("c1"), agent.model.requests) == ([], ())


def test_a_cancelled_coroutine_asks_its_responder_nothing_more(desk):
    """The turn that waits goes on waiting."""
    asked, gate, answered = threading.Event(), threading.Event(), threading.Event()

    def slow_responder(question):
        asked.set()
        gate.wait(10)
        answered.set()
        return True

    @tool(approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    async def cell():
        agent = desk.agent(call("act"), call("act"), tools=[act])
        running = asyncio.create_task(desk.runner.arun(agent, "go", responder=slow_responder))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cell())
    gate.set()
    assert answered.wait(5)
    time.sleep(0.1)

    (stored,) = desk.store.find(list(AgentStatus))
    assert stored.turn.status is AgentStatus.WAITING_FOR_APPROVAL


# -- at many points ----------------------------------------------------------------------------------------------------


class PressAt:
    """Presses the button at the n-th line that runs in this package."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "agentflex_nb" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                press()
        return self


def test_wherever_the_button_is_pressed_the_record_is_whole(memory_desk):
    """Y7, I1 to I7: some hundreds of points of a run with a tool, an approval and an answer."""
    done = []

    @tool
    def act(n: int) -> str:
        """Act, and say so."""
        AgentToolContext.current().emit_progress("half", percent=50)
        done.append(n)
        return "acted"

    @tool(approval=True)
    def ask() -> str:
        """Ask first."""
        return "asked"

    agent = memory_desk.agent(call("act", n=1), call("ask"), "Done.", tools=[act, ask])
    options, felt, reached = AgentTurnOptions(streaming=True), 0, 0
    for number in range(1, 3_500, 11):
        conversation = memory_desk.conversation()
        done.clear()
        before = sys.gettrace()
        sys.settrace(trace := PressAt(number))
        try:
            turn = memory_desk.runner.run(
                agent, "go", conversation_id=conversation, options=options, responder=lambda _: True
            )
        except KeyboardInterrupt:
            felt += 1
        else:
            assert turn.status is AgentStatus.COMPLETED
        finally:
            sys.settrace(before)
        reached += trace.left <= 0
        assert len(done) <= 1
        for stored in memory_desk.store.find([AgentStatus.RUNNING, AgentStatus.READY]):
            raise AssertionError(f"pressed at line {number}: {stored.turn}")
        for stored in memory_desk.store.find([AgentStatus.WAITING_FOR_APPROVAL]):
            memory_desk.runner.cancel(stored.turn.id)  # stopped between two verbs of the responder

    assert felt == reached > 200
