"""The one thread of a process that sends to all panels, at a bounded rate.

Rule 1: whoever has news only marks the panel; it never waits for a browser.
Rule 2: a beat sends at most one patch a panel, and beats are far enough apart to stay under 300 messages a second:
a Jupyter server silently drops what goes beyond 1,000.
"""

import atexit
import logging
import threading
import time
from typing import Protocol

BEAT = 0.05  # seconds between two beats, at least
RATE = 300  # messages a second, over all panels

_log = logging.getLogger(__name__)


class Pumped(Protocol):
    """A panel, as the pump sees it."""

    def beat(self, now: float) -> bool:
        """Send what is new at this monotonic time; True if something is left for a later beat."""
        ...


class Pump:
    """Beats while there is something to send, and sleeps while there is not."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._dirty: dict[int, Pumped] = {}
        self._beating: frozenset[int] = frozenset()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def mark(self, panel: Pumped) -> None:
        """There is news for this panel."""
        with self._changed:
            if id(panel) in self._dirty or self._stopped:
                return
            self._dirty[id(panel)] = panel
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="agentflex-pump", daemon=True)
                self._thread.start()
                atexit.register(self.stop)
            self._changed.notify_all()

    def flush(self, panel: Pumped, timeout: float) -> bool:
        """Wait until nothing of this panel is left to send; False if it is after `timeout` seconds."""
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._owes(panel) or self._stopped, timeout)

    def stop(self) -> None:
        """Send what is left, and end the thread; called before the interpreter ends."""
        with self._changed:
            self._stopped, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)
        atexit.unregister(self.stop)

    def _owes(self, panel: Pumped) -> bool:
        return id(panel) in self._dirty or id(panel) in self._beating

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._dirty or self._stopped)
                batch, self._dirty = self._dirty, {}
                self._beating = frozenset(batch)
                last = self._stopped
            left = [panel for panel in batch.values() if self._beat(panel)]
            with self._changed:
                self._beating = frozenset()
                if last:
                    self._changed.notify_all()
                    return
                self._dirty.update({id(panel): panel for panel in left})
                self._changed.notify_all()
            time.sleep(max(BEAT, len(batch) / RATE))

    def _beat(self, panel: Pumped) -> bool:
        try:
            return panel.beat(time.monotonic())
        except Exception:  # one panel must not silence the others
            _log.exception("a panel could not be drawn")
            return False


_shared = Pump()


def shared_pump() -> Pump:
    """The pump of this process."""
    return _shared
