"""The runtime's pulse: one thread that gives every driven turn a look each 20 ms, and sleeps when there is none.

It sends text that waits while a model is silent, and saves events that no commit has carried within 100 ms.
"""

import atexit
import logging
import threading
import time
from typing import Protocol

_log = logging.getLogger(__name__)

TICK = 0.02  # seconds; half of the default text beat
_LINGER = 1.0  # seconds the thread stays awake without work, so that short turns in a row do not wake it each time


class Pulsed(Protocol):
    """Something that wants a look now and then."""

    def tick(self) -> None:
        """Do what is due, without waiting for anybody: others want their look too."""
        ...


class Beat:
    """A pulse; `BEAT` is that of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: dict[int, Pulsed] = {}
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def join(self, member: Pulsed) -> None:
        """Give it looks from now on."""
        with self._lock:
            self._members[id(member)] = member
            if not self._stopped and (self._thread is None or not self._thread.is_alive()):  # a fork leaves it dead
                self._thread = threading.Thread(target=self._run, name="agentflex-beat", daemon=True)
                self._thread.start()
                atexit.register(self.stop)
        if not self._awake.is_set():
            self._awake.set()

    def leave(self, member: Pulsed) -> None:
        """No more looks."""
        with self._lock:
            self._members.pop(id(member), None)

    def stop(self) -> None:
        """End the thread, before the interpreter does."""
        with self._lock:
            self._stopped, thread, self._thread = True, self._thread, None
        self._awake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)

    def _run(self) -> None:
        busy_until = time.monotonic() + _LINGER
        while not self._stopped:
            if self._look():
                busy_until = time.monotonic() + _LINGER
            elif time.monotonic() > busy_until:
                self._awake.clear()
                with self._lock:
                    if self._members:
                        continue
                self._awake.wait()
                busy_until = time.monotonic() + _LINGER
            time.sleep(TICK)

    def _look(self) -> bool:
        with self._lock:
            members = list(self._members.values())
        for member in members:
            try:
                member.tick()
            except Exception:  # one member's trouble must not stop the pulse of the others
                _log.exception("%r failed at the beat", member)
        return bool(members)


BEAT = Beat()
