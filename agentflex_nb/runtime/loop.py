"""The one background event loop on which async tools and async models run.

A coroutine runs there in the caller's context, and the caller waits for it in its own thread; so a blocking call of
the runtime made on this loop would wait for itself, and is refused.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ..core.errors import WrongThreadError
from .workers import TICK, settled

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop, started when it is first needed."""
    global _loop, _thread
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():  # a fork leaves it dead
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_run_for_good, args=(_loop,), name="agentflex-loop", daemon=True)
            _thread.start()
        return _loop


def is_background_thread() -> bool:
    """Whether the caller runs on the background loop."""
    return threading.current_thread() is _thread


def refuse_on_loop(met: str, mend: str) -> None:
    """Raise WrongThreadError for a blocking call on the background loop."""
    if is_background_thread():
        raise WrongThreadError(met, mend)


def wait_for(awaitable: Awaitable[T]) -> T:
    """Await it on the background loop, in the caller's context, and wait for its result here.

    Whatever it raises is raised here, a CancelledError or SystemExit of its own too. An interrupt of this thread
    cancels it, and does not wait for it.
    """
    if is_background_thread():
        if isinstance(awaitable, Coroutine):
            awaitable.close()
        raise WrongThreadError("an async tool or model", "await")
    done: Future[T] = Future()

    async def carry_out() -> None:
        try:
            result = await awaitable
        except BaseException as error:  # nothing may reach the loop itself: SystemExit would end it
            done.set_exception(error)
        else:
            done.set_result(result)

    cancel = _begin(carry_out())
    try:
        return settled(done).result()
    except KeyboardInterrupt:
        cancel()
        raise


def awaited(value: Any) -> Any:
    """What user code returned; if that is to be awaited, what comes of it."""
    return wait_for(value) if inspect.isawaitable(value) else value


def iterate(source: AsyncIterable[T]) -> Iterator[T]:
    """The items of an async iterable, for a thread that is no coroutine. One task reads it from start to end."""
    arrived: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()

    async def read() -> None:
        try:
            async for item in source:
                arrived.put((item,))
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    if is_background_thread():
        raise WrongThreadError("an async model", "await")
    cancel = _begin(read())
    try:
        while (met := _next(arrived)) is not None:
            if isinstance(met, BaseException):
                raise met
            yield met[0]
    finally:
        cancel()


def _next(arrived: SimpleQueue[T]) -> T:
    while True:  # in ticks, as `settled` waits
        with suppress(Empty):
            return arrived.get(timeout=TICK)


def _begin(coroutine: Coroutine[Any, Any, None]) -> Callable[[], None]:
    """Begin it on the loop, in the caller's context; returns what cancels it."""
    loop, context = background_loop(), contextvars.copy_context()
    tasks: list[asyncio.Task[None]] = []
    loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(coroutine, context=context)))

    def cancel() -> None:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])

    return cancel


def _run_for_good(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # out of a task that a user's coroutine has started
            continue
