"""The shape of the notebooks, not what they do (`pytest --nbmake notebooks` runs them)."""

import ast
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def test_is_a_valid_notebook(path: Path):
    nbformat.validate(read(path))


def test_is_kept_without_outputs_and_execution_counts(path: Path):
    kept = [cell.id for cell in code_cells(path) if cell.outputs or cell.execution_count is not None]

    assert kept == [], "run `just strip`"
    assert "widgets" not in read(path).metadata, "the state of widgets is saved in it"


def test_begins_with_a_title_and_what_the_reader_will_know(path: Path):
    first = read(path).cells[0]

    assert first.cell_type == "markdown"
    title, _, promise = first.source.strip().partition("\n")
    assert title.startswith("# ")
    assert promise.strip()


def test_has_fewer_than_15_cells(path: Path):
    assert len(read(path).cells) < 15


def test_no_cell_is_empty(path: Path):
    assert [cell.id for cell in read(path).cells if not cell.source.strip()] == []


def test_ends_in_an_assert(path: Path):
    last = read(path).cells[-1]

    assert last.cell_type == "code"
    assert isinstance(ast.parse(last.source).body[-1], ast.Assert)


def test_its_name_is_a_number_and_words(path: Path):
    number, _, words = path.stem.partition("_")

    assert number.isdecimal()
    assert words.replace("_", "").isalnum()
