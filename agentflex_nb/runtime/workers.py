"""Worker threads: turns that go on while nobody waits for them, and blocking calls made for a coroutine."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

TICK = 0.2  # seconds between two looks of a waiting coroutine; an interrupt is felt within it (ipykernel issue 881)


def in_ticks(condition: threading.Condition, holds: Callable[[], bool], timeout: float | None = None) -> bool:
    """`condition.wait_for`, in ticks: a signal that comes just before a wait begins would be felt at its end only."""
    until = None if timeout is None else time.monotonic() + timeout
    while not holds():
        left = TICK if until is None else min(TICK, until - time.monotonic())
        if left <= 0:
            return False
        condition.wait(left)
    return True


def settled(done: Future[R]) -> Future[R]:
    """Wait until it is done, in ticks."""
    while not done.done():
        with suppress(TimeoutError):
            done.exception(TICK)
    return done


def in_thread(function: Callable[[], object], name: str = "agentflex-worker") -> None:
    """Run it in a thread of its own, in the caller's context: prints stay with their cell, context variables too."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(_quietly, function), name=name, daemon=True).start()


async def in_worker(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run it in a worker thread, in the caller's context, and wait in ticks so that an interrupt is felt.

    If the coroutine is cancelled, the thread goes on; what it then returns or raises is nobody's.
    """
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()  # so that letting go of it here cancels nothing there

    def work() -> None:
        try:
            result = function(*args, **kwargs)
        except StopIteration as error:  # a future of asyncio would not take it, and wait for ever
            future.set_exception(RuntimeError(f"{function!r} raised {error!r}"))
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    waiting = asyncio.wrap_future(future)
    in_thread(work)
    try:
        while not waiting.done():
            await asyncio.wait({waiting}, timeout=TICK)
    except asyncio.CancelledError:
        waiting.cancel()
        raise
    return waiting.result()


def _quietly(function: Callable[[], object]) -> None:
    try:
        function()
    except (Exception, KeyboardInterrupt) as error:  # the turn has saved what failed; a thread has nobody else to tell
        _log.warning("a turn in a worker thread ended with %s: %s", type(error).__name__, error)
