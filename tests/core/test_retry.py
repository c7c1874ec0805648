"""Trying again: R1 to R10, B9, E14, E18, O4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.advance import advance
from agentflex_nb.core.agent import AgentRetryPolicy
from agentflex_nb.core.effects import CallModel, RunTool
from agentflex_nb.core.errors import CommandRefusedError, InvalidAgentError, RefusalReason
from agentflex_nb.core.inputs import AgentResumeCommand as Say
from agentflex_nb.core.inputs import Cancel, Interrupt
from agentflex_nb.core.machine import AgentPhase, AgentStatus
from agentflex_nb.core.retry import delay

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
    piece,
    play,
    raises,
    reply,
    results,
    retry,
    returns,
    waits,
    wants,
    with_policy,
)

TWICE = with_policy(retry=AgentRetryPolicy(max_retries=2, jitter=0))
ASKING = with_policy(retry=AgentRetryPolicy(max_retries=1, jitter=0, when_exhausted="SUSPEND"))


def due_in(played: Played) -> float:
    waiting = played.turn.suspension
    assert waiting is not None
    assert waiting.due_at is not None
    return (waiting.due_at - played.events[-1].occurred_at).total_seconds()


def test_a_model_that_may_succeed_later_is_asked_again_when_it_is_due():
    """R1, E7, E14: the phase stays, and so does what the model was sent."""
    played = play(GO, piece("Al"), fails(), policy=TWICE)

    assert (played.turn.status, played.turn.phase) == (AgentStatus.RETRY_SCHEDULED, AgentPhase.MODEL)
    assert played.story[-1].split()[-5:] == [
        "MODEL_FAILED", "RETRY_SCHEDULED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_SUSPENDED",
    ]  # fmt: skip
    told = played.last("RETRY_SCHEDULED")
    assert (told["retry_count"], told["error"]["kind"], due_in(played)) == (1, "RateLimitError", 1.0)
    assert played.last("TURN_SUSPENDED")["next_runnable_at"] == told["next_runnable_at"]

    played.say(waits(1), retry(by="schedule"), GO)
    assert isinstance(played.effect, CallModel)
    assert (played.effect.request.attempt, played.last("MODEL_STARTED")["attempt"]) == (2, 2)
    assert played.say(piece("All")).last("MODEL_TEXT_DELTA")["attempt"] == 2


def test_a_retry_before_its_time_is_refused_and_continue_does_not_wait():
    """R5"""
    played = play(GO, fails(), policy=TWICE)
    before = played.turn

    with pytest.raises(CommandRefusedError, match="continue_ does not wait") as refusal:
        played.say(retry())

    assert (refusal.value.reason, played.turn) == (RefusalReason.NOT_DUE, before)
    assert played.say(continue_(), GO, reply("hi")).turn.output == "hi"


def test_after_the_last_attempt_the_turn_fails_and_its_history_is_closed():
    """R3, B9: what every attempt used is booked."""
    played = play(GO, fails(), policy=TWICE)
    for _ in range(2):
        played.say(continue_(), GO, fails())

    assert (played.turn.status, played.turn.error.kind) == (AgentStatus.FAILED, "RateLimitError")
    assert [data["attempt"] for data in played.every("MODEL_FAILED")] == [1, 2, 3]
    assert played.turn.usage.input_tokens == 9
    assert played.history[-1][0] == "assistant"


@pytest.mark.parametrize("policy", [TWICE, with_policy(retry=AgentRetryPolicy(max_retries=0))])
def test_what_will_not_pass_is_not_tried_again(policy):
    """R4: a retry is asked for by the error itself; none is guessed."""
    failed = breaks() if policy is TWICE else fails()

    assert play(GO, failed, policy=policy).turn.status is AgentStatus.FAILED


def test_each_success_begins_the_count_anew():
    """R8, Z10: three blips in a row of successes are no failure."""
    played = play(policy=with_policy(retry=AgentRetryPolicy(max_retries=1)))
    for _ in range(3):
        played.say(GO, fails(), continue_(), GO, calls(wants("look")), judge(), returns())

    assert played.turn.status is AgentStatus.RUNNING
    assert [data["retry_count"] for data in played.every("RETRY_SCHEDULED")] == [1, 1, 1]


def test_the_provider_is_heard_when_it_asks_for_more_time():
    """R2: up to the longest delay."""
    assert due_in(play(GO, fails(retry_after=7), policy=TWICE)) == 7
    assert due_in(play(GO, fails(retry_after=0.1), policy=TWICE)) == 1
    assert due_in(play(GO, fails(retry_after=1e9), policy=TWICE)) == 60


def test_a_safe_tool_is_run_again_under_the_same_id_and_counts_once():
    """R1, R8, B4, I2"""
    played = play(GO, calls(wants("mail")), judge(), falters(), policy=TWICE)
    assert (played.turn.status, played.turn.phase) == (AgentStatus.RETRY_SCHEDULED, AgentPhase.TOOLS)
    assert (played.last("TOOL_FAILED")["retries"], played.question.call_id) == (True, "t1.1.0")

    played.say(continue_(), GO)
    assert isinstance(played.effect, RunTool)
    assert played.effect.call.id == "t1.1.0"
    assert played.last("TOOL_STARTED")["attempt"] == 2
    played.say(returns("sent"))
    assert (played.turn.tool_call_count, played.history[-1]) == (1, ("tool", "sent"))
    assert played.turn.iteration_count == 1, "the model's decision is not asked for again"


def test_each_call_has_its_own_attempts():
    """R8, R1: what one used up is none of the other's."""
    once = with_policy(retry=AgentRetryPolicy(max_retries=1))
    again = (falters(), continue_(), GO, returns("sent"))

    played = play(GO, calls(wants("mail"), wants("mail")), judge(), *again, *again, policy=once)

    assert [data["retry_count"] for data in played.every("RETRY_SCHEDULED")] == [1, 1]
    assert results(played) == {"t1.1.0": "sent", "t1.1.1": "sent"}


def test_a_tool_that_is_not_safe_is_never_run_again_by_itself():
    """I2, R4"""
    played = play(GO, calls(wants("look")), judge(), falters(), policy=TWICE)

    assert (played.last("TOOL_FAILED")["retries"], played.history[-1][0]) == (False, "tool")
    assert play(GO, calls(wants("mail")), judge(), raises(), policy=TWICE).last("TOOL_FAILED")["retries"] is False


def test_a_tool_that_fails_each_time_is_told_to_the_model_after_the_last():
    """R3"""
    played = play(
        GO,
        calls(wants("mail")),
        judge(),
        falters("one"),
        continue_(),
        GO,
        falters("two"),
        continue_(),
        GO,
        policy=TWICE,
    )

    played.say(falters("three"))

    assert played.history[-1] == ("tool", "Error: ConnectionError: three")
    assert [data["retries"] for data in played.every("TOOL_FAILED")] == [True, True, False]


def test_a_person_decides_about_a_model_that_gave_up():
    """R10, O4, E18"""
    played = play(GO, fails(status=529, provider_code="overloaded"), continue_(), GO, fails(status=529), policy=ASKING)

    assert played.turn.status is AgentStatus.WAITING_FOR_MODEL
    failure = played.last("TURN_SUSPENDED")["metadata"]["model_failure"]
    assert {**failure} == {
        "failure_id": "t1.model.2", "type": "RateLimitError", "message": "slow down", "http_status": 529,
        "provider_error_code": "", "request_id": "", "attempts": 2,
    }  # fmt: skip
    played.say(retry(), GO)
    assert played.last("MODEL_STARTED")["attempt"] == 1
    assert played.say(reply("hi")).turn.output == "hi"


def test_a_model_that_gave_up_may_be_cancelled_and_its_history_is_closed():
    """O4, X3"""
    played = play(GO, fails(), continue_(), GO, fails(), Cancel(reason="enough"), policy=ASKING)

    assert (played.turn.status, played.history[-1][0]) == (AgentStatus.CANCELLED, "assistant")


def test_an_error_that_will_not_pass_is_nobodys_decision():
    assert play(GO, breaks(), policy=ASKING).turn.status is AgentStatus.FAILED


@pytest.mark.parametrize("said", [Cancel(reason="enough"), Interrupt(message="Stop that.")])
def test_a_scheduled_retry_is_left_at_once_when_somebody_wants_something_else(said):
    """Z2, X5"""
    played = play(GO, fails(), said, policy=TWICE)

    assert played.turn.suspension is None
    assert played.turn.status in (AgentStatus.CANCELLED, AgentStatus.READY)


def test_a_schedule_survives_the_process():
    """R1, P7: a retry that fell due while nobody was there is simply due."""
    played = play(GO, fails(), Crash(), waits(3_600), policy=TWICE)

    assert played.say(retry(), GO, reply("hi")).turn.output == "hi"


def test_cancelled_while_it_failed_nothing_is_scheduled():
    played = play(GO, Cancel(reason="enough"), fails(), policy=TWICE)

    assert (played.turn.status, played.every("RETRY_SCHEDULED")) == (AgentStatus.CANCELLED, [])


def test_an_approval_is_not_asked_for_again_by_a_retry():
    """R1, A3"""
    guarded = (
        GO,
        calls(wants("mail"), wants("pay")),
        judge(ALLOW, ASK),
        falters(),
        continue_(),
        GO,
        returns(),
        approve(),
        GO,
    )

    played = play(*guarded, policy=TWICE)

    assert len(played.every("TOOL_APPROVAL_REQUESTED")) == 1


def test_an_answer_of_another_kind_is_refused():
    played = play(GO, fails(), policy=TWICE)

    with pytest.raises(CommandRefusedError) as refusal:
        advance(played.definition, played.turn, Say.approve_tool(played.question.id), played.now())
    assert refusal.value.reason is RefusalReason.WRONG_KIND


@given(st.integers(1, 500), st.floats(0, 1), st.integers(0, 2**31), st.text(max_size=5))
def test_a_delay_is_the_same_on_every_replay_and_within_its_bounds(attempt, jitter, seed, key):
    """R2, R9"""
    policy = AgentRetryPolicy(initial_delay=0.5, factor=3, max_delay=20, jitter=jitter, seed=seed)
    steady = min(0.5 * 3 ** min(attempt - 1, 50), 20)

    found = delay(policy, attempt, key)

    assert found == delay(policy, attempt, key)
    assert steady * (1 - jitter) <= found <= min(steady * (1 + jitter), 20)


def test_jitter_tells_operations_and_seeds_apart():
    """R9"""
    delays = {delay(AgentRetryPolicy(seed=seed), 1, key) for seed in range(5) for key in ("a", "b")}

    assert len(delays) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1}, {"max_retries": 1.5}, {"max_retries": True}, {"initial_delay": -1},
        {"initial_delay": float("nan")}, {"max_delay": float("inf")}, {"factor": 0.5}, {"factor": float("inf")},
        {"jitter": -0.1}, {"jitter": 1.1}, {"when_exhausted": "PANIC"},
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    """R2"""
    with pytest.raises(InvalidAgentError, match=next(iter(wrong))):
        AgentRetryPolicy(**wrong)
