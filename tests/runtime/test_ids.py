"""Ids of turns sort by time and do not collide."""

from datetime import UTC, datetime, timedelta

from agentflex_nb.runtime.ids import new_turn_id

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_ids_sort_by_the_time_at_which_they_were_made():
    ids = [new_turn_id(START + timedelta(milliseconds=n * 997)) for n in range(500)]

    assert ids == sorted(ids)
    assert {len(id) for id in ids} == {26}


def test_many_ids_of_one_millisecond_differ():
    assert len({new_turn_id(START) for _ in range(10_000)}) == 10_000


def test_an_id_needs_no_quoting_anywhere():
    assert all(new_turn_id(START).isalnum() for _ in range(100))
