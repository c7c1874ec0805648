"""What must hold of everything that a lab has kept: an SQL file for each promise, which finds what breaks it.

Rule: a check is a question that has no rows as its answer. They ask a lab in which nothing runs at the moment.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Protocol, TypeVar


class Rows(Protocol):
    """An answer that knows how many rows it has; a frame, for instance."""

    def __len__(self) -> int: ...


R = TypeVar("R", bound=Rows)


def checks() -> Mapping[str, str]:
    """Each check by its name, as SQL over a lab's tables."""
    return dict(sorted(_read()))


def broken(ask: Callable[[str], R]) -> dict[str, R]:
    """What breaks a promise, by the name of its check; empty when all hold. `ask` is the lab's `sql`."""
    answers = {name: ask(query) for name, query in checks().items()}
    return {name: rows for name, rows in answers.items() if len(rows)}


def _read() -> Iterator[tuple[str, str]]:
    for file in (files(__package__) / "sql").iterdir():
        if file.name.endswith(".sql"):
            yield file.name.removesuffix(".sql"), file.read_text("utf-8")
