"""Where this process runs: under a notebook that can show a panel, or not."""

import os
import sys
from collections.abc import Callable
from typing import Any

SWITCH = "AGENTFLEX_WIDGETS"
"""The environment variable that forces plain text when it says "off"."""


def is_notebook() -> bool:
    """Whether a panel can be shown: the process is a Jupyter kernel, and AGENTFLEX_WIDGETS is not "off"."""
    return os.environ.get(SWITCH, "").lower() != "off" and getattr(_shell(), "kernel", None) is not None


def running_cell() -> tuple[str, str]:
    """The cell that runs here, and which run of it this is; ("", "") where the front end does not say."""
    shell = _shell()
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return str(parent.get("metadata", {}).get("cellId", "")), str(parent.get("header", {}).get("msg_id", ""))


def after_each_cell(callback: Callable[[object], None]) -> None:
    """Call it whenever a cell has ended, before the front end is told so; given twice, it is called once."""
    shell = _shell()
    if hasattr(shell, "events"):
        shell.events.register("post_run_cell", callback)


def _shell() -> Any:
    """IPython's shell; asking for it must not load IPython where nothing else has (0.2 s)."""
    loaded = sys.modules.get("IPython")
    return loaded.get_ipython() if loaded else None
