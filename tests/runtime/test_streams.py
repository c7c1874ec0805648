"""Streams: a run's events for a loop, in order and to the end; a reader may be slow, leave, or come too early."""

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentflex_nb.core.errors import StoreError, WrongThreadError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.model import TextDelta
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.drive import AgentRunnerOptions
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.runtime.streams import JOINS_BEYOND
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore

call = ScriptedModel.call


@tool
def count(n: int) -> int:
    """Count, and say so."""
    for k in range(n):
        AgentToolContext.current().emit_progress("at", k=k)
    return n


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def test_the_events_of_a_run_come_in_order_to_its_end(desk):
    """E3, E5."""
    stream = desk.runner.stream(desk.agent(call("count", n=3), "Counted.", tools=[count]), "go")

    events = list(stream)

    assert events == desk.store.events(stream.turn.id)
    assert events[-1].type is EventType.TURN_COMPLETED
    assert stream.turn.text == "Counted."
    assert list(stream) == []


def test_events_come_while_the_turn_still_runs(desk):
    going = threading.Event()

    @tool
    def wait() -> str:
        """Wait for the reader."""
        assert going.wait(10), "the reader has heard nothing while the tool ran"
        return "heard"

    for event in desk.runner.stream(desk.agent(call("wait"), "Done.", tools=[wait]), "go"):
        if event.type is EventType.TOOL_STARTED:
            going.set()

    assert event.type is EventType.TURN_COMPLETED


def test_a_stream_ends_where_the_turn_waits_and_another_follows_it(desk):
    """E7: a question ends the stream; what its answer leads to is read from there."""
    stream = desk.runner.stream(desk.agent(call("pay", amount=5), "Paid.", tools=[pay]), "go")
    asked = list(stream)
    assert asked[-1].type is EventType.TURN_SUSPENDED

    stream.turn.approve()
    rest = list(desk.runner.follow(stream.turn, after=asked[-1].sequence))

    assert [*asked, *rest] == desk.store.events(stream.turn.id)
    assert rest[-1].type is EventType.TURN_COMPLETED


def test_following_moves_on_a_turn_that_stands_ready(desk):
    turn = desk.runner.create(desk.agent("Hi."), "go")

    events = list(desk.runner.follow(turn))

    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert turn.text == "Hi."


def test_waiting_for_the_turn_of_a_stream_waits_for_its_run(desk):
    stream = desk.runner.stream(desk.agent(call("count", n=1), "Counted.", tools=[count]), "go")

    assert stream.turn.wait(10).text == "Counted."
    assert list(stream)[-1].type is EventType.TURN_COMPLETED


def test_retries_that_are_due_soon_belong_to_the_stream(desk):
    """R1."""
    stream = desk.runner.stream(desk.agent(model=flaky()), "go")

    types = [event.type for event in stream]

    assert EventType.RETRY_SCHEDULED in types
    assert types[-1] is EventType.TURN_COMPLETED


def flaky():
    """A model that is reached at the second try."""
    replies = iter([ConnectionError("cut"), "Here."])
    return ScriptedModel(lambda _: next(replies))


class Nudge:
    """Lets the tool of a turn go on when the reader has left."""

    def __init__(self):
        self.left = threading.Event()

        @tool
        def linger() -> str:
            """Go on once the reader has left."""
            assert self.left.wait(10)
            return "done"

        self.tool = linger


def read_until_a_tool_runs(stream, error=None):
    for event in stream:
        if event.type is EventType.TOOL_STARTED:
            if error is not None:
                raise error
            break


@pytest.mark.parametrize("way", ["break", "raise", "close", "with"])
def test_a_reader_that_leaves_does_not_take_the_turn_with_it(desk, way):
    nudge = Nudge()
    stream = desk.runner.stream(desk.agent(call("linger"), "Done.", tools=[nudge.tool]), "go")
    turn = stream.turn

    if way == "raise":
        with pytest.raises(LookupError):
            read_until_a_tool_runs(stream, LookupError())
    elif way == "with":
        with stream:
            read_until_a_tool_runs(stream)
    else:
        read_until_a_tool_runs(stream)
    if way == "close":
        stream.close()
        assert list(stream) == []
    del stream
    nudge.left.set()

    assert turn.wait(10).text == "Done."


def test_a_stream_that_is_dropped_listens_no_more(memory_desk):
    """E10."""
    nudge = Nudge()
    runner = memory_desk.another_runner()
    before = len(runner._publisher._listeners)
    for event in runner.stream(memory_desk.agent(call("linger"), "Done.", tools=[nudge.tool]), "go"):
        if event.type is EventType.TOOL_STARTED:
            break
    gc.collect()

    assert len(runner._publisher._listeners) == before
    nudge.left.set()
    assert runner.restore(event.turn_id).wait(10).text == "Done."


def test_closing_may_end_the_turn_too(desk):
    """X2."""
    nudge = Nudge()
    stream = desk.runner.stream(desk.agent(call("linger"), "Done.", tools=[nudge.tool]), "go")
    next(stream)

    stream.close(cancel=True, reason="seen enough")
    nudge.left.set()

    assert stream.turn.wait(10).status == "CANCELLED"


class Breaks(AgentMiddleware):
    """Fails each step its own way."""

    def __init__(self, error):
        self.error = error

    def around_step(self, turn, proceed):
        proceed(turn)
        raise self.error


@pytest.mark.parametrize(("error", "told"), [(OSError("no disk"), OSError), (StopIteration("x"), RuntimeError)])
def test_what_the_run_raises_comes_after_the_last_event(desk, error, told):
    """T3."""
    agent = desk.agent(call("count", n=1), "x", tools=[count], middlewares=[Breaks(error)])
    stream, events = desk.runner.stream(agent, "go"), []

    with pytest.raises(told, match=r"no disk|StopIteration"):
        events.extend(iter(stream.__next__, None))

    assert desk.store.events(stream.turn.id)[-1].type is EventType.TURN_FAILED
    assert list(stream) == []


class Failing(MemoryStore):
    """Loses its disk in the middle of a turn."""

    def commit(self, turn, events, **rest):
        if turn.version >= 1:
            raise StoreError("the disk is full")
        super().commit(turn, events, **rest)


def test_the_loss_of_the_store_reaches_the_reader():
    """P18."""
    stream = AgentRunner(Failing()).stream(Agent("a", model=ScriptedModel("hi")), "go")

    with pytest.raises(StoreError, match="disk is full"):
        list(stream)


def chatter(pieces: int):
    """A model that says a text in so many pieces."""
    return ScriptedModel(lambda request: [TextDelta(f"{n} ") for n in range(pieces)])


def test_a_slow_reader_holds_nobody_up_and_misses_no_word():
    """Where much waits, text is joined; order, words and every other event are kept. Reading stays bounded."""
    n = 20_000
    runner = AgentRunner(MemoryStore(), options=AgentRunnerOptions(text_beat=0))
    stream = runner.stream(Agent("a", model=chatter(n)), "go")

    stream.turn.wait(60)  # the reader sleeps, and the turn is over
    waiting = len(stream._waiting._held)
    events = list(stream)

    told = runner.store.events(stream.turn.id)
    assert sum(event.type is EventType.MODEL_TEXT_DELTA for event in told) == n
    assert waiting <= JOINS_BEYOND + len([event for event in told if event.type is not EventType.MODEL_TEXT_DELTA])
    spoken = "".join(event.data["content"] for event in events if event.type is EventType.MODEL_TEXT_DELTA)
    assert spoken == "".join(f"{k} " for k in range(n))
    others = [event for event in told if event.type is not EventType.MODEL_TEXT_DELTA]
    assert [event for event in events if event.type is not EventType.MODEL_TEXT_DELTA] == others
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})


def test_events_told_through_another_runner_are_not_missed(desk):
    """A10: while a retry waits, another runner on the same store says something."""
    waits = threading.Event()

    def wait(condition, holds, timeout):
        waits.set()
        return condition.wait_for(holds, 10)

    runner = desk.another_runner(wait=wait)
    stream = runner.stream(desk.agent(model=flaky()), "go")
    assert waits.wait(10)
    desk.another_runner().interrupt(stream.turn.id, "rather this")

    events = list(stream)

    stream.turn.wait(10)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert EventType.TURN_RESUMED in [event.type for event in events]


def test_listeners_in_another_thread_are_read_to_the_end(desk):
    """E23."""
    with ThreadPoolExecutor(1) as executor:
        runner = desk.another_runner(event_executor=executor)
        executor.submit(time.sleep, 0.2)
        stream = runner.stream(desk.agent("Hi."), "go")
        assert list(stream) == desk.store.events(stream.turn.id)


# -- coroutines --------------------------------------------------------------------------------------------------------


def test_a_coroutine_reads_the_same_events_and_its_loop_stays_free(desk):
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.005)

    @tool
    def dawdle() -> str:
        """Take a tenth of a second."""
        time.sleep(0.1)
        return "done"

    async def main():
        ticking = asyncio.create_task(tick())
        stream = await desk.runner.astream(desk.agent(call("dawdle"), "Done.", tools=[dawdle]), "go")
        async with stream:
            events = [event async for event in stream]
        ticking.cancel()
        return stream.turn, events

    turn, events = asyncio.run(main())

    assert events == desk.store.events(turn.id)
    assert len(ticks) >= 5


def test_a_coroutine_that_is_cancelled_leaves_the_turn_to_its_worker(desk):
    nudge = Nudge()

    async def main():
        stream = await desk.runner.astream(desk.agent(call("linger"), "Done.", tools=[nudge.tool]), "go")

        async def read():
            async for _ in stream:
                pass

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        return stream.turn

    turn = asyncio.run(main())
    nudge.left.set()

    assert turn.wait(10).text == "Done."


def test_what_the_run_raises_reaches_the_coroutine(desk):
    agent = desk.agent("x", middlewares=[Breaks(OSError("no disk"))])

    async def main():
        async for _ in await desk.runner.astream(agent, "go"):
            pass

    with pytest.raises(OSError, match="no disk"):
        asyncio.run(main())


def test_reading_on_the_runtimes_own_loop_is_refused(desk):
    """Y8."""
    inner = desk.agent("inner", id="inner")

    @tool
    async def read() -> str:
        """Read a stream the wrong way."""
        stream = await desk.runner.astream(inner, "go", options=AgentTurnOptions(streaming=False))
        try:
            next(stream)
        except WrongThreadError as error:
            return f"{error}: {len([event async for event in stream])}"
        return "read"

    turn = desk.run(call("read"), "Done.", tools=[read])

    assert "async for" in turn.messages[-2].content
    assert turn.messages[-2].content.endswith(": 8")
