"""Answers in a user's words: which question is meant, what a responder says, what fits. A7, A8, F8."""

from datetime import UTC, datetime

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import (
    CommandRefusedError,
    InvalidValueError,
    RateLimitError,
    RefusalReason,
    UnansweredError,
)
from agentflex_nb.core.inputs import AgentResumeCommand, ApproveTool, ExternalResult, RejectTool, Retry, UserInput
from agentflex_nb.core.machine import SuspensionType
from agentflex_nb.core.turn import Question
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.answers import fail_if_asked, pick, respond
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call
FORM_K = AgentForm("k", "Fill in.", {"type": "object"})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@tool(approval=True)
def ask(n: int) -> str:
    """Ask."""
    return f"asked {n}"


def test_with_several_open_questions_an_answer_without_an_id_is_refused_with_the_list(desk):
    turn = desk.run([call("ask", n=1), call("ask", n=2)], "Done.", tools=[ask])

    with pytest.raises(CommandRefusedError, match=r"t1\.1\.0 .*t1\.1\.1") as refused:
        turn.approve()
    assert refused.value.reason is RefusalReason.WRONG_CORRELATION
    with pytest.raises(CommandRefusedError, match="no question 'x'"):
        turn.approve("x")

    turn.approve("t1.1.1")
    assert [question.id for question in turn.questions] == ["t1.1.0"]
    turn.reject("no")
    assert turn.output == "Done."


def test_an_id_that_was_answered_is_told_so_whatever_else_is_open(desk):
    """A8."""
    turn = desk.run([call("ask", n=1), call("ask", n=2)], "Done.", tools=[ask])
    turn.approve("t1.1.0", by="alice")

    with pytest.raises(
        CommandRefusedError, match=r"already answered \(APPROVE_TOOL\) by alice at 2026-01-01"
    ) as refused:
        pick(turn.to_snapshot(), "t1.1.0")

    assert (refused.value.reason, refused.value.by) == (RefusalReason.ALREADY_RESOLVED, "alice")


def test_a_turn_that_asks_nothing_says_how_it_stands(desk):
    done = desk.run("Done.")
    ready = desk.runner.create(desk.agent("x"), "go", conversation_id=desk.conversation())

    with pytest.raises(CommandRefusedError, match="COMPLETED") as refused:
        done.approve()
    assert refused.value.reason is RefusalReason.FINAL
    with pytest.raises(CommandRefusedError, match="READY") as refused:
        ready.approve()
    assert refused.value.reason is RefusalReason.NOT_BLOCKED


def question(type=SuspensionType.TOOL_APPROVAL, **given):
    return Question(id="t1.1.0", type=type, message="may I?", tool_name="ask", **given)


APPROVAL = question()
FORM = question(SuspensionType.USER_INPUT, form_key="seats", schema={"type": "object"})
PLAIN = Question(id="t1.ask.4", type=SuspensionType.USER_INPUT, message="well?")
OUTSIDE = question(SuspensionType.EXTERNAL_TOOL)
MODEL = Question(id="t1.model.1", type=SuspensionType.MODEL, message="it failed")


class Asked:
    """What `respond` needs of a turn."""

    id = "t1"
    questions = (APPROVAL,)


@pytest.mark.parametrize(
    ("asked", "responder", "kind"),
    [
        (APPROVAL, lambda q: True, ApproveTool),
        (APPROVAL, lambda q: False, RejectTool),
        (APPROVAL, lambda q: "too dear", RejectTool),
        (APPROVAL, {"ask": True}, ApproveTool),
        (APPROVAL, {"t1.1.0": True, "ask": False}, ApproveTool),
        (FORM, {"seats": {"n": 1}, "ask": {"n": 2}}, UserInput),
        (FORM, {"seats": {}}, UserInput),
        (PLAIN, lambda q: "yes", UserInput),
        (PLAIN, {"t1.ask.4": "yes"}, UserInput),
        (APPROVAL, lambda q: AgentResumeCommand.approve_tool(q.id), ApproveTool),
        (OUTSIDE, lambda q: {"parcel": 7}, ExternalResult),
        (OUTSIDE, lambda q: False, ExternalResult),
        (OUTSIDE, {"ask": "sent"}, ExternalResult),
        (OUTSIDE, lambda q: AgentResumeCommand.external_result(q.id, error="lost"), ExternalResult),
        (MODEL, lambda q: True, Retry),
        (MODEL, {"MODEL": True}, Retry),
    ],
)
def test_a_responder_says_it_in_plain_values(asked, responder, kind):
    command = respond(Asked, asked, responder)

    assert type(command) is kind
    assert command.correlation_id == asked.id


@pytest.mark.parametrize(
    ("asked", "responder"),
    [
        (APPROVAL, {}),
        (APPROVAL, lambda q: None),
        (APPROVAL, lambda q: 1),
        (APPROVAL, {"other": True}),
        (FORM, lambda q: True),
        (PLAIN, lambda q: 7),
        (OUTSIDE, lambda q: None),
        (MODEL, lambda q: False),
        (MODEL, {"TOOL_APPROVAL": True}),
    ],
)
def test_a_responder_without_a_fitting_answer_raises_and_says_what_it_said(asked, responder):
    with pytest.raises(UnansweredError, match="the responder said"):
        respond(Asked, asked, responder)


def test_fail_if_asked_names_turn_and_question():
    with pytest.raises(UnansweredError, match="may I") as unanswered:
        fail_if_asked(APPROVAL)

    assert (unanswered.value.turn_id, unanswered.value.questions) == ("t1", (APPROVAL,))


@pytest.mark.parametrize("data", [[1], None, 5, True])
def test_data_of_a_form_has_names_whatever_its_schema_says(memory_desk, data):
    """F8, F9: nothing is recorded, and a good answer is still the first one."""
    form = AgentForm("k", "Fill in.", {"properties": {"a": {"type": "string"}}})
    turn = memory_desk.run(ScriptedModel.call("request_user_input", form_key="k"), "Done.", forms=[form])

    with pytest.raises(CommandRefusedError) as refusal:
        memory_desk.runner.resume(turn, AgentResumeCommand.user_input(turn.questions[0].id, data))

    assert refusal.value.reason == "INVALID"
    turn.submit({"a": "b"})
    assert (turn.status, len(turn.to_snapshot().answers)) == ("COMPLETED", 1)


def test_a_submission_counts_although_its_form_has_left_the_agent(memory_desk):
    """F8: the schema stands in the question; under a given version it is drift all the same (P12), so it is an act."""

    def agent(version, *forms):
        asks = ScriptedModel(ScriptedModel.call("request_user_input", form_key="k"), "Done.")
        return Agent("a", version=version, model=asks, forms=forms)

    turn = memory_desk.runner.run(agent("1", AgentForm("k", "Fill in.", {"type": "object"})), "go")
    later = memory_desk.another_runner(loader=AgentLoader())

    again = later.restore(turn.id, migrate_to=agent("2")).submit({"a": 1})

    assert again.text == "Done."
    assert '"status": "SUBMITTED"' in again.messages[-2].content


@pytest.mark.parametrize("wrong", ["yes", True, None, {"by": "alice"}])
def test_what_is_no_command_is_refused_with_a_sentence(memory_desk, wrong):
    turn = memory_desk.run(ScriptedModel.call("request_user_input", form_key="k"), "Done.", forms=[FORM_K])

    with pytest.raises(InvalidValueError, match=r"turn\.approve\(\)"):
        memory_desk.runner.resume(turn, wrong)


def test_words_of_a_command_must_be_text(memory_desk):
    turn = memory_desk.run(ScriptedModel.call("request_user_input", form_key="k"), "Done.", forms=[FORM_K])

    for say in (lambda: turn.reject(None), lambda: turn.cancel(None), lambda: turn.interrupt(None)):
        with pytest.raises(InvalidValueError, match="expected text"):
            say()


def test_an_empty_id_is_not_no_id(memory_desk):
    turn = memory_desk.run(ScriptedModel.call("request_user_input", form_key="k"), "Done.", forms=[FORM_K])

    with pytest.raises(CommandRefusedError, match="has no question ''"):
        turn.submit({}, call_id="")


def test_any_value_is_a_result_from_outside_told_as_a_tools_own_would_be():
    class Parcel:
        def __str__(self):
            return "parcel 7"

    assert respond(Asked, OUTSIDE, lambda q: "sent").result == "sent"
    assert respond(Asked, OUTSIDE, lambda q: {"n": [1, float("nan")]}).result == '{"n": [1, "NaN"]}'
    assert respond(Asked, OUTSIDE, lambda q: Parcel()).result == '"parcel 7"'


@tool(external=True)
def ship(order: str) -> str:
    """Ship."""


def test_a_responder_answers_approvals_and_work_outside_until_the_turn_has_ended(desk):
    replies = [call("ask", n=1), call("ship", order="O-1")]
    turn = desk.run(replies, "Done.", tools=[ask, ship])

    desk.runner.answer_all(turn, {"ask": True, "ship": {"parcel": 7}})

    assert turn.output == "Done."
    assert [message.content for message in turn.messages if message.role == "tool"] == ["asked 1", '{"parcel": 7}']


def test_a_retry_that_is_due_later_is_left_to_its_timer_and_no_responder_is_asked(desk):
    later = AgentExecutionPolicy(retry=AgentRetryPolicy(initial_delay=3_600, max_delay=3_600))
    turn = desk.run(RateLimitError("slow down"), execution_policy=later)

    desk.runner.answer_all(turn, fail_if_asked)

    assert turn.status == "RETRY_SCHEDULED"


def test_a_model_that_failed_every_attempt_is_tried_again_at_a_responders_word(desk):
    """R10"""
    asks = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))
    replies = iter([RateLimitError("slow down"), "Done."])
    turn = desk.run(lambda request: next(replies), execution_policy=asks)
    assert turn.status == "WAITING_FOR_MODEL"

    desk.runner.answer_all(turn, {"MODEL": True})

    assert turn.output == "Done."


@tool(approval=True)
def pay(amount: int, to: str = "shop") -> str:
    """Pay."""
    return f"paid {amount} to {to}"


def test_edited_arguments_that_do_not_fit_say_where_by_json_pointer(desk):
    """A15"""
    turn = desk.run([call("pay", amount=1)], "Done.", tools=[pay])

    with pytest.raises(CommandRefusedError) as refused:
        turn.approve(arguments={"amount": "much", "toe": 1})

    assert refused.value.reason is RefusalReason.INVALID
    assert [fault.pointer for fault in refused.value.errors] == ["/amount", "/toe"]
    assert turn.status == "WAITING_FOR_APPROVAL"
    assert turn.approve(arguments={"amount": 2}).messages[-2].content == "paid 2 to shop"
