"""Hands events to listeners: in the order of the turn, one at a time, and never at the cost of the run.

A turn's events wait in its mailbox; whoever finds the mailbox idle delivers them, each to the listeners of the runner
that it came from. No lock is held while a listener runs; what is posted meanwhile, also by a listener, comes after it.
"""

import inspect
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from types import BuiltinMethodType, MethodType
from typing import Any

from ..core.errors import InvalidAgentError
from ..core.events import AgentEvent
from .ports import AgentEventListener

_log = logging.getLogger(__name__)

_TO_LOOP = "make it a plain function that hands the event to your loop (loop.call_soon_threadsafe)"


class Publisher:
    """The listeners of a runner, and how an event reaches them."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._listeners: dict[Any, AgentEventListener] = {}
        self._behind: frozenset[Any] = frozenset()
        self._lock = threading.Lock()
        self._executor = executor
        self.errors: dict[str, int] = {}
        """How often each listener raised, by its key where that is text, else by its name."""

    def add(self, listener: AgentEventListener, key: Any = None, *, last: bool = False) -> None:
        """Register it; one that is known under the same key is replaced, so a cell run twice registers once.

        One that comes `last` is told each event after all others, and so knows what became of them.

        Raises:
            InvalidAgentError: it cannot be called, or is a coroutine function, which nobody would await.
        """
        if not callable(listener):
            raise InvalidAgentError(f"listener {listener!r}", "a function of an event", "pass a function")
        if any(inspect.iscoroutinefunction(part) for part in (listener, type(listener).__call__)):
            raise InvalidAgentError(f"the coroutine function {listener!r} as a listener", "a plain function", _TO_LOOP)
        with self._lock:
            known = _key(listener, key)
            behind = self._behind = self._behind | {known} if last else self._behind - {known}
            listeners = {**self._listeners, known: listener}
            self._listeners = dict(sorted(listeners.items(), key=lambda entry: entry[0] in behind))

    def remove(self, listener: AgentEventListener, key: Any = None) -> None:
        """Forget it, under whatever keys it is known, or under this one; it gets nothing more. Unknown is no error."""
        with self._lock:
            known = _key(listener, key)
            self._listeners = {
                kept: value
                for kept, value in self._listeners.items()
                if kept != known and not (key is None and value == listener)
            }

    def tell(self, event: AgentEvent) -> None:
        """Give the event to every listener, here or on the executor.

        Raises:
            KeyboardInterrupt: a listener raised it; the others have got the event.
        """
        if self._executor is None:
            self._deliver(event)
            return
        try:
            self._executor.submit(self._deliver, event)
        except Exception:  # its owner has shut it down: the run goes on without it
            self._count("event executor", event)

    def _deliver(self, event: AgentEvent) -> None:
        interrupt: KeyboardInterrupt | None = None
        for key, listener in self._listeners.items():
            if key not in self._listeners:
                continue  # one before it has removed it
            try:
                _call(listener, event)
            except KeyboardInterrupt as error:
                interrupt = error
            except BaseException:  # a listener observes: whatever it raises, the run and the others go on
                self._count(_name(key, listener), event)
                if os.environ.get("AGENTFLEX_DEBUG_LISTENERS") == "1":
                    raise
        if interrupt is not None:
            raise interrupt

    def _count(self, name: str, event: AgentEvent) -> None:
        with self._lock:
            self.errors[name] = count = self.errors.get(name, 0) + 1
        if count == 1:
            _log.exception(
                "listener %s raised at event %s (%s); further errors are counted", name, event.event_id, event.type
            )


class Mailbox:
    """The events of one turn that are not delivered yet, each with the publisher that tells it."""

    __slots__ = ("_busy", "_idle", "_lock", "_settling", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting: deque[tuple[Publisher, AgentEvent]] = deque()
        self._busy: int | None = None  # the thread that delivers
        self._settling = 0  # how many wait for its end

    @property
    def is_left_waiting(self) -> bool:
        """Whether something waits and nobody delivers."""
        return bool(self._waiting) and self._busy is None

    def post(self, publisher: Publisher, events: Iterable[AgentEvent]) -> None:
        """Put events in; the caller holds whatever numbers them, so that they stand in order."""
        with self._lock:
            for event in events:
                self._waiting.append((publisher, event))

    def drain(self) -> None:
        """Deliver what waits, unless somebody does already.

        Raises:
            KeyboardInterrupt: a listener raised it; later events wait.
        """
        if not self._waiting:
            return
        with self._lock:
            if self._busy is not None or not self._waiting:
                return
            self._busy = threading.get_ident()
        waiting = self._waiting
        try:
            while True:
                while waiting:
                    publisher, event = waiting.popleft()  # nobody else takes while this thread is busy
                    publisher.tell(event)
                with self._lock:  # what is posted from now on is for the next one who drains
                    if not waiting:
                        self._rest()
                        return
        except BaseException:
            with self._lock:
                self._rest()
            raise

    def settle(self, timeout: float) -> None:
        """Wait until nobody delivers any more, unless this very thread does."""
        with self._lock:
            if self._busy not in (None, threading.get_ident()):
                self._settling += 1
                try:
                    self._idle.wait_for(lambda: self._busy is None, timeout)
                finally:
                    self._settling -= 1

    def _rest(self) -> None:
        self._busy = None
        if self._settling:
            self._idle.notify_all()


def _call(listener: AgentEventListener, event: AgentEvent) -> None:
    left = listener(event)
    if left is not None and inspect.iscoroutine(left):
        left.close()
        raise InvalidAgentError(f"listener {listener!r} returned a coroutine", "nothing", _TO_LOOP)


def _key(listener: AgentEventListener, key: Any) -> Any:
    if key is not None:
        return key
    if inspect.isfunction(listener) and "<" not in listener.__qualname__:
        return f"{listener.__module__}.{listener.__qualname__}"
    if isinstance(listener, MethodType | BuiltinMethodType):  # made anew each time that it is named
        return id(listener.__self__), getattr(listener, "__func__", listener.__name__)
    return id(listener)


def _name(key: Any, listener: AgentEventListener) -> str:
    return key if isinstance(key, str) else getattr(listener, "__qualname__", type(listener).__name__)
