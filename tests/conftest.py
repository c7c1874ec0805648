"""What tests of every room share. Fixtures of one room stand in a conftest.py beside its tests."""

import os
from pathlib import Path

import pytest

collect_ignore = ["typing"]  # for mypy alone


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets that AGENTFLEX_DATA names; skips where it names none."""
    named = os.environ.get("AGENTFLEX_DATA")
    if not named:
        pytest.skip("AGENTFLEX_DATA names no folder of data sets")
    folder = Path(named)
    assert folder.is_dir(), f"AGENTFLEX_DATA names {named}, which is no folder: unset it, or name one"
    return folder
