"""One lab, one owner: a lock file beside the lab, held for as long as the lab is open.

Rule 1: the lock is an flock on a file of its own. DuckDB locks its file too, but any `open(lab).close()` in the owning
process drops that lock unseen, and two processes that then write lose what the other one wrote.
Rule 2: the operating system lets go of the lock when its process dies, so a stale file is no obstacle.
Rule 3: within a process a file is known by device and inode, so two paths to one file are one lab.
"""

import fcntl
import json
import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.errors import LabLockedError, StoreError

_PATIENCE = 0.8  # seconds: a kernel that restarts needs a moment to let go, and a person should not wait longer
_PAUSE = 0.05

_held: "weakref.WeakSet[LabLock]" = weakref.WeakSet()
_taking = threading.Lock()


class LabLock:
    """The lock of one lab, held from the call of `take` to `release`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.lab: tuple[int, int] | None = None
        """Device and inode of the lab's file, once it is there."""

    @classmethod
    def take(cls, lab: Path) -> "LabLock":
        """Take the lock of this lab.

        Raises:
            LabLockedError: it is open already, here or in another process; says who holds it.
            StoreError: the folder does not allow a lock file.
        """
        with _taking:
            here = _identity(lab)
            if any(lock.is_held and (lock.path == _beside(lab) or (here and lock.lab == here)) for lock in _held):
                raise LabLockedError(str(lab), "this process", "use the lab that is open here, or close it first")
            lock = cls(_beside(lab), _locked(lab))
            lock._sign()
            lock.identify(lab)
            _held.add(lock)
            return lock

    @property
    def is_held(self) -> bool:
        """Whether it still keeps others away."""
        return self._descriptor >= 0

    def identify(self, lab: Path) -> None:
        """Look at the lab's file: from now on any other path to it is refused here."""
        self.lab = _identity(lab)

    def release(self) -> None:
        """Let others open the lab. A second call does nothing."""
        if self.is_held:
            self.path.unlink(missing_ok=True)  # first: whoever waits for this file notices that it is gone
            self.forget()

    def forget(self) -> None:
        """Close the file without a word: in a forked child, where the lock is the parent's and stays so."""
        if self.is_held:
            os.close(self._descriptor)
            self._descriptor = -1

    def _sign(self) -> None:
        text = json.dumps(_signature(), ensure_ascii=False).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


def _locked(lab: Path) -> int:
    path, until = _beside(lab), time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            here = path.parent.is_dir()
            mend = "allow writing in this folder, or choose another place" if here else "make its folder first"
            raise StoreError(
                f"{lab} cannot be opened: {path.name} cannot be written ({error.strerror}); {mend}."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > until:
                raise LabLockedError(
                    str(lab), _holder(path), "close it there, or wait until that process ends"
                ) from None
            time.sleep(_PAUSE)
            continue
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # its owner removed it while we waited for it


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        here, there = os.fstat(descriptor), path.stat()
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return False


def _beside(lab: Path) -> Path:
    return lab.with_name(f"{lab.name}.lock")


def _identity(lab: Path) -> tuple[int, int] | None:
    try:
        found = lab.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _signature() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "notebook": os.environ.get("JPY_SESSION_NAME", ""),  # Jupyter Server's name for it
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _holder(path: Path) -> str:
    try:
        who = json.loads(path.read_text("utf-8"))
        notebook = f", notebook {who['notebook']}" if who["notebook"] else ""
        return f"process {who['pid']} on {who['host']}{notebook}, since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _after_fork_in_child() -> None:
    global _taking
    _taking = threading.Lock()
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
