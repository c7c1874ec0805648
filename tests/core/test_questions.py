"""Which answer fits which question, who was first, and what a refusal says."""

import pytest

from agentflex_nb.core.errors import CommandRefusedError, RefusalReason
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    ApproveTool,
    Cancel,
    ExternalResult,
    RejectTool,
    Suspend,
    UserInput,
)
from agentflex_nb.core.machine import AgentStatus, SuspensionType
from agentflex_nb.core.questions import answered, find, fitting, outcome_question, record
from agentflex_nb.core.turn import PendingCall, Question

from .play import (
    ASK,
    GO,
    START,
    Crash,
    Played,
    approve,
    calls,
    judge,
    play,
    reject,
    reply,
    returns,
    sent,
    submit,
    supply,
    wants,
)

SAY = AgentResumeCommand
PAY = (GO, calls(wants("pay", n=1), wants("pay", n=2)), judge(ASK, ASK))
SUSPEND = Suspend(correlation_id="q1", message="Which?")
FORM_ASKED = (GO, calls(wants("request_user_input", form_key="address")))


def refused(played: Played, command) -> CommandRefusedError:
    """The refusal of a command, after which nothing is different."""
    before, told = played.turn, len(played.events)
    with pytest.raises(CommandRefusedError) as raised:
        played.say(command)
    assert played.turn is before
    assert len(played.events) == told
    assert raised.value.turn_id == "t1"
    assert raised.value.correlation_id == command.correlation_id
    assert str(raised.value).endswith("nothing changed.")
    return raised.value


def test_a_wrong_id_is_refused_with_the_right_ones():
    """A7"""
    error = refused(play(*PAY), SAY.approve_tool("t1.1.7"))

    assert error.reason is RefusalReason.WRONG_CORRELATION
    assert "open: t1.1.0, t1.1.1" in str(error)


def test_a_second_answer_is_refused_and_told_who_was_first():
    """A8, A9: the same refusal while the other question is open, when the turn is ready, runs, and has ended."""
    played = play(*PAY, approve("t1.1.0", by="ann"))
    first = played.turn.answers[0].at
    for move in (reject("no", "t1.1.1"), GO, judge(), Cancel(), returns()):
        error = refused(played, SAY.reject_tool("t1.1.0", by="bob"))
        assert (error.reason, error.by, error.at) == (RefusalReason.ALREADY_RESOLVED, "ann", first)
        assert "already answered (APPROVE_TOOL) by ann at 2026-01-01" in str(error)
        played.say(move)

    assert played.turn.status is AgentStatus.CANCELLED
    assert refused(played, SAY.approve_tool("t1.1.0")).reason is RefusalReason.ALREADY_RESOLVED


def test_an_answer_to_the_first_question_about_a_call_never_answers_the_second():
    """P17, A8: a call may be asked about twice, by a policy and after a crash; a click on the old card does nothing."""
    played = play(GO, calls(wants("pay")), judge(ASK), approve(by="ann"), GO, judge(), Crash(), GO)
    assert (played.question.code, played.question.id) == ("OUTCOME_UNKNOWN", "t1.1.0.ask2")

    error = refused(played, SAY.approve_tool("t1.1.0", by="bob"))

    assert (error.reason, error.by) == (RefusalReason.ALREADY_RESOLVED, "ann")
    assert refused(played.say(approve(by="bob")), SAY.approve_tool("t1.1.0.ask2")).by == "bob"


def test_a_result_may_come_under_the_id_of_its_call():
    """P17"""
    played = play(GO, calls(wants("pay")), judge(ASK), approve(by="ann"), GO, judge(), Crash(), GO)

    supplied = played.say(SAY.external_result("t1.1.0", "it was paid"))

    assert [answer.question_id for answer in supplied.turn.answers] == ["t1.1.0", "t1.1.0.ask2"]
    assert supplied.turn.pending[0].outcome == "it was paid"


def test_a_turn_that_waits_for_nothing_refuses_answers():
    """A8"""
    assert refused(play(GO), SAY.approve_tool("t1.1.0")).reason is RefusalReason.NOT_BLOCKED


def test_a_turn_that_has_ended_refuses_answers():
    """P14, A17"""
    error = refused(play(GO, reply("hi")), SAY.approve_tool("t1.1.0"))

    assert error.reason is RefusalReason.FINAL
    assert "it is COMPLETED" in str(error)


@pytest.mark.parametrize(
    "command",
    [
        SAY.user_input("t1.1.0", {}),
        SAY.external_result("t1.1.0", 1),
        SAY.retry("t1.1.0"),
        SAY.continue_("t1.1.0"),
    ],
)
def test_an_approval_takes_yes_or_no(command):
    error = refused(play(*PAY), command)

    assert error.reason is RefusalReason.WRONG_KIND
    assert "takes ApproveTool or RejectTool, not" in str(error)


@pytest.mark.parametrize("command", [SAY.approve_tool("t1.1.0"), SAY.reject_tool("t1.1.0"), SAY.continue_("t1.1.0")])
def test_a_form_takes_its_data(command):
    """F5: and CONTINUE does not go round it."""
    assert refused(play(*FORM_ASKED), command).reason is RefusalReason.WRONG_KIND


def test_a_form_takes_no_text_and_a_plain_question_no_data():
    """F5, I1: text for a form would stand between a call and its result."""
    error = refused(play(*FORM_ASKED), SAY.user_input("t1.1.0", "Oslo"))
    assert (error.reason, "not with text" in str(error)) == (RefusalReason.INVALID, True)

    error = refused(play(SUSPEND), SAY.user_input("q1", {"city": "Oslo"}))
    assert (error.reason, "with text, not with FrozenDict" in str(error)) == (RefusalReason.INVALID, True)


def test_an_unknown_outcome_takes_yes_no_or_the_result():
    """P17"""
    asked = outcome_question(PendingCall(call=wants("pay")), "q")

    assert fitting(asked) == {ApproveTool, RejectTool, ExternalResult}
    assert "nobody knows whether it took effect" in asked.message


@pytest.mark.parametrize("type", SuspensionType)
def test_every_kind_of_question_knows_its_answers(type):
    fits = fitting(Question(id="q", type=type, message="?"))

    assert bool(fits) == (type is not SuspensionType.CHILD_AGENT)


def test_find_returns_the_question_itself():
    played = play(*PAY)

    assert find(played.turn, SAY.approve_tool("t1.1.1"), START) is played.turn.questions[1]


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (SAY.approve_tool("c", by="ann"), ("APPROVE_TOOL", "", None)),
        (SAY.reject_tool("c", "too much"), ("REJECT_TOOL", "too much", None)),
        (SAY.user_input("c", {"city": "Oslo"}), ("USER_INPUT", "", {"city": "Oslo"})),
        (SAY.user_input("c", "words"), ("USER_INPUT", "", "words")),
        (SAY.external_result("c", [1], error="late"), ("EXTERNAL_RESULT", "", {"result": (1,), "error": "late"})),
        (SAY.retry("c"), ("RETRY", "", None)),
        (SAY.continue_("c"), ("CONTINUE", "", None)),
    ],
)
def test_an_answer_keeps_what_was_said(command, kept):
    """A13"""
    answer = record(command, "q", START)

    assert (answer.command_type, answer.reason, answer.data) == kept
    assert (answer.question_id, answer.at, answer.metadata) == ("q", START, command.metadata)


def test_a_supplied_result_is_text_for_the_model():
    pending = PendingCall(call=wants("pay"), started=True)

    assert answered(pending, SAY.external_result("c", "as it is")).outcome == "as it is"
    assert answered(pending, SAY.external_result("c", {"ok": "naïve"})).outcome == '{"ok": "naïve"}'
    assert answered(pending, SAY.external_result("c")).outcome == "null"
    assert not answered(pending, SAY.external_result("c")).started


def test_what_says_nothing_of_a_call_leaves_it_alone():
    pending = PendingCall(call=wants("pay"))

    assert answered(pending, UserInput(correlation_id="c", data="words")) is pending
    assert answered(pending, SAY.retry("c")) is pending


def test_a_supplied_result_is_not_asked_for_twice():
    played = play(GO, calls(wants("look")), judge(), Crash(), GO, supply("found"))

    assert (played.turn.status, played.turn.pending[0].outcome) == (AgentStatus.READY, "found")


def test_submitted_text_is_a_message_of_the_user():
    """F5"""
    assert play(SUSPEND, submit("The second.")).history[-1] == ("user", "The second.")


def test_a_form_is_submitted_once_and_who_did_it_never_reaches_the_model():
    """F6, A13"""
    played = play(*FORM_ASKED, submit({"city": "Oslo"}, by="ann", ticket="T-17"), GO, GO)

    assert (
        refused(played, SAY.user_input("t1.1.0", {"city": "Rome"}, by="bob")).reason is RefusalReason.ALREADY_RESOLVED
    )
    assert [(answer.by, answer.metadata["ticket"]) for answer in played.turn.answers] == [("ann", "T-17")]
    assert not [text for _, text in sent(played) if "ann" in text or "T-17" in text]
