"""What the machine says: time and bytes of this process, how fast it is now, how busy. Standard library only."""

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the clocks and counters of this process."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, of all threads."""
    written: int
    """Bytes given to write calls, whether they reached the disk or not."""

    @classmethod
    def now(cls) -> "Reading":
        """Look."""
        return cls(time.perf_counter(), time.process_time(), _counter("/proc/self/io", "wchar:"))

    def since(self, before: "Reading") -> "Reading":
        """What has been used since an earlier look."""
        return Reading(self.wall - before.wall, self.cpu - before.cpu, self.written - before.written)


def resident_mb(peak: bool = False) -> float:
    """Memory of this process that is in use, or was at most, in MB."""
    return _counter("/proc/self/status", "VmHWM:" if peak else "VmRSS:") / 1024


def calibration_ms() -> float:
    """CPU time of a fixed piece of Python, the best of five: what this machine, as busy as it is, makes of it."""

    def once() -> float:
        began, table, total = time.thread_time(), {}, 0
        for number in range(50_000):
            table[number & 511] = (number, total)
            total += len(table) ^ number
        return time.thread_time() - began

    return min(once() for _ in range(5)) * 1000


def load() -> float:
    """Processes that want to run, on average over the last minute."""
    return os.getloadavg()[0]


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    return statistics.quantiles(values, n=1000, method="inclusive")[min(round(share * 1000), 999) - 1]


def _counter(file: str, name: str) -> int:
    try:
        text = Path(file).read_text("utf-8")
    except OSError:  # not Linux: nothing to tell
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name)), 0)
