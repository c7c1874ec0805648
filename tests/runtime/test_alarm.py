"""Timers: one thread for all of them."""

import threading
import time

from agentflex_nb.runtime.alarm import Alarm


def test_functions_are_called_at_their_time_in_its_order():
    alarm, called, done = Alarm(), [], threading.Event()

    alarm.set(0.06, lambda: (called.append("late"), done.set()))
    alarm.set(0.02, lambda: called.append("soon"))
    alarm.set(-1, lambda: called.append("at once"))

    assert done.wait(10)
    assert called == ["at once", "soon", "late"]


def test_one_that_is_set_later_and_due_earlier_does_not_wait_for_the_other():
    alarm, done = Alarm(), threading.Event()
    alarm.set(60, lambda: None)

    began = time.monotonic()
    alarm.set(0.01, done.set)

    assert done.wait(10)
    assert time.monotonic() - began < 5


def test_those_of_one_moment_come_in_the_order_in_which_they_were_set():
    alarm, called, done = Alarm(), [], threading.Event()

    for number in range(20):
        alarm.set(0, lambda number=number: called.append(number))
    alarm.set(0.02, done.set)

    assert done.wait(10)
    assert called == list(range(20))


def test_a_function_that_raises_is_logged_and_the_others_are_called(caplog):
    alarm, done = Alarm(), threading.Event()

    alarm.set(0, lambda: 1 / 0)
    alarm.set(0.01, done.set)

    assert done.wait(10)
    assert "ZeroDivisionError" in caplog.text
