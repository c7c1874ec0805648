"""The one background event loop on which async tools and async models run.

A coroutine runs there in the caller's context, and the caller waits for it in its own thread; so a blocking call of
the runtime made on this loop would wait for itself, and is refused.
"""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from ..core.errors import WrongThreadError

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop, started when it is first needed."""
    global _loop, _thread
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="agentflex-loop", daemon=True)
            _thread.start()
        return _loop


def is_background_thread() -> bool:
    """Whether the caller runs on the background loop."""
    return threading.current_thread() is _thread


def refuse_on_loop(met: str, mend: str) -> None:
    """Raise WrongThreadError for a blocking call on the background loop."""
    if is_background_thread():
        raise WrongThreadError(met, mend)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on the background loop, in the caller's context, and wait for its result here."""
    if is_background_thread():
        coroutine.close()
        raise WrongThreadError("an async tool or model", "await")
    loop, context = background_loop(), contextvars.copy_context()
    done: Future[T] = Future()
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        task = loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(finish)

    def finish(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            done.set_exception(asyncio.CancelledError("the coroutine cancelled itself"))
        elif error := task.exception():
            done.set_exception(error)
        else:
            done.set_result(task.result())

    loop.call_soon_threadsafe(begin)
    try:
        return done.result()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        raise


def iterate(source: AsyncIterable[T]) -> Iterator[T]:
    """The items of an async iterable, one at a time, for a thread that is not a coroutine."""
    iterator = aiter(source)
    missing = object()

    async def next_item() -> Any:
        return await anext(iterator, missing)

    async def close() -> None:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()

    try:
        while (item := wait_for(next_item())) is not missing:
            yield item
    finally:
        wait_for(close())
