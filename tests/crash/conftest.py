"""What the crash campaign found, in figures, below the results of the tests."""

from collections import Counter, defaultdict
from typing import Any

import pytest

collect_ignore = ["live.py", "mend.py", "shop.py"]  # the processes that are killed, not tests

_figures: defaultdict[str, Counter[str]] = defaultdict(Counter)


@pytest.fixture
def figures() -> dict[str, Counter[str]]:
    """Kind of store -> how often what happened."""
    return _figures


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for kind, counts in _figures.items():
        told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        terminalreporter.write_line(f"killed and mended ({kind}): {told}")
