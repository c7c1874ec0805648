"""Budgets: B1 to B9, R6, X6, Z1, Z8, Z25."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.advance import advance
from agentflex_nb.core.agent import AgentBudget, AgentRetryPolicy
from agentflex_nb.core.budget import deadline
from agentflex_nb.core.effects import RunTool
from agentflex_nb.core.errors import ErrorSummary, InvalidAgentError
from agentflex_nb.core.inputs import ModelRetried
from agentflex_nb.core.machine import AgentStatus

from .play import (
    ALLOW,
    ASK,
    GO,
    Crash,
    Played,
    approve,
    breaks,
    calls,
    continue_,
    fails,
    falters,
    judge,
    play,
    reply,
    results,
    returns,
    waits,
    wants,
    with_policy,
)


def within(**limits):
    return with_policy(budget=AgentBudget(**limits), retry=AgentRetryPolicy(jitter=0))


def spent(played: Played) -> tuple:
    assert played.turn.status is AgentStatus.BUDGET_EXCEEDED
    told = played.last("BUDGET_EXCEEDED")
    assert (
        played.turn.error.message == told["reason"] == f"{told['key']} (used={told['used']:g}, limit={told['limit']:g})"
    )
    return told["key"], told["used"], told["limit"]


@pytest.mark.parametrize(
    "name", ["max_seconds", "max_total_tokens", "max_input_tokens", "max_output_tokens", "max_tool_calls"]
)
def test_a_limit_is_zero_for_none_and_never_negative(name):
    """B1"""
    assert getattr(AgentBudget(**{name: 0}), name) == 0
    for wrong in (-1, float("nan"), True, "1"):
        with pytest.raises(InvalidAgentError, match=name):
            AgentBudget(**{name: wrong})


def test_without_limits_nothing_ends_a_turn():
    """B1"""
    played = play(GO, calls(wants("look")), judge(), waits(10**6), returns(), GO, reply("hi", tokens=(10**9, 10**9)))

    assert played.turn.status is AgentStatus.COMPLETED


@pytest.mark.parametrize(
    ("limit", "used"), [("max_total_tokens", 15), ("max_input_tokens", 10), ("max_output_tokens", 5)]
)
def test_tokens_over_the_limit_run_none_of_the_calls_and_each_is_answered(limit, used):
    """B2, B3, X6, Z1"""
    played = play(GO, calls(wants("look"), wants("mail")), policy=within(**{limit: used - 1}))

    assert spent(played) == (limit, used, used - 1)
    assert played.every("TOOL_STARTED") == []
    assert list(results(played)) == ["t1.1.0", "t1.1.1"]
    assert all("budget" in text for text in results(played).values())
    assert played.history[-1][0] == "assistant"


def test_tokens_up_to_the_limit_are_allowed_and_an_answer_is_kept_even_above_it():
    """B2"""
    assert play(GO, calls(wants("look")), judge(), policy=within(max_total_tokens=15)).every("TOOL_STARTED")
    assert play(GO, reply("hi"), policy=within(max_total_tokens=1)).turn.output == "hi"


def test_tokens_of_failed_attempts_count():
    """B9"""
    played = play(GO, fails(tokens=20), policy=within(max_input_tokens=19))

    assert spent(played) == ("max_input_tokens", 20, 19)


def test_the_call_that_would_go_over_the_limit_does_not_run():
    """B2, B4"""
    played = play(GO, calls(wants("look"), wants("look")), judge(), returns("first"), policy=within(max_tool_calls=1))

    assert spent(played) == ("max_tool_calls", 1, 1)
    assert results(played)["t1.1.0"] == "first"
    assert "Not run" in results(played)["t1.1.1"]


def test_attempts_of_one_call_count_once():
    """B4, Z25"""
    moves = (GO, calls(wants("mail")), judge(), falters(), continue_(), GO, falters(), continue_(), GO, returns("sent"))

    played = play(*moves, policy=within(max_tool_calls=1))

    assert (played.turn.status, played.turn.tool_call_count) == (AgentStatus.RUNNING, 1)


def test_no_one_is_asked_about_a_call_that_could_not_run():
    """B4"""
    played = play(GO, calls(wants("look"), wants("pay")), judge(ALLOW, ASK), returns(), policy=within(max_tool_calls=1))

    assert spent(played)[0] == "max_tool_calls"
    assert played.every("TOOL_APPROVAL_REQUESTED") == []


def test_seconds_are_those_of_work():
    """B2: no further call of anything."""
    played = play(GO, waits(9), calls(wants("look")), judge(), waits(2), returns("late"), policy=within(max_seconds=10))

    key, used, limit = spent(played)
    assert (key, limit) == ("max_seconds", 10)
    assert used == pytest.approx(11, abs=0.1)
    assert results(played) == {"t1.1.0": "late"}, "what was done is kept"


def test_time_over_the_limit_runs_none_of_the_calls():
    """B3"""
    played = play(GO, waits(11), calls(wants("look")), policy=within(max_seconds=10))

    assert (spent(played)[0], played.every("TOOL_STARTED")) == ("max_seconds", [])


def test_waiting_for_a_person_or_a_retry_is_free():
    """B8"""
    asked = (GO, calls(wants("pay")), judge(ASK), waits(10**6), approve(), GO, judge(), returns())
    retried = (GO, fails(), waits(10**6), continue_())

    played = play(*asked, *retried, GO, reply("hi"), policy=within(max_seconds=10))

    assert played.turn.status is AgentStatus.COMPLETED
    assert played.turn.active_seconds < 1


def test_a_spent_budget_ends_a_scheduled_retry_before_anything_is_done_again():
    """R6: nobody waits for what could not be done."""
    played = play(GO, calls(wants("mail")), judge(), waits(11), falters(), policy=within(max_seconds=10))

    assert spent(played)[0] == "max_seconds"
    assert (played.every("RETRY_SCHEDULED"), played.last("TOOL_FAILED")["retries"]) == ([], False)
    assert len(played.every("TOOL_STARTED")) == 1
    assert results(played)["t1.1.0"].startswith("Started, but its outcome is not known")


def test_a_budget_that_its_retries_use_up_ends_the_turn_at_the_next_one():
    """R6, B2: time at work, over all attempts."""
    played = play(GO, calls(wants("mail")), judge(), waits(6), falters(), policy=within(max_seconds=10))
    assert played.turn.status is AgentStatus.RETRY_SCHEDULED

    played.say(waits(3600), continue_(), GO, waits(6), falters())

    assert spent(played)[0] == "max_seconds"
    assert len(played.every("TOOL_STARTED")) == 2


def test_a_model_that_fails_beyond_its_time_is_not_asked_again():
    """R6, Z8"""
    played = play(GO, waits(11), fails(), policy=within(max_seconds=10))

    assert (spent(played)[0], played.every("RETRY_SCHEDULED")) == ("max_seconds", [])


def test_what_is_used_survives_the_process():
    """B2, P6"""
    played = play(GO, waits(8), calls(wants("mail")), judge(), Crash(), policy=within(max_seconds=10))
    assert played.turn.active_seconds >= 8

    played.say(GO)
    assert isinstance(played.effect, RunTool)
    assert spent(played.say(waits(3), returns()))[0] == "max_seconds"


def test_a_running_turn_knows_when_its_time_is_over():
    """B2"""
    played = play(GO, policy=within(max_seconds=10))

    left = deadline(played.turn) - played.turn.seen_at
    assert left.total_seconds() == pytest.approx(10, abs=0.1)
    assert deadline(play(GO).turn) is None
    assert deadline(play(policy=within(max_seconds=10)).turn) is None, "one that waits uses nothing up"


@given(
    st.floats(1e-6, 100),
    st.lists(st.timedeltas(timedelta(0), timedelta(seconds=3)), max_size=8),
)
def test_time_is_up_at_the_very_moment_at_which_the_turn_knows_that_it_will_be(most, spells):
    """B2, Z8: whoever leaves a stream then, finds the budget used up, however the time before adds up."""
    played = play(GO, policy=within(max_seconds=most))
    turn = played.turn
    for spell in spells:
        again = ModelRetried(error=ErrorSummary(kind="ValueError", message="boom"))
        turn = advance(played.definition, turn, again, turn.seen_at + spell).turn

    ends = deadline(turn)
    left = advance(played.definition, turn, breaks("left"), ends)
    early = advance(played.definition, turn, breaks("left"), ends - timedelta(microseconds=1))

    assert left.turn.status is AgentStatus.BUDGET_EXCEEDED
    assert early.turn.status is AgentStatus.FAILED or ends == turn.seen_at


def test_rounds_that_failed_are_no_rounds():
    """B5: successful ones count."""
    limited = with_policy(max_iterations=1, retry=AgentRetryPolicy(max_retries=3))

    played = play(GO, fails(), continue_(), GO, fails(), continue_(), GO, reply("hi"), policy=limited)

    assert (played.turn.output, played.turn.iteration_count) == ("hi", 1)


def test_a_turns_own_policy_replaces_the_agents():
    """B6"""
    assert play(GO, calls(wants("look")), policy=within(max_total_tokens=1)).turn.status is AgentStatus.BUDGET_EXCEEDED
    assert play(GO, calls(wants("look")), judge()).turn.status is AgentStatus.RUNNING
