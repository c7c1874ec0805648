"""The two tables: total, in agreement, and every turn comes to an end."""

import doctest

import pytest

from agentflex_nb.core import machine
from agentflex_nb.core.errors import IllegalTransitionError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.inputs import Cancel, Command, Input, Proceed, Streamed, ToolReturned
from agentflex_nb.core.machine import (
    ASKED_IN,
    HEARS,
    TRANSITIONS,
    AgentPhase,
    AgentStatus,
    SuspensionType,
    follow,
    hear,
    mermaid,
    replay,
)

from .play import ASK, GO, approve, calls, judge, play, reply, wants

ENDED = [status for status in AgentStatus if status.is_terminal]
BLOCKED = [status for status in AgentStatus if status.is_blocked]


def reached_from(status: AgentStatus) -> set[AgentStatus]:
    reached, new = set(), {status}
    while new:
        reached |= new
        new = {target for one in new for target in TRANSITIONS[one].values()} - reached
    return reached


def test_both_tables_have_a_row_for_every_status():
    assert [*TRANSITIONS] == [*HEARS] == [*AgentStatus]


def test_every_input_is_heard_in_some_status_and_the_tables_know_no_others():
    heard = {kind for row in HEARS.values() for kind in row}

    assert heard == set(Input.__args__)
    assert set(Command.__args__) <= heard
    assert set(ASKED_IN) < heard


def test_a_status_listens_exactly_as_long_as_it_can_change():
    assert {status for status, row in HEARS.items() if row} == {status for status, row in TRANSITIONS.items() if row}


def test_every_status_that_can_change_can_be_cancelled():
    for status in set(AgentStatus) - set(ENDED):
        assert Cancel in HEARS[status]
        assert follow(status, EventType.TURN_CANCELLED) is AgentStatus.CANCELLED


def test_every_status_is_reachable():
    assert reached_from(AgentStatus.READY) == set(AgentStatus)


@pytest.mark.parametrize("status", AgentStatus)
def test_every_status_reaches_an_end(status: AgentStatus):
    assert reached_from(status) & set(ENDED)


def test_a_status_runs_waits_or_has_ended():
    runs = {AgentStatus.READY, AgentStatus.RUNNING}

    assert runs | {*BLOCKED} | {*ENDED} == set(AgentStatus)
    assert len(runs) + len(BLOCKED) + len(ENDED) == len(AgentStatus)


def test_each_kind_of_wait_has_a_status_of_its_own():
    waits = {target for (type, _), target in TRANSITIONS[AgentStatus.RUNNING].items() if type == "TURN_SUSPENDED"}

    assert waits == set(BLOCKED)
    assert len(waits) == len(SuspensionType)


@pytest.mark.parametrize("status", BLOCKED)
def test_what_waits_goes_on_only_as_ready(status: AgentStatus):
    assert follow(status, EventType.TURN_RESUMED) is AgentStatus.READY
    with pytest.raises(IllegalTransitionError):
        follow(status, EventType.STEP_STARTED)


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("type", EventType)
def test_to_a_turn_that_has_ended_nothing_can_happen(status: AgentStatus, type: EventType):
    """E8, I6: not even an event that changes no status."""
    with pytest.raises(IllegalTransitionError, match=f"is {status} met {type}"):
        follow(status, type)


def test_events_that_decide_nothing_leave_the_status_alone():
    assert follow(AgentStatus.WAITING_FOR_USER, EventType.SNAPSHOT_SAVED) is AgentStatus.WAITING_FOR_USER
    assert follow(AgentStatus.RUNNING, EventType.TOOL_PROGRESS) is AgentStatus.RUNNING


def test_a_refused_step_says_what_would_be_possible():
    with pytest.raises(IllegalTransitionError) as refused:
        follow(AgentStatus.WAITING_FOR_USER, EventType.TURN_COMPLETED)

    assert (refused.value.status, refused.value.met) == ("WAITING_FOR_USER", "TURN_COMPLETED")
    assert "TURN_RESUMED" in refused.value.expected


def test_an_input_is_heard_in_the_statuses_that_the_table_names():
    hear(AgentStatus.READY, Proceed, None)
    with pytest.raises(IllegalTransitionError) as refused:
        hear(AgentStatus.WAITING_FOR_CHILD, Proceed, None)
    assert set(refused.value.expected) == {"Cancel", "Migrate"}


def test_what_comes_back_is_heard_only_by_the_step_that_asked_for_it():
    """E8, Z8"""
    hear(AgentStatus.RUNNING, Streamed, AgentPhase.MODEL)
    hear(AgentStatus.RUNNING, ToolReturned, AgentPhase.TOOLS)
    for kind, step in [(Streamed, AgentPhase.TOOLS), (ToolReturned, AgentPhase.MODEL), (Streamed, None)]:
        with pytest.raises(IllegalTransitionError) as refused:
            hear(AgentStatus.RUNNING, kind, step)
        assert kind.__name__ not in refused.value.expected


def test_a_log_tells_the_status():
    """I7"""
    moves = [GO, calls(wants("pay")), judge(ASK), approve(), GO]
    played = play(*moves)

    told = [replay(played.events[:n]) for n in range(len(played.events) + 1)]
    assert [status.value for n, status in enumerate(told) if n == 0 or status is not told[n - 1]] == [
        "READY",
        "RUNNING",
        "WAITING_FOR_APPROVAL",
        "READY",
        "RUNNING",
    ]


def test_a_log_that_goes_on_after_its_end_is_no_log():
    played = play(GO, reply("hi"))

    with pytest.raises(IllegalTransitionError):
        replay([*played.events, played.events[0]])


def test_the_diagram_is_the_table():
    """Every arrow of the table is drawn, and no other; docs/how-it-works.md is held to it by test_docs.py."""
    drawn = mermaid()

    for status, row in TRANSITIONS.items():
        for (type, waits_for), target in row.items():
            source = "waiting" if status.is_blocked else status
            aim = "waiting" if target.is_blocked else "ended" if target.is_terminal else target
            (line,) = [line for line in drawn.splitlines() if line.startswith(f"    {source} --> {aim}: ")]
            assert type in line.partition(": ")[2].split(", ")
            assert not waits_for or f"        {target}: {target} ({waits_for})" in drawn.splitlines()


def test_the_examples_are_true():
    assert doctest.testmod(machine).failed == 0
