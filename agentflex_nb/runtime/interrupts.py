"""The kernel's stop button: honoured while something is performed, held back while something is saved or told.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the middle of a commit that would
lose an event; so while a turn is driven in the main thread, the signal only leaves a note, except inside `open`.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class InterruptGate:
    """Holds SIGINT back for the thread that enters it; nothing at all in any thread but the main one."""

    def __init__(self) -> None:
        self._installed = False
        self._before: Any = None
        self._open = False
        self._noted = False

    def __enter__(self) -> "InterruptGate":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):
                signal.signal(signal.SIGINT, self._handle)
                self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)
            self._installed = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let an interrupt through here, also one that was held back before."""
        self.raise_noted()
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def note(self) -> None:
        """Remember an interrupt that came another way, for instance out of a listener."""
        self._noted = True

    def raise_noted(self) -> None:
        """Raise what was held back."""
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            self._open = False
            self._before(number, frame)
        else:
            self._noted = True
