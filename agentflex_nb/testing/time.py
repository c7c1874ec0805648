"""Time and ids that count, so that a test sees the same words in every run."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Condition

START = datetime(2026, 1, 1, tzinfo=UTC)


class CountingClock:
    """A clock for `AgentRunner(clock=, monotonic=, wait=)` that moves when it is told to, or by `step` at each look.

    >>> clock = CountingClock(step=1)
    >>> clock().second, clock().second
    (1, 2)
    """

    def __init__(self, step: float = 0.001, start: datetime = START) -> None:
        self._step, self._start, self._seconds = step, start, 0.0

    def __call__(self) -> datetime:
        """The time of day, after one more step."""
        self._seconds += self._step
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Seconds since the start; looking costs no time."""
        return self._seconds

    def wait(self, condition: Condition, holds: Callable[[], bool], timeout: float) -> bool:
        """Let the time pass at once, unless it holds already; for `AgentRunner(wait=)`."""
        if not holds():
            self.advance(timeout)
        return holds()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds


def counting_ids(prefix: str = "t") -> "CountingIds":
    """Ids for `AgentRunner(new_id=)`: t1, t2, t3."""
    return CountingIds(prefix)


class CountingIds:
    """Calls return t1, t2, t3.

    >>> new_id = CountingIds("t")
    >>> new_id(START), new_id(START)
    ('t1', 't2')
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self._count = prefix, 0

    def __call__(self, now: datetime) -> str:
        """The next id, whatever the time."""
        self._count += 1
        return f"{self._prefix}{self._count}"
