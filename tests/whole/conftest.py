"""The whole house at work: a lab on disk, whose promises are checked as a test ends; and real kernels."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentflex_nb as af
from agentflex_nb.testing import check

from ..runtime.conftest import at_once, desk, memory_desk, store
from ..widgets.conftest import Kernel, Published

__all__ = ["at_once", "desk", "memory_desk", "store"]

HOME = Path(af.__file__).parents[1]
PRELUDE = """
import asyncio, os, threading, time
import agentflex_nb as af
script = af.ScriptedModel
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[af.Lab]:
    """A lab without a page."""
    with af.Lab(tmp_path / "lab.duckdb", user="alice", display=False, durability="process") as lab:
        yield lab
        check(lab)


class LiveKernel(Kernel):
    """A kernel that can be stopped as a person stops it, and killed as nobody should."""

    def __init__(self, manager: Any, client: Any) -> None:
        super().__init__(client)
        self.manager = manager

    def begin(self, code: str, cell: str = "cell") -> str:
        """Start a cell without waiting for its end; the id of its messages."""
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": False}
        message = self._client.session.msg("execute_request", content, metadata={"cellId": cell})
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def finish(self, cell: str, wait: float = 0.0) -> Published:
        """What was published until that cell had ended."""
        return self._published(wait, until=cell)

    def until(self, heard: Callable[[Published], Any]) -> Published:
        """What was published until something was heard."""
        published, deadline = Published(), time.monotonic() + 30
        while not heard(published):
            published.messages.append(self._client.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic())))
        return published

    def press(self, comm: str, verb: str, subshell: str | None = None, **data: Any) -> None:
        """Press a button of a panel, on the main shell or on a subshell, as a page does."""
        content = {"kind": "press", "verb": verb, "press": "p", **data}
        said = {"comm_id": comm, "data": {"method": "custom", "content": content}}
        message = self._client.session.msg("comm_msg", said)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)

    def subshell(self) -> str:
        """Open one; its id."""
        self._client.control_channel.send(self._client.session.msg("create_subshell_request"))
        while True:
            reply = self._client.control_channel.get_msg(timeout=10)
            if reply["msg_type"] == "create_subshell_reply":
                return str(reply["content"]["subshell_id"])

    def interrupt(self) -> None:
        """The stop button."""
        self.manager.interrupt_kernel()

    def kill(self) -> None:
        """kill -9."""
        self.manager.signal_kernel(9)
        self.end()

    def end(self) -> None:
        """Shut it down, whatever it does."""
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def new_kernel(tmp_path: Path) -> Iterator[Callable[..., LiveKernel]]:
    """Starts kernels that work in one folder and import a package from `home`."""
    from jupyter_client.manager import start_new_kernel

    kernels: list[LiveKernel] = []

    def start(home: Path = HOME, **environment: str) -> LiveKernel:
        folders = {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
        given = {**os.environ, "PYTHONPATH": str(home), **folders, **environment}
        given.pop("AGENTFLEX_WIDGETS", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the kernel's own libraries warn of on their way up
            kernel = LiveKernel(*start_new_kernel(kernel_name="python3", env=given, cwd=str(tmp_path)))
        kernels.append(kernel)
        assert not kernel.run(PRELUDE).error
        return kernel

    yield start
    for kernel in kernels:
        kernel.end()
