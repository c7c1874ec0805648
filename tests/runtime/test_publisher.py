"""How events reach listeners: E5, E9, E10, E11, E23, K03, K30."""

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.publisher import Mailbox, Publisher
from agentflex_nb.runtime.runner import AgentTurnOptions
from agentflex_nb.runtime.tools import tool

call, say = ScriptedModel.call, ScriptedModel.say


@tool(approval=True)
def gated() -> str:
    """Ask first."""
    return "done"


# -- who is registered -------------------------------------------------------------------------------------------------


def named(event):
    """Known by its module and name."""


class Ear:
    def __init__(self):
        self.heard = []

    def hear(self, event):
        self.heard.append(event)

    def __call__(self, event):
        self.heard.append(event)


def count(runner) -> int:
    return len(runner._publisher._listeners)


def test_a_cell_that_is_run_again_registers_its_listener_once(memory_desk):
    """K03: a named function by its name, the same object as itself, others by a key."""
    runner, ear = memory_desk.another_runner(), Ear()
    for _ in range(5):
        scope = {"__name__": "__main__"}
        exec("def on_event(event): pass", scope)  # a new function each time, as a cell makes it
        runner.add_event_listener(named)
        runner.add_event_listener(scope["on_event"])
        runner.add_event_listener(ear)
        runner.add_event_listener(ear.hear)
        runner.add_event_listener(ear.heard.append)
        runner.add_event_listener(lambda event: None, key="mine")

    assert count(runner) == 6


def test_lambdas_go_by_identity(memory_desk):
    runner = memory_desk.another_runner()
    runner.add_event_listener(lambda event: None).add_event_listener(lambda event: None)

    assert count(runner) == 2


def test_a_removed_listener_gets_nothing_more(memory_desk):
    """E10: also methods, which are made anew each time they are named; also from the next event's next listener on."""
    runner, ear, other = memory_desk.another_runner(), Ear(), Ear()
    runner.add_event_listener(lambda event: runner.remove_event_listener(other), key="first")
    for listener in (ear.hear, ear.heard.append, other):
        runner.add_event_listener(listener)
    runner.remove_event_listener(ear.hear).remove_event_listener(ear.heard.append)
    runner.remove_event_listener(print)

    runner.run(memory_desk.agent("x"), "go")

    assert (ear.heard, other.heard) == ([], [])


def test_what_is_added_while_events_are_told_hears_the_next_one(memory_desk):
    """Y3."""
    runner, late = memory_desk.another_runner(), Ear()
    runner.add_event_listener(lambda event: runner.add_event_listener(late))

    runner.run(memory_desk.agent("x"), "go")

    assert [event.sequence for event in late.heard] == list(range(2, len(late.heard) + 2))


async def on_event(event):
    """Nobody would await it."""


class AsyncEar:
    async def __call__(self, event):
        """Nobody would await it."""


@pytest.mark.parametrize("listener", [on_event, functools.partial(on_event), AsyncEar()])
def test_a_coroutine_function_is_refused_with_a_sentence(memory_desk, listener):
    """K30"""
    with pytest.raises(InvalidAgentError, match="call_soon_threadsafe"):
        memory_desk.runner.add_event_listener(listener)


def test_what_cannot_be_called_is_refused(memory_desk):
    with pytest.raises(InvalidAgentError, match="a function of an event"):
        memory_desk.runner.add_event_listener("events.log")


# -- listeners cannot hurt a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(1), asyncio.CancelledError(), GeneratorExit(), StopIteration(), MemoryError()]
)
def test_a_listener_that_raises_changes_nothing_and_stops_nobody(desk, error):
    """E9, Z13, K30."""
    after = Ear()

    def raising(event):
        raise error

    runner = desk.another_runner(listeners=[raising, after])
    turn = runner.run(desk.agent("Hello."), "go", conversation_id=desk.conversation())

    assert turn.output == "Hello."
    assert [event.type.value for event in after.heard] == desk.log(turn)
    assert list(runner.listener_errors.values()) == [len(after.heard)]


def test_errors_are_counted_by_key_or_name(memory_desk, caplog):
    """K30: also a wrong number of parameters, and a coroutine that came back."""
    runner = memory_desk.another_runner()
    runner.add_event_listener(lambda: None, key="no parameter")
    runner.add_event_listener(lambda event: on_event(event), key="returns a coroutine")
    runner.add_event_listener(Ear.hear)

    runner.run(memory_desk.agent("x"), "go", options=AgentTurnOptions(streaming=False))

    assert runner.listener_errors == {
        "no parameter": 8,
        "returns a coroutine": 8,
        f"{__name__}.Ear.hear": 8,
    }
    assert len(caplog.records) == 3


def test_a_keyboard_interrupt_of_a_listener_counts_as_the_stop_button(desk):
    """K30: the others hear everything, the turn ends at the next effect."""
    after = Ear()

    def stop(event):
        if event.type is EventType.MODEL_COMPLETED:
            raise KeyboardInterrupt

    runner = desk.another_runner(listeners=[stop, after])
    agent = desk.agent(call("gated"), tools=[gated], approval_policy=lambda *_: False)
    with pytest.raises(KeyboardInterrupt):
        runner.run(agent, "go", conversation_id=desk.conversation())

    turn = runner.restore(after.heard[0].turn_id)
    assert turn.status is AgentStatus.CANCELLED
    assert [event.type.value for event in after.heard] == desk.log(turn)


def test_a_listener_that_always_raises_keyboard_interrupt_ends_the_turn_and_hears_all_of_it(memory_desk):
    def stop(event):
        heard.append(event)
        raise KeyboardInterrupt

    heard = []
    runner = memory_desk.another_runner(listeners=[stop])
    with pytest.raises(KeyboardInterrupt):
        runner.run(memory_desk.agent("x"), "go")

    turn = runner.restore(heard[0].turn_id)
    assert turn.status is AgentStatus.CANCELLED
    assert [event.sequence for event in heard] == [event.sequence for event in memory_desk.store.events(turn.id)]


def test_listeners_may_raise_for_all_to_see_where_that_is_wanted(memory_desk, monkeypatch):
    monkeypatch.setenv("AGENTFLEX_DEBUG_LISTENERS", "1")

    def raising(event):
        if event.type is EventType.MODEL_STARTED:
            raise ValueError("look here")

    runner = memory_desk.another_runner(listeners=[raising])
    with pytest.raises(ValueError, match="look here"):
        runner.run(memory_desk.agent("x"), "go")

    (stored,) = memory_desk.store.find(list(AgentStatus))
    assert stored.turn.status is AgentStatus.FAILED


def test_events_are_read_only_and_hold_no_part_of_what_they_were_made_of(desk):
    """E11, K30."""
    source = {"rows": [1, 2], 3: object()}

    @tool
    def work() -> str:
        """Work, and tell."""
        source["circle"] = source
        AgentToolContext.current().emit_progress("half", source=source)
        source["rows"].append(3)
        return "worked"

    def meddle(event):
        event.data["x"] = 1

    runner = desk.another_runner(listeners=[meddle])
    turn = runner.run(desk.agent(call("work"), "Done.", tools=[work]), "go", conversation_id=desk.conversation())

    (progress,) = desk.events(turn, EventType.TOOL_PROGRESS)
    assert progress.data["source"]["rows"] == (1, 2)
    assert isinstance(progress.data["source"]["3"], str)
    assert "circular" in progress.data["source"]["circle"]
    assert runner.listener_errors == {meddle.__qualname__: len(desk.log(turn))}


# -- listeners that come back ------------------------------------------------------------------------------------------


def test_a_listener_may_cancel_the_turn_that_it_hears_of(desk):
    """K30: at the next safe point, without a deadlock; what it causes is told after it."""
    order = []

    def cancelling(event):
        order.append(("begin", event.sequence))
        if event.type is EventType.MODEL_STARTED:
            desk.runner.cancel(event.turn_id, "no")
            desk.runner.cancel(event.turn_id, "no")
        order.append(("end", event.sequence))

    desk.runner.add_event_listener(cancelling)
    turn = desk.run("Never heard.")

    assert turn.status is AgentStatus.CANCELLED
    numbers = [number for _, number in order]
    assert numbers == sorted(numbers)
    assert [word for word, _ in order] == ["begin", "end"] * (len(order) // 2)


def test_a_listener_may_approve_what_it_hears_of(desk):
    """K30: resumed within the listener, in the thread that drives; numbers and order stand."""
    heard = []

    def approving(event):
        heard.append(event)
        if event.type is EventType.TURN_SUSPENDED:
            desk.runner.resume(event.turn_id, AgentResumeCommand.approve_tool(event.data["correlation_id"]))

    desk.runner.add_event_listener(approving)
    turn = desk.run(call("gated"), "Done.", tools=[gated])

    assert turn.output == "Done."
    assert [event.sequence for event in heard] == list(range(1, len(heard) + 1))


def test_a_click_while_the_drive_still_tells_its_last_events_is_carried_out(desk):
    """K02, K12: the answer comes from another thread before the run has returned."""
    done = []

    def clicking(event):
        if event.type is EventType.TURN_SUSPENDED:
            command = AgentResumeCommand.approve_tool(event.data["correlation_id"])
            threading.Thread(target=desk.another_runner().resume, args=(event.turn_id, command)).start()
            deadline = time.monotonic() + 5
            while not done and time.monotonic() < deadline:
                time.sleep(0.01)
                done.extend(desk.store.find([AgentStatus.COMPLETED]))

    desk.runner.add_event_listener(clicking)
    turn = desk.run(call("gated"), "Done.", tools=[gated])

    assert done
    assert turn.wait(5).output == "Done."


def test_a_listener_may_run_another_turn(desk):
    """K30"""
    inner = []

    def running(event):
        if event.type is EventType.TURN_COMPLETED and not inner:
            inner.append(None)
            inner[0] = desk.runner.run(desk.agent("Inner.", id="inner"), "in here").output

    desk.runner.add_event_listener(running)

    assert (desk.run("Outer.").output, inner) == ("Outer.", ["Inner."])


def test_waiting_for_the_turn_that_tells_is_refused_not_stuck(desk):
    """K30: a clear error where a deadlock would be."""
    runner = desk.another_runner()
    runner.add_event_listener(lambda event: runner.run_until_blocked(event.turn_id), key="waits")

    turn = runner.run(desk.agent(say("a b c")), "go", conversation_id=desk.conversation())

    assert turn.output == "a b c"
    assert set(runner.listener_errors) == {"waits"}


# -- order -------------------------------------------------------------------------------------------------------------


def test_progress_from_many_threads_is_heard_in_the_order_of_its_numbers(desk):
    """E5, Z20: one at a time, no matter who delivers."""
    inside, worst = [0], [0]
    heard = []

    def listener(event):
        inside[0] += 1
        worst[0] = max(worst[0], inside[0])
        heard.append(event.sequence)
        time.sleep(0.0002)
        inside[0] -= 1

    @tool
    def busy() -> str:
        """Tell from eight threads."""
        context = AgentToolContext.current()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: [context.emit_progress(f"{n}.{m}") for m in range(20)], range(8)))
        return "busy"

    runner = desk.another_runner(listeners=[listener])
    turn = runner.run(desk.agent(call("busy"), "Done.", tools=[busy]), "go", conversation_id=desk.conversation())

    assert heard == sorted(heard) == [event.sequence for event in desk.store.events(turn.id)]
    assert worst == [1]
    assert desk.log(turn).count("TOOL_PROGRESS") == 160


def test_no_lock_is_held_while_a_listener_runs(desk):
    """E5, Z22: another thread can look, cancel and be told while a listener is slow."""
    entered, gate = threading.Event(), threading.Event()

    def slow(event):
        if event.type is EventType.MODEL_STARTED:
            entered.set()
            gate.wait(10)

    desk.runner.add_event_listener(slow)
    turn = desk.runner.start(desk.agent("Never heard."), "go", conversation_id=desk.conversation())
    assert entered.wait(5)

    other = desk.another_runner()
    begun = time.monotonic()
    assert [event.type.value for event in other.events(turn)][-1] == "MODEL_STARTED"
    assert other.cancel(turn, "while it is slow")
    assert time.monotonic() - begun < 2
    gate.set()

    assert turn.wait(5).status is AgentStatus.CANCELLED


def test_a_single_threaded_executor_keeps_the_order_and_leaves_the_runs_thread(desk):
    """E23."""
    heard = []
    with ThreadPoolExecutor(1) as pool:
        runner = desk.another_runner(
            event_executor=pool, listeners=[lambda event: heard.append((event.sequence, threading.get_ident()))]
        )
        runner.run(desk.agent("Hello."), "go", conversation_id=desk.conversation())
        pool.submit(lambda: None).result()
        assert pool.submit(threading.get_ident).result() != threading.get_ident()

    numbers, threads = zip(*heard, strict=True)
    assert list(numbers) == list(range(1, len(numbers) + 1))
    assert set(threads) != {threading.get_ident()}


def test_an_executor_that_is_shut_down_does_not_hurt_the_run(desk):
    """E23: whose it is, shuts it down; the runner never does."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    runner = desk.another_runner(event_executor=pool, listeners=[lambda event: None])

    turn = runner.run(desk.agent("Hello."), "go", conversation_id=desk.conversation())

    assert turn.output == "Hello."
    assert runner.listener_errors == {"event executor": len(desk.log(turn))}


def test_a_mailbox_hammered_from_many_threads_loses_nothing(at_once):
    mailbox, publisher, heard = Mailbox(), Publisher(), []
    publisher.add(heard.append)

    def post(number):
        for n in range(500):
            mailbox.post(publisher, [(number, n)])
            mailbox.drain()

    at_once(*[lambda number=number: post(number) for number in range(8)])

    assert sorted(heard) == [(number, n) for number in range(8) for n in range(500)]
    for number in range(8):
        mine = [n for who, n in heard if who == number]
        assert mine == sorted(mine)


def test_a_listener_with_a_key_is_removed_by_itself_too(memory_desk):
    """E10"""
    heard = []
    memory_desk.runner.add_event_listener(heard.append, key="panel")
    memory_desk.runner.remove_event_listener(heard.append)

    memory_desk.run("hi")

    assert heard == []


def test_one_that_comes_last_hears_what_became_of_the_others(memory_desk):
    seen = []

    def fails(event):
        raise LookupError

    def looks(event):
        seen.append((event.sequence, dict(runner.listener_errors)))

    runner = memory_desk.another_runner()
    runner.add_event_listener(looks, key="looks", last=True)
    runner.add_event_listener(fails, key="fails")
    runner.create(memory_desk.agent("hi"), "go")

    assert seen == [(1, {"fails": 1})]


def test_one_that_came_last_takes_its_place_among_the_others_when_it_is_added_again(memory_desk):
    order = []
    runner = memory_desk.another_runner()
    runner.add_event_listener(lambda _: order.append("a"), key="a", last=True)
    runner.add_event_listener(lambda _: order.append("b"), key="b")
    runner.add_event_listener(lambda _: order.append("a"), key="a")
    runner.add_event_listener(lambda _: order.append("c"), key="c")
    runner.create(memory_desk.agent("hi"), "go")

    assert order == ["b", "a", "c"]
