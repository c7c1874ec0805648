"""Public is what `__init__` lists: every listed name resolves, and the list is all that a notebook is offered."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import agentflex_nb

ROOMS = ["agentflex_nb"] + [
    f"agentflex_nb.{room.name}" for room in pkgutil.iter_modules(agentflex_nb.__path__) if room.ispkg
]


def names_of(room: str) -> list[str]:
    return list(getattr(importlib.import_module(room), "__all__", []))


def test_the_package_lists_its_names():
    assert names_of("agentflex_nb")


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in ROOMS for name in names_of(room)])
def test_a_listed_name_resolves(room: str, name: str):
    assert getattr(importlib.import_module(room), name) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_is_listed_twice_and_none_is_private(room: str):
    names = names_of(room)

    assert len(names) == len(set(names))
    assert [name for name in names if name.startswith("_") and name != "__version__"] == []


def test_completion_offers_every_listed_name():
    assert set(names_of("agentflex_nb")) <= set(dir(agentflex_nb))


def test_a_name_that_is_not_listed_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = agentflex_nb.no_such_name


def test_importing_the_package_loads_no_heavy_library():
    # pandas alone costs 400 ms and 77 MB
    heavy = {"duckdb", "pandas", "pyarrow", "ipywidgets", "anywidget", "IPython"}
    code = f"import sys, agentflex_nb; print(*sorted({heavy!r} & sys.modules.keys()))"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split() == []
