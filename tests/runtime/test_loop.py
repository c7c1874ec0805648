"""The background loop: async tools and models for callers that are no coroutines. K01, K19, K35."""

import asyncio
import contextvars
import threading
import time

import pytest

from agentflex_nb.core.errors import WrongThreadError
from agentflex_nb.core.model import Finish, TextDelta
from agentflex_nb.runtime.loop import background_loop, is_background_thread, iterate, refuse_on_loop, wait_for

name = contextvars.ContextVar("name", default="nobody")


async def give(value):
    await asyncio.sleep(0)
    return value


async def complain(error):
    raise error


def test_a_coroutine_runs_on_the_loop_in_the_callers_context():
    async def look():
        return is_background_thread(), name.get()

    name.set("alice")

    assert wait_for(look()) == (True, "alice")
    assert not is_background_thread()


def test_anything_that_can_be_awaited_can_be_waited_for():
    class Later:
        def __await__(self):
            return give(7).__await__()

    assert wait_for(Later()) == 7


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), MemoryError()],
)
def test_whatever_a_coroutine_raises_comes_to_the_caller_and_the_loop_lives_on(error):
    """K35: sys.exit in an async tool must end neither the loop nor the wait."""
    with pytest.raises(type(error)):
        wait_for(complain(error))

    assert wait_for(give(1)) == 1


def test_a_task_that_a_users_coroutine_starts_cannot_end_the_loop():
    async def careless():
        task = asyncio.ensure_future(complain(SystemExit(3)))
        await asyncio.sleep(0.05)
        return task.done()

    assert wait_for(careless()) is True
    assert wait_for(give(1)) == 1


def test_a_blocking_call_on_the_loop_is_refused():
    async def nested():
        with pytest.raises(WrongThreadError, match="await other"):
            refuse_on_loop("this", "await other")
        with pytest.raises(WrongThreadError):
            wait_for(give(1))
        with pytest.raises(WrongThreadError):
            next(iterate(numbers()))
        return "refused"

    assert wait_for(nested()) == "refused"


async def numbers(until=3, error=None, closed=None):
    try:
        for n in range(until):
            await asyncio.sleep(0)
            yield n
        if error:
            raise error
    finally:
        if closed is not None:
            closed.set()


def test_an_async_stream_is_read_by_one_task_from_start_to_end():
    tasks = set()

    async def stream():
        async with asyncio.timeout(5):  # belongs to the task that entered it
            for n in range(3):
                tasks.add(id(asyncio.current_task()))
                yield n

    assert list(iterate(stream())) == [0, 1, 2]
    assert len(tasks) == 1


def test_a_stream_that_breaks_gives_what_came_first():
    came = []
    with pytest.raises(ConnectionError):
        came.extend(iterate(numbers(2, ConnectionError("gone"))))
    source = iterate(numbers(2, ConnectionError("gone")))
    assert [next(source), next(source)] == [0, 1]
    with pytest.raises(ConnectionError):
        next(source)


def test_a_stream_that_is_left_is_closed():
    closed = threading.Event()

    async def endless():
        try:
            n = 0
            while True:
                n += 1
                yield n
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    source = iterate(endless())
    assert next(source) == 1
    source.close()

    assert closed.wait(3)


def test_an_iterable_that_is_no_generator_will_do():
    class Counter:
        def __init__(self):
            self.n = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.n += 1
            if self.n > 3:
                raise StopAsyncIteration
            return self.n

    assert list(iterate(Counter())) == [1, 2, 3]


def test_many_threads_share_the_loop(at_once):
    def work():
        return [wait_for(give(n)) for n in range(50)] + list(iterate(numbers(20)))

    assert at_once(*[work] * 8) == [[*range(50), *range(20)]] * 8
    assert background_loop() is background_loop()


class AsyncModel:
    """As a provider's adapter would be."""

    name = "async"

    def __init__(self, silence=0.0):
        self.silence = silence

    async def stream(self, request):
        for word in ("Hello ", "there."):
            await asyncio.sleep(self.silence)
            yield TextDelta(word)
        yield Finish(reason="stop")


class CoroutineModel(AsyncModel):
    async def stream(self, request):
        return super().stream(request)


@pytest.mark.parametrize("model", [AsyncModel(), CoroutineModel()])
def test_an_async_model_answers_in_every_way_of_calling(desk, model):
    """K01."""
    agent = desk.agent(model=model)

    async def inside():
        return desk.runner.run(agent, "go"), await desk.runner.arun(agent, "go")

    turns = [desk.run(model=model), *asyncio.run(inside())]

    assert [turn.output for turn in turns] == ["Hello there."] * 3


def test_turns_of_one_async_model_overlap(desk, at_once):
    agent = desk.agent(model=AsyncModel(silence=0.1))
    begun = time.monotonic()

    at_once(*[lambda: desk.runner.run(agent, "go") for _ in range(8)])

    assert time.monotonic() - begun < 1.2
