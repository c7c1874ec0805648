"""The kernel's stop button: honoured while something is performed, held back while something is saved or told.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the middle of a commit that would
lose an event; so within `held` the signal only leaves a note, and `honoured` opens a window in it, where the user's own
code runs. Both nest, as runs do whose tools run turns. In other threads than the main one neither does anything.
"""

import signal
import threading
from types import FrameType
from typing import Any


class _Button:
    """The stop button of this process. Only the main thread touches it."""

    installed = False
    held = False
    pressed = False
    before: Any = None


class held:
    """A block in which the stop button waits for the end of the block."""

    __slots__ = ("_active", "_outermost", "_was")

    def __enter__(self) -> None:
        self._active = _in_main_thread()
        if not self._active:
            return
        self._outermost, self._was = not _Button.installed, _Button.held
        if not self._outermost:
            _Button.held = True
            return
        before = signal.getsignal(signal.SIGINT)
        if not callable(before):  # ignored, or fatal: no KeyboardInterrupt will ever be raised here
            self._active = False
            return
        _Button.before, _Button.pressed, _Button.held = before, False, True
        signal.signal(signal.SIGINT, _press)
        _Button.installed = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._active:
            return
        if self._outermost:
            _Button.installed = False
            signal.signal(signal.SIGINT, _Button.before)
            opens = True
        else:
            _Button.held = self._was
            opens = not self._was
        if opens and _Button.pressed:
            _Button.pressed = False
            if kind is None or not issubclass(kind, KeyboardInterrupt):
                _Button.before(signal.SIGINT, None)


class honoured:
    """A block, within a held one, that lets the stop button through; also a press that was held back before."""

    __slots__ = ("_active", "_was")

    def __enter__(self) -> None:
        self._active = _in_main_thread() and _Button.installed
        if not self._active:
            return
        self._was, _Button.held = _Button.held, False
        if _Button.pressed:
            _Button.pressed, _Button.held = False, self._was  # who is stopped at the door does not come in
            _Button.before(signal.SIGINT, None)
            _Button.held = False  # a handler that does not raise stops nobody

    def __exit__(self, *_: object) -> None:
        if self._active:
            _Button.held = self._was


_MAIN = threading.main_thread().ident


def _in_main_thread() -> bool:
    return threading.get_ident() == _MAIN


def _press(number: int, frame: FrameType | None) -> None:
    if _Button.held:
        _Button.pressed = True
    else:
        _Button.before(number, frame)
