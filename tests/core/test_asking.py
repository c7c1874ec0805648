"""What must be answered before a call can go on: A15, A16, A19, F10, O1 to O3, X5, E24."""

import pytest

from agentflex_nb.core.effects import CheckCalls, RunTool
from agentflex_nb.core.errors import CommandRefusedError, IllegalTransitionError, RefusalReason
from agentflex_nb.core.inputs import AgentResumeCommand as Say
from agentflex_nb.core.inputs import Cancel, Interrupt
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.verdicts import ToolApprovalDecision

from .play import (
    ALLOW,
    ASK,
    DENY,
    GO,
    INVALID,
    MARKET,
    Crash,
    approve,
    asks_for,
    calls,
    decline,
    expires,
    judge,
    play,
    reject,
    reply,
    results,
    returns,
    supply,
    waits,
    wants,
)

SOON = ToolApprovalDecision.require_approval("May I?", expires_in=30)
SOON_YES = ToolApprovalDecision.require_approval("May I?", expires_in=30, when_expired="APPROVE")
GATED = (GO, calls(wants("pay", amount=70)), judge(ASK))
OUTSIDE = (GO, calls(wants("ship", order="O-1")), judge())


def refused(played, command) -> RefusalReason:
    before = played.turn
    with pytest.raises(CommandRefusedError) as refusal:
        played.say(command)
    assert played.turn is before
    return refusal.value.reason


# -- edited arguments --------------------------------------------------------------------------------------------------


def test_changed_arguments_are_judged_again_and_run_and_the_models_own_stay_in_the_history():
    """A15"""
    played = play(*GATED, approve(arguments={"amount": 7}, by="ann"), GO)
    assert isinstance(played.effect, CheckCalls)
    assert played.effect.calls[0].arguments == {"amount": 7}

    played.say(judge(ALLOW))
    assert isinstance(played.effect, RunTool)
    assert played.effect.call.arguments == {"amount": 7}
    assert played.last("TOOL_STARTED")["arguments"] == {"amount": 7}
    assert played.turn.messages[-1].tool_calls[0].arguments == {"amount": 70}
    assert played.turn.answers[0].data == {"amount": 7}


def test_a_policy_may_refuse_what_a_person_made_of_the_arguments():
    """A15, A19: the stricter judgement wins."""
    assert play(*GATED, approve(arguments={"amount": 7}), GO, judge(DENY)).last("TOOL_DENIED")["reason"]
    assert "INVALID" in str(play(*GATED, approve(arguments={"amount": 7}), GO, judge(INVALID)).last("TOOL_FAILED"))


# -- expiry ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "runs"), [(SOON, False), (SOON_YES, True)])
def test_a_question_that_nobody_answers_resolves_as_it_says(verdict, runs):
    """A16"""
    played = play(GO, calls(wants("pay")), judge(verdict), waits(31), expires(), GO)

    assert [answer.command_type for answer in played.turn.answers] == ["EXPIRED"]
    assert played.last("TURN_RESUMED")["metadata"] == {"by": "expiry", "outcome": "APPROVE" if runs else "REJECT"}
    assert bool(played.every("TOOL_DENIED")) is not runs
    assert played.say(judge(), returns()).every("TOOL_STARTED") if runs else not played.every("TOOL_STARTED")


def test_nothing_expires_before_its_time_or_twice():
    """A16"""
    early = play(GO, calls(wants("pay")), judge(SOON))
    with pytest.raises(IllegalTransitionError):
        early.say(expires())

    done = play(GO, calls(wants("pay")), judge(SOON), waits(31), expires())
    with pytest.raises(IllegalTransitionError):
        done.say(expires("t1.1.0"))


def test_an_answer_that_comes_too_late_is_told_so_before_and_after_somebody_looked():
    """A16, A8"""
    late = play(GO, calls(wants("pay")), judge(SOON), waits(31))

    assert refused(late, approve()) is RefusalReason.EXPIRED
    assert refused(late.say(expires()), approve("t1.1.0")) is RefusalReason.EXPIRED


def test_of_several_questions_only_the_late_one_resolves_by_itself():
    """A16, A19: the others wait on, and the calls still run in their order."""
    played = play(GO, calls(wants("pay", n=1), wants("pay", n=2)), judge(ASK, SOON_YES), waits(31), expires("t1.1.1"))
    assert [question.id for question in played.turn.questions] == ["t1.1.0"]
    assert played.turn.status is AgentStatus.WAITING_FOR_APPROVAL

    played.say(reject("no", by="ann"), GO, judge(), returns("paid"))

    assert [answer.command_type for answer in played.turn.answers] == ["EXPIRED", "REJECT_TOOL"]
    assert results(played)["t1.1.1"] == "paid"
    assert '"REJECTED"' in results(played)["t1.1.0"]


def test_changed_arguments_and_a_time_that_is_over_do_not_go_together():
    """A15, A16: too late is too late, whatever is answered."""
    late = play(GO, calls(wants("pay", amount=70)), judge(SOON), waits(31))

    assert refused(late, approve(arguments={"amount": 7})) is RefusalReason.EXPIRED
    assert late.say(expires(), GO).every("TOOL_STARTED") == []


def test_an_answer_in_time_is_an_answer():
    played = play(GO, calls(wants("pay")), judge(SOON), waits(29), approve(), GO, judge(), returns("paid"))

    assert results(played) == {"t1.1.0": "paid"}


def test_a_question_says_when_it_expires():
    played = play(GO, calls(wants("pay")), judge(SOON))

    assert played.last("TOOL_APPROVAL_REQUESTED")["expires_at"] == played.question.expires_at.isoformat()
    assert played.last("TURN_SUSPENDED")["questions"][0]["expires_at"] == played.question.expires_at.isoformat()


# -- declining ---------------------------------------------------------------------------------------------------------


def test_a_form_that_is_declined_is_told_to_the_model():
    """F10"""
    played = play(GO, calls(wants("request_user_input", form_key="address")), decline("not now", by="ann"), GO)

    assert results(played) == {"t1.1.0": '{"status": "DECLINED", "form_key": "address", "reason": "not now"}'}
    assert (played.turn.answers[0].command_type, played.turn.answers[0].reason) == ("DECLINE", "not now")


def test_a_tool_whose_form_is_declined_does_not_run_again():
    """F10, F3"""
    played = play(GO, calls(wants("look")), judge(), asks_for(), decline("not now"), GO)

    assert len(played.every("TOOL_STARTED")) == 1
    assert '"status": "DECLINED"' in results(played)["t1.1.0"]


def test_only_a_form_can_be_declined():
    assert refused(play(*GATED), decline("no")) is RefusalReason.WRONG_KIND


# -- work outside ------------------------------------------------------------------------------------------------------


def test_work_outside_is_asked_for_and_nothing_runs_here():
    """O1, O3, T12"""
    played = play(*OUTSIDE, agent=MARKET)

    assert (played.turn.status, played.effects) == (AgentStatus.WAITING_FOR_EXTERNAL_TOOL, ())
    told = played.last("EXTERNAL_TOOL_REQUESTED")
    assert (told["tool_call_id"], told["tool_name"], told["arguments"]) == ("t1.1.0", "ship", {"order": "O-1"})
    assert (told["correlation_id"], told["idempotency_key"]) == ("t1.1.0.1", "t1:t1.1.0")
    assert played.turn.tool_call_count == 1


@pytest.mark.parametrize(
    ("answer", "event", "text"),
    [
        (supply({"tracking": 7}), "EXTERNAL_TOOL_COMPLETED", '{"tracking": 7}'),
        (supply("sent"), "EXTERNAL_TOOL_COMPLETED", "sent"),
        (supply(None), "EXTERNAL_TOOL_COMPLETED", "null"),
        (supply(error="lost at sea"), "EXTERNAL_TOOL_FAILED", "Error: lost at sea"),
    ],
)
def test_its_result_ends_the_wait(answer, event, text):
    """O2"""
    played = play(*OUTSIDE, answer, GO, agent=MARKET)

    assert (results(played), len(played.every(event))) == ({"t1.1.0": text}, 1)


def test_a_result_under_a_wrong_or_old_id_is_refused():
    """O2, O3, X5"""
    played = play(*OUTSIDE, agent=MARKET)
    assert refused(played, Say.external_result("t1.1.7.1", 1)) is RefusalReason.WRONG_CORRELATION
    assert refused(played, approve("t1.1.0.1")) is RefusalReason.WRONG_KIND

    played.say(Interrupt(message="Never mind."), GO, calls(wants("ship", order="O-2")), judge())
    assert refused(played, Say.external_result("t1.1.0.1", "late")) is RefusalReason.ALREADY_RESOLVED
    assert refused(played.say(supply("sent")), Say.external_result("t1.2.0.1", 1)) is RefusalReason.ALREADY_RESOLVED


def test_guarded_work_outside_is_approved_first():
    """O1, A1"""
    played = play(GO, calls(wants("export")), judge(ASK), agent=MARKET)
    assert played.turn.status is AgentStatus.WAITING_FOR_APPROVAL

    played.say(approve(), GO, judge())
    assert played.turn.status is AgentStatus.WAITING_FOR_EXTERNAL_TOOL
    played.say(supply("gone"), GO)
    assert results(played) == {"t1.1.0": "gone"}
    assert play(GO, calls(wants("export")), judge(ASK), reject("no"), GO, agent=MARKET).every("TOOL_DENIED")


def test_a_wait_for_the_outside_survives_the_process():
    """P7, O3"""
    played = play(*OUTSIDE, Crash(), supply("sent"), GO, GO, reply("Sent."), agent=MARKET)

    assert (played.turn.output, len(played.every("EXTERNAL_TOOL_REQUESTED"))) == ("Sent.", 1)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Cancel(), "CANCELLATION_REQUESTED SNAPSHOT_SAVED EXTERNAL_TOOL_CANCEL_REQUESTED TURN_CANCELLED"),
        (
            Interrupt(message="Stop that."),
            "TOOL_INTERRUPTED TURN_RESUMED SNAPSHOT_SAVED EXTERNAL_TOOL_CANCEL_REQUESTED",
        ),
    ],
)
def test_the_outside_is_asked_to_stop_once_the_state_that_says_so_is_saved(said, told):
    """E24, O5, X5: and before the end is told."""
    played = play(*OUTSIDE, said, agent=MARKET)

    assert played.story[-1] == told
    assert played.last("EXTERNAL_TOOL_CANCEL_REQUESTED")["idempotency_key"] == "t1:t1.1.0"


# -- interruption ------------------------------------------------------------------------------------------------------


def test_an_interruption_closes_what_is_open_and_goes_on_with_the_message():
    """X5, A17, I1"""
    played = play(GO, calls(wants("pay"), wants("pay")), judge(ASK, ASK), Interrupt(message="Stop that."))

    assert (played.turn.status, played.turn.questions) == (AgentStatus.READY, ())
    assert played.history[-3:] == [
        ("tool", "Not run: the user interrupted."), ("tool", "Not run: the user interrupted."), ("user", "Stop that."),
    ]  # fmt: skip
    assert [answer.command_type for answer in played.turn.answers] == ["INTERRUPT", "INTERRUPT"]
    assert refused(played, approve("t1.1.0")) is RefusalReason.ALREADY_RESOLVED
    assert played.say(GO, reply("As you like.")).turn.output == "As you like."


def test_a_running_tool_is_let_finish_and_the_rest_is_left():
    """X5, X2"""
    played = play(GO, calls(wants("look"), wants("look")), judge(), Interrupt(message="Stop that."))
    assert played.turn.status is AgentStatus.RUNNING

    played.say(returns("found"))
    assert results(played) == {"t1.1.0": "found", "t1.1.1": "Not run: the user interrupted."}
    assert [data["started"] for data in played.every("TOOL_INTERRUPTED")] == [False]
    assert played.history[-1] == ("user", "Stop that.")


def test_two_interruptions_before_the_safe_point_are_both_heard():
    played = play(
        GO, calls(wants("look")), judge(), Interrupt(message="Stop."), Interrupt(message="Do this."), returns()
    )

    assert played.history[-1] == ("user", "Stop.\n\nDo this.")


def test_an_answer_that_came_meanwhile_is_kept_before_the_interruption():
    played = play(GO, Interrupt(message="Wait."), reply("All well."), GO)

    assert played.history[-2:] == [("assistant", "All well."), ("user", "Wait.")]


def test_an_interruption_is_not_lost_with_its_process():
    """P4"""
    played = play(GO, calls(wants("mail")), judge(), Interrupt(message="Stop that."), Crash(), GO)

    assert played.history[-1] == ("user", "Stop that.")


def test_a_turn_that_has_ended_cannot_be_interrupted():
    with pytest.raises(IllegalTransitionError):
        play(GO, reply("hi"), Interrupt(message="Stop that."))
