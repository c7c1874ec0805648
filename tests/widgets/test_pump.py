"""The pump: one thread, a bounded rate, nobody waits."""

import threading
import time

import pytest

from agentflex_nb.widgets.pump import Pump


@pytest.fixture
def pump():
    pump = Pump()
    yield pump
    pump.stop()


class Counted:
    """A panel that counts its beats."""

    def __init__(self, owes: int = 0) -> None:
        self.beats: list[float] = []
        self.threads: set[str] = set()
        self.owes = owes

    def beat(self, now: float) -> bool:
        self.beats.append(now)
        self.threads.add(threading.current_thread().name)
        self.owes -= 1
        return self.owes > 0


def test_marks_within_a_beat_are_one_beat(pump):
    panel = Counted()
    for _ in range(10_000):
        pump.mark(panel)

    assert pump.flush(panel, 2)
    assert len(panel.beats) <= 3


def test_a_panel_beats_at_most_twenty_times_a_second(pump):
    panel, end = Counted(), time.monotonic() + 0.5
    while time.monotonic() < end:
        pump.mark(panel)
        time.sleep(0.001)

    assert pump.flush(panel, 2)
    assert 3 <= len(panel.beats) <= 12


def test_all_panels_share_one_thread(pump):
    panels = [Counted() for _ in range(20)]
    for panel in panels:
        pump.mark(panel)

    assert all(pump.flush(panel, 2) for panel in panels)
    assert {name for panel in panels for name in panel.threads} == {"agentflex-pump"}


def test_many_panels_stay_under_three_hundred_messages_a_second(pump):
    panels, end = [Counted() for _ in range(60)], time.monotonic() + 1.0
    while time.monotonic() < end:
        for panel in panels:
            pump.mark(panel)
        time.sleep(0.01)

    assert all(pump.flush(panel, 2) for panel in panels)
    assert sum(len(panel.beats) for panel in panels) <= 480  # 300 and the beats that begin and end the second


def test_a_panel_that_owes_something_beats_again(pump):
    panel = Counted(owes=3)
    pump.mark(panel)

    assert pump.flush(panel, 2)
    assert len(panel.beats) == 3


def test_a_panel_that_raises_does_not_silence_the_others(pump, caplog):
    class Broken:
        def beat(self, now: float) -> bool:
            raise RuntimeError("no screen")

    broken, good = Broken(), Counted()
    pump.mark(broken)
    pump.mark(good)

    assert pump.flush(broken, 2)
    assert pump.flush(good, 2)
    assert len(good.beats) == 1
    assert "could not be drawn" in caplog.text


def test_a_flush_ends_when_its_time_is_up(pump):
    panel = Counted(owes=1_000_000)
    pump.mark(panel)

    assert not pump.flush(panel, 0.12)


def test_stopping_sends_what_is_left():
    pump, panel = Pump(), Counted()
    pump.mark(panel)

    pump.stop()

    assert len(panel.beats) == 1


def test_marking_costs_the_runner_next_to_nothing(pump):
    panel, started = Counted(), time.perf_counter()
    for _ in range(10_000):
        pump.mark(panel)

    assert (time.perf_counter() - started) / 10_000 < 50e-6
