"""Clocks and ids that count."""

from agentflex_nb.testing import CountingClock, counting_ids
from agentflex_nb.testing.time import START


def test_a_clock_moves_by_its_step_at_each_look_and_when_told():
    clock = CountingClock(step=1)

    assert [(clock() - START).total_seconds() for _ in range(2)] == [1, 2]
    clock.advance(60)
    assert clock.monotonic() == 62
    assert (clock() - START).total_seconds() == 63


def test_looking_at_monotonic_time_costs_no_time():
    clock = CountingClock(step=1)

    assert clock.monotonic() == clock.monotonic() == 0


def test_ids_count():
    new_id = counting_ids("turn")

    assert [new_id(START) for _ in range(3)] == ["turn1", "turn2", "turn3"]
