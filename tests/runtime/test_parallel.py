"""Calls of tools that may run beside one another: at the same time, told in the model's order. T6, K11"""

import asyncio
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy
from agentflex_nb.core.events import EventType
from agentflex_nb.core.forms import FormRequired
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call
TELL_MODEL = AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")
FORM = AgentForm("seats", "How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
PATIENCE = 20  # seconds, for what happens at once unless something is wrong


class Together:
    """Tools that wait for one another: were they run one after the other, they would wait in vain."""

    def __init__(self, *acts: Any) -> None:
        self.all_here, self.ran, self.acts = threading.Barrier(len(acts)), Counter[int](), acts
        self.tool = tool(name="fan", parallel=True)(self.fan)
        self.calls = [call("fan", n=n) for n in range(len(acts))]

    def fan(self, n: int) -> Any:
        """Fan out."""
        self.ran[n] += 1
        if self.ran[n] == 1:
            self.all_here.wait(PATIENCE)
        act = self.acts[n]
        return act() if callable(act) else act


def results(turn: Any) -> list[str]:
    return [message.content for message in turn.messages if message.role == "tool"]


def late(value: str, seconds: float = 0.1) -> Any:
    def act() -> str:
        time.sleep(seconds)
        return value

    return act


def fails(error: BaseException) -> Any:
    def act() -> None:
        raise error

    return act


def test_calls_run_at_the_same_time_and_their_results_keep_the_models_order(desk):
    """T6: the first to be asked is the last to be done."""
    together = Together(late("a", 0.2), late("b"), "c")
    turn = desk.run(together.calls, "Done.", tools=[together.tool])

    assert (turn.output, results(turn)) == ("Done.", ["a", "b", "c"])
    told = [event.data["tool_call_id"] for event in desk.events(turn, EventType.TOOL_COMPLETED)]
    assert told == ["t1.1.2", "t1.1.1", "t1.1.0"]


def test_async_tools_run_at_the_same_time_too(desk):
    met: list[asyncio.Event] = []

    @tool(parallel=True)
    async def meet(n: int) -> str:
        """Meet."""
        mine = asyncio.Event()
        met.append(mine)
        if len(met) == 2:
            for event in met:
                event.set()
        await asyncio.wait_for(mine.wait(), PATIENCE)
        return f"met {n}"

    turn = desk.run([call("meet", n=0), call("meet", n=1)], "Done.", tools=[meet])

    assert results(turn) == ["met 0", "met 1"]


def test_a_tool_that_is_not_declared_so_runs_alone(desk):
    at_work, most = [0], [0]

    @tool
    def alone() -> str:
        """Alone."""
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.02)
        at_work[0] -= 1
        return "done"

    desk.run([call("alone")] * 3, "Done.", tools=[alone])

    assert most == [1]


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), MemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_one_that_raises_takes_no_others_result(memory_desk, error):
    """K11, K35"""
    together = Together("a", fails(error), late("c"))
    told = memory_desk.run(together.calls, "Done.", tools=[together.tool], execution_policy=TELL_MODEL)
    assert (told.output, results(told)[0], results(told)[2]) == ("Done.", "a", "c")
    assert results(told)[1].startswith("Error: ")

    together = Together("a", fails(error), late("c"))
    failed = memory_desk.run(together.calls, tools=[together.tool])
    assert (failed.status, failed.error.kind) == (AgentStatus.FAILED, type(error).__name__)
    assert (results(failed)[0], results(failed)[2]) == ("a", "c")


def test_one_that_needs_a_form_waits_while_the_others_are_done(desk):
    """F3, K11: and only it runs again."""

    def asks() -> str:
        if (data := AgentToolContext.current().form_data) is None:
            raise FormRequired("seats")
        return f"{data['n']} seats"

    together = Together("a", asks, late("c"))
    turn = desk.run(together.calls, "Done.", tools=[together.tool], forms=[FORM])
    assert (turn.status, [question.call_id for question in turn.questions]) == ("WAITING_FOR_USER", ["t1.1.1"])

    turn.submit({"n": 3})

    assert (turn.output, results(turn)) == ("Done.", ["a", "3 seats", "c"])
    assert together.ran == {0: 1, 1: 2, 2: 1}


def test_free_calls_before_a_gated_one_run_together_and_those_behind_it_wait(desk):
    """A6, A19, K11"""
    ran = []

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    together = Together("a", "b")
    together.acts = ("a", "b", "c")
    asks = [*together.calls, call("pay"), call("fan", n=2)]
    together.ran[2] = 1  # that one has nobody to wait for
    turn = desk.run(asks, "Done.", tools=[together.tool, pay])

    assert turn.status is AgentStatus.WAITING_FOR_APPROVAL
    assert (results(turn), together.ran[2], ran) == (["a", "b"], 1, [])
    assert results(turn.approve()) == ["a", "b", "paid", "c"]


def test_of_too_many_calls_only_the_allowed_ones_run(desk):
    """B4, X6"""
    together = Together("a", "b")
    asks = [*together.calls, call("fan", n=1)]
    policy = AgentExecutionPolicy(budget=AgentBudget(max_tool_calls=2))
    turn = desk.run(asks, tools=[together.tool], execution_policy=policy)

    assert (turn.status, results(turn)[:2]) == (AgentStatus.BUDGET_EXCEEDED, ["a", "b"])
    assert together.ran == {0: 1, 1: 1}


def from_another_thread(act: Any) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_cancellation_meanwhile_keeps_every_result_and_asks_the_model_no_more(desk):
    """X2"""

    def cancels() -> str:
        from_another_thread(lambda: desk.runner.cancel("t1", "enough"))
        return "a"

    together = Together(cancels, late("b"), "c")
    turn = desk.run(together.calls, tools=[together.tool])

    assert (turn.status, results(turn)) == (AgentStatus.CANCELLED, ["a", "b", "c"])
    assert desk.log(turn).count("MODEL_STARTED") == 1


def test_an_interruption_meanwhile_keeps_every_result_and_goes_on_with_the_message(desk):
    """X5"""

    def interrupts() -> str:
        from_another_thread(lambda: desk.runner.submit_interrupt("t1", "Look elsewhere."))
        return "a"

    together = Together(interrupts, late("b"), "c")
    turn = desk.run(together.calls, "Elsewhere, then.", tools=[together.tool])

    assert (turn.output, results(turn)) == ("Elsewhere, then.", ["a", "b", "c"])
    assert [message.content for message in turn.messages if message.role == "user"] == ["go", "Look elsewhere."]


def test_the_stop_button_closes_all_of_them_and_what_comes_late_is_nobodys(memory_desk):
    """K05, X3: the threads live on."""
    go_on, over = threading.Event(), threading.Semaphore(0)

    def hangs() -> str:
        if AgentToolContext.current().call.id.endswith(".0"):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        go_on.wait(PATIENCE)
        over.release()
        return "late"

    together = Together(hangs, hangs)
    turn = memory_desk.runner.create(memory_desk.agent(together.calls, tools=[together.tool]), "go")
    with pytest.raises(KeyboardInterrupt):
        memory_desk.runner.run_until_blocked(turn)
    events = len(memory_desk.store.events(turn.id))
    go_on.set()
    assert all(over.acquire(timeout=PATIENCE) for _ in range(2))
    time.sleep(0.05)

    assert turn.status is AgentStatus.CANCELLED
    assert all("not known" in result for result in results(turn))
    assert len(memory_desk.store.events(turn.id)) == events


def test_a_tool_that_raises_keyboard_interrupt_stops_the_turn_once_the_others_are_done(memory_desk):
    """K35"""
    together = Together(fails(KeyboardInterrupt()), late("b"))
    turn = memory_desk.runner.create(memory_desk.agent(together.calls, tools=[together.tool]), "go")
    with pytest.raises(KeyboardInterrupt):
        memory_desk.runner.run_until_blocked(turn)

    assert (turn.status, results(turn)[1]) == (AgentStatus.CANCELLED, "b")


def test_each_has_a_context_of_its_own(desk):
    """K19, T12"""

    def who() -> str:
        context = AgentToolContext.current()
        context.emit_progress(context.call.id)
        time.sleep(0.02)
        return AgentToolContext.current().idempotency_key

    together = Together(who, who, who)
    turn = desk.run(together.calls, "Done.", tools=[together.tool])

    assert results(turn) == ["t1:t1.1.0", "t1:t1.1.1", "t1:t1.1.2"]
    told = [(event.data["tool_call_id"], event.data["message"]) for event in desk.events(turn, EventType.TOOL_PROGRESS)]
    assert sorted(told) == [(id, id) for id in ("t1.1.0", "t1.1.1", "t1.1.2")]


def test_whole_values_of_all_of_them_are_kept(desk):
    """T14"""
    together = Together(lambda: ["a"] * 100, lambda: ["b"] * 100)
    bounded = tool(name="fan", parallel=True, max_result_chars=20)(together.fan)
    turn = desk.run(together.calls, "Done.", tools=[bounded])
    desk.forget_values()

    assert [turn.results[id] for id in turn.results] == [["a"] * 100, ["b"] * 100]
