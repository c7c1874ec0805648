"""K18: notebooks where nobody sits: none hangs, none passes although something failed, none leaves anything behind."""

import json
import os
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

FOLDER = Path(__file__).parents[1] / "notebooks"
HEAD = """
import agentflex_nb as af
lab = af.Lab("ci.duckdb")
script = af.ScriptedModel

@af.tool
def breaks() -> str:
    "Break."
    raise ValueError("it broke")

@af.tool(approval=True)
def pay() -> str:
    "Pay."
    return "paid"
"""


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_elsewhere_without_a_home_and_stays_small_and_anonymous(path, tmp_path, monkeypatch):
    """K18: and again, beside the files that the first time left."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    for _ in range(2):
        notebook = execute(nbformat.read(path, as_version=4), tmp_path)

    outputs = json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    assert len(outputs) < 1_000_000
    assert str(tmp_path) not in outputs
    assert not re.search(rf"\b(pid|process) {os.getpid()}\b", outputs)
    assert {file.suffix for file in tmp_path.iterdir()} <= {".duckdb", ".live", ".lock", ""}


@pytest.mark.parametrize(
    ("cell", "raised"),
    [
        (
            'lab.start(af.Agent("a", model=script(script.call("breaks")), tools=[breaks]), "go").wait().check()',
            "it broke",
        ),
        (
            'lab.run(af.Agent("a", model=script(script.call("pay"), "Done."), tools=[pay]), "go").output',
            "UnansweredError",
        ),
        (
            'lab.run(af.Agent("a", model=script(script.call("pay")), tools=[pay]), "go", responder=af.fail_if_asked)',
            "UnansweredError",
        ),
    ],
)
def test_what_failed_elsewhere_fails_the_cell_that_collects_it_and_nothing_waits_for_a_person(cell, raised, tmp_path):
    """K18"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (HEAD, cell)])
    began = time.monotonic()

    with pytest.raises(CellExecutionError, match=raised):
        execute(notebook, tmp_path)

    assert time.monotonic() - began < 30
