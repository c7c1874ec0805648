"""The events of a run, one after another, for a loop that reads them while the turn goes on in a worker thread.

Rule 1: a run never waits for its reader. What a reader has not taken waits here; where much waits, pieces of the
model's text are joined, and nothing else is ever left out.
Rule 2: a reader that leaves takes nothing with it: the turn goes on to its next stable stop.
"""

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, Self

from ..core.deltas import Joining
from ..core.events import AgentEvent
from .handle import AgentTurn
from .loop import refuse_on_loop
from .workers import TICK, in_thread

JOINS_BEYOND = 256  # events that wait for a reader as they are; beyond, a piece of text joins the one before it


class Source(Protocol):
    """What a stream asks of the runner that made it."""

    def add_event_listener(self, listener: Callable[[AgentEvent], object], key: Any = None) -> object: ...
    def remove_event_listener(self, listener: Callable[[AgentEvent], object], key: Any = None) -> object: ...
    def events(self, turn: str, *, after: int = 0) -> list[AgentEvent]: ...
    def cancel(self, turn: str, reason: str = "") -> bool: ...


class AgentStream(Iterator[AgentEvent], AsyncIterator[AgentEvent]):
    """The events of a turn in order, as they happen, for `for` and for `async for`.

    It ends when the turn is done or suspended; what the run itself raised is raised after the last event. Leaving the
    loop early loses nothing: the turn goes on in its worker thread, and `close(cancel=True)` is how to end it too.
    A slow reader holds nobody up. Up to 256 events wait for it one by one; beyond that, text that waits is joined.
    """

    def __init__(self, source: Source, turn: AgentTurn, run: Callable[[], object], after: int = 0) -> None:
        self.turn = turn
        """The handle of the turn."""
        self._source = source
        self._waiting = waiting = _Waiting(after)
        hear = partial(_hear, waiting, source, turn.id)
        self._leave = weakref.finalize(self, _left, waiting, source, hear)  # a reader that breaks off just drops it
        self._leave.atexit = False
        source.add_event_listener(hear)
        try:
            in_thread(partial(_run, waiting, source, turn.id, hear, run), f"agentflex-stream-{turn.id[-6:]}")
        except BaseException:
            self._leave()
            raise

    def __next__(self) -> AgentEvent:
        """The next event; waits for it."""
        refuse_on_loop("a stream's for", "async for")
        if (event := self._waiting.wait_and_take()) is not None:
            return event
        self._waiting.raise_once()
        raise StopIteration

    async def __anext__(self) -> AgentEvent:
        """The next event; an interrupt is felt within 0.2 s."""
        while (event := self._waiting.take()) is None:
            if self._waiting.is_over:
                self._waiting.raise_once()
                raise StopAsyncIteration
            await self._waiting.news()
        return event

    def close(self, *, cancel: bool = False, reason: str = "") -> None:
        """Read no more. The turn goes on, unless it is to be cancelled: then it ends at its next safe point."""
        self._leave()
        if cancel:
            self._source.cancel(self.turn.id, reason)

    def __enter__(self) -> Self:
        """The stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Read no more; the turn goes on."""
        self.close()

    async def __aenter__(self) -> Self:
        """The stream itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Read no more; the turn goes on."""
        self.close()


class _Waiting:
    """What a reader has not taken yet. Events come in from any thread; one reader takes them."""

    def __init__(self, heard: int) -> None:
        self.heard = heard
        """The number of the newest event that came in; what is not above it has been here before."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._held: deque[Joining] = deque()
        self._alarms: set[Callable[[], None]] = set()
        self._over = self._left = False
        self._error: BaseException | None = None

    def put(self, event: AgentEvent) -> None:
        """One more event, unless it has come before, or the reader has left."""
        with self._lock:
            if self._left or event.sequence <= self.heard:
                return
            self.heard = event.sequence
            if len(self._held) < JOINS_BEYOND or not self._held[-1].takes(event):
                self._held.append(Joining(event))
            self._tell()

    def end(self, error: BaseException | None) -> bool:
        """No more will come; False if nobody is left to be told the error."""
        with self._lock:
            self._over, self._error = True, error
            self._tell()
            return not self._left

    def leave(self) -> None:
        """The reader has left."""
        with self._lock:
            self._left = self._over = True
            self._error = None
            self._held.clear()
            self._tell()

    def take(self) -> AgentEvent | None:
        """The next event; None if there is none yet."""
        with self._lock:
            return self._held.popleft().whole if self._held else None

    def wait_and_take(self) -> AgentEvent | None:
        """The next event, as soon as there is one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._over)
            return self._held.popleft().whole if self._held else None

    async def news(self) -> None:
        """Wait until something has come, or for 0.2 s."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()

        def alarm() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(came.set)

        with self._lock:
            if self._held or self._over:
                return
            self._alarms.add(alarm)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), TICK)
        finally:
            with self._lock:
                self._alarms.discard(alarm)

    @property
    def is_over(self) -> bool:
        """Nothing waits, and nothing will come."""
        with self._lock:
            return self._over and not self._held

    def raise_once(self) -> None:
        """Raise what the run raised, the first time that this is asked for."""
        with self._lock:
            error, self._error = self._error, None
        match error:
            case None:
                return
            case StopIteration() | StopAsyncIteration():  # would look like a good end
                raise RuntimeError(f"the run raised {error!r}") from error
            case _:
                raise error

    def _tell(self) -> None:
        self._changed.notify_all()
        for alarm in self._alarms:
            alarm()


def _hear(waiting: _Waiting, source: Source, turn_id: str, event: AgentEvent) -> None:
    if event.turn_id == turn_id:
        if event.sequence > waiting.heard + 1:
            _catch_up(waiting, source, turn_id)  # told before the stream listened, or through another runner
        waiting.put(event)


def _catch_up(waiting: _Waiting, source: Source, turn_id: str) -> None:
    for event in source.events(turn_id, after=waiting.heard):
        waiting.put(event)


def _run(
    waiting: _Waiting,
    source: Source,
    turn_id: str,
    hear: Callable[[AgentEvent], None],
    run: Callable[[], object],
) -> None:
    raised: BaseException | None = None
    try:
        run()
    except BaseException as error:
        raised = error
    with suppress(Exception):  # a store that is lost has been told of by the run itself
        _catch_up(waiting, source, turn_id)
    source.remove_event_listener(hear)
    if not waiting.end(raised) and raised is not None:
        raise raised  # the reader has left: the worker's log is told


def _left(waiting: _Waiting, source: Source, hear: Callable[[AgentEvent], None]) -> None:
    waiting.leave()
    source.remove_event_listener(hear)
