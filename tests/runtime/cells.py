"""Cells as a notebook runs them: code without a file, whose source is kept under a name made of its content."""

import hashlib
import linecache
from typing import Any


def run_cell(source: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run a cell in the notebook's namespace."""
    name = f"/nowhere/cell_{hashlib.sha1(source.encode()).hexdigest()[:8]}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)
    return namespace
