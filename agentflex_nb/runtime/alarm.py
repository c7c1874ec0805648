"""Timers: one thread for all of them, however many turns wait for a time."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Alarm:
    """Calls functions at their time, in its own thread; they must return at once. One that raises is logged."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def set(self, seconds: float, function: Callable[[], None]) -> None:
        """Call it after so many seconds."""
        with self._condition:
            heapq.heappush(self._waiting, (time.monotonic() + max(seconds, 0.0), next(self._numbers), function))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentflex-alarm", daemon=True)
                self._thread.start()
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting or (left := self._waiting[0][0] - time.monotonic()) > 0:
                    self._condition.wait(left if self._waiting else None)
                _, _, function = heapq.heappop(self._waiting)
            try:
                function()
            except Exception:
                _log.exception("%r failed at its time", function)


ALARM = Alarm()
