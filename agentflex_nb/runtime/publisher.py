"""Hands events to listeners: in the order of the turn, one at a time, and never at the cost of the run.

A turn's events wait in its mailbox; whoever finds the mailbox idle delivers them. No lock is held while a listener runs;
what is published meanwhile, also from within a listener, is delivered after it.
"""

import inspect
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from ..core.errors import InvalidAgentError
from ..core.events import AgentEvent
from .ports import AgentEventListener

_log = logging.getLogger(__name__)


class Mailbox:
    """The events of one turn that are not delivered yet."""

    __slots__ = ("busy", "idle", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: deque[AgentEvent] = deque()
        self.busy: int | None = None  # the thread that delivers
        self.idle = threading.Condition(self.lock)


class Publisher:
    """The listeners of a runner, and how events reach them."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._listeners: dict[Any, AgentEventListener] = {}
        self._lock = threading.Lock()
        self._executor = executor
        self.errors: dict[str, int] = {}
        """How often each listener raised, by its key's text."""

    def add(self, listener: AgentEventListener, key: Any = None) -> None:
        """Register it; one that is known under the same key is replaced, so a cell run twice registers once.

        Raises:
            InvalidAgentError: it cannot be called, or is a coroutine function, which nobody would await.
        """
        called = listener if inspect.isroutine(listener) else getattr(listener, "__call__", None)
        if not callable(listener):
            raise InvalidAgentError(f"listener {listener!r}", "a function of an event", "pass a function")
        if inspect.iscoroutinefunction(called):
            mend = "make it a plain function that hands the event to your loop (loop.call_soon_threadsafe)"
            raise InvalidAgentError(f"the coroutine function {listener!r} as a listener", "a plain function", mend)
        with self._lock:
            self._listeners = {**self._listeners, _key(listener, key): listener}

    def remove(self, listener: AgentEventListener, key: Any = None) -> None:
        """Forget it; it gets nothing more. Unknown ones are no error."""
        with self._lock:
            known = _key(listener, key)
            self._listeners = {kept: value for kept, value in self._listeners.items() if kept != known}

    @property
    def listeners(self) -> tuple[AgentEventListener, ...]:
        """Those registered now."""
        return tuple(self._listeners.values())

    def drain(self, mailbox: Mailbox) -> None:
        """Deliver what waits, unless somebody does already."""
        with mailbox.lock:
            if mailbox.busy is not None or not mailbox.waiting:
                return
            mailbox.busy = threading.get_ident()
        while True:
            with mailbox.lock:
                if not mailbox.waiting:
                    mailbox.busy = None
                    mailbox.idle.notify_all()
                    return
                event = mailbox.waiting.popleft()
            self._hand_over(event)

    def settle(self, mailbox: Mailbox, timeout: float) -> None:
        """Wait until everything is delivered, unless this very thread is delivering."""
        self.drain(mailbox)
        with mailbox.lock:
            if mailbox.busy not in (None, threading.get_ident()):
                mailbox.idle.wait_for(lambda: mailbox.busy is None, timeout)

    def _hand_over(self, event: AgentEvent) -> None:
        if self._executor is None:
            self._deliver(event)
            return
        try:
            self._executor.submit(self._deliver, event)
        except RuntimeError:  # its owner has shut it down: the run goes on without it
            self._count("event executor", event)

    def _deliver(self, event: AgentEvent) -> None:
        for key, listener in self._listeners.items():
            try:
                listener(event)
            except KeyboardInterrupt:
                raise
            except BaseException:  # a listener observes: whatever it raises, the run and the others go on
                self._count(str(key), event)
                if os.environ.get("AGENTFLEX_DEBUG_LISTENERS") == "1":
                    raise

    def _count(self, key: str, event: AgentEvent) -> None:
        self.errors[key] = self.errors.get(key, 0) + 1
        if self.errors[key] == 1:
            _log.exception(
                "listener %s raised at event %s (%s); further errors are counted", key, event.event_id, event.type
            )


def post(mailbox: Mailbox, events: Iterable[AgentEvent]) -> None:
    """Put events into the mailbox; the caller holds whatever numbers them, so that they stand in order."""
    with mailbox.lock:
        mailbox.waiting.extend(events)


def _key(listener: AgentEventListener, key: Any) -> Any:
    if key is not None:
        return key
    if inspect.isfunction(listener) and "<" not in listener.__qualname__:
        return f"{listener.__module__}.{listener.__qualname__}"
    if inspect.ismethod(listener):
        return id(listener.__self__), listener.__func__
    return id(listener)
