"""Worker threads, and coroutines that wait for them."""

import asyncio
import contextvars
import gc
import threading
import time

import pytest

from agentflex_nb.runtime.workers import in_thread, in_worker

name = contextvars.ContextVar("name", default="nobody")


def test_a_worker_runs_in_another_thread_in_the_callers_context():
    name.set("alice")

    who, thread = asyncio.run(in_worker(lambda: (name.get(), threading.get_ident())))

    assert who == "alice"
    assert thread != threading.get_ident()


def complain(error):
    raise error


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), asyncio.CancelledError()])
def test_what_it_raises_comes_to_the_coroutine(error):
    async def cell():
        with pytest.raises(type(error)):
            await in_worker(complain, error)

    asyncio.run(cell())


def test_a_stop_iteration_does_not_leave_the_coroutine_waiting_for_ever():
    async def cell():
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(in_worker(complain, StopIteration()), 5)

    asyncio.run(cell())


def test_the_loop_goes_on_while_the_worker_works():
    async def cell():
        ticks = 0
        working = asyncio.create_task(in_worker(time.sleep, 0.3))
        while not working.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(cell()) > 5


def test_a_cancelled_coroutine_lets_go_and_nothing_is_said_of_what_the_thread_then_does(caplog):
    gate, ended = threading.Event(), threading.Event()

    def work():
        gate.wait(5)
        ended.set()
        raise ValueError("nobody listens")

    async def cell():
        working = asyncio.create_task(in_worker(work))
        await asyncio.sleep(0.05)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        del working
        gate.set()
        await asyncio.sleep(0.1)
        gc.collect()

    asyncio.run(cell())

    assert ended.is_set()
    assert caplog.records == []


def test_a_thread_tells_the_log_what_nobody_else_can_hear(caplog):
    done = threading.Event()

    def work():
        try:
            raise ValueError("in a thread")
        finally:
            done.set()

    in_thread(work)
    assert done.wait(5)
    time.sleep(0.05)

    assert "in a thread" in caplog.text


def test_a_keyboard_interrupt_in_a_thread_is_logged_too(caplog):
    in_thread(lambda: complain(KeyboardInterrupt()))
    time.sleep(0.1)

    assert "KeyboardInterrupt" in caplog.text
