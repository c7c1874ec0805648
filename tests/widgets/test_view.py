"""What a panel shows, folded from the events of real turns."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    Cancel,
    Expired,
    Interrupt,
    ModelFailed,
    Proceed,
    Suspend,
    ToolReturned,
)
from agentflex_nb.core.machine import AgentStatus, replay
from agentflex_nb.core.verdicts import ALLOWED, Strictness, Verdict
from agentflex_nb.store.codec import decode_events
from agentflex_nb.widgets.items import Answered, Call, CallState, Level, Note, Prose, ProseKind, Step, View
from agentflex_nb.widgets.static_text import turn_text
from agentflex_nb.widgets.view import LIMITS, ran_for, show, show_all
from agentflex_nb.widgets.wire import snapshot
from agentflex_nb.widgets.words import answer_word, is_no

GOLDEN = Path(__file__).parents[1] / "golden"


def test_text_and_reasoning_are_blocks_of_their_own_and_end_with_the_reply(shop):
    view = shop.view(*shop.looked_up())

    said = [(item.kind, item.text, item.ended is not None) for item in view.items if isinstance(item, Prose)]
    assert said == [(ProseKind.REASONING, "which order?", True), (ProseKind.TEXT, "I look it up.", True)]


def test_without_streaming_the_text_comes_with_the_reply(shop):
    view = shop.view(Proceed(), shop.reply("All at once."), streaming=False)

    assert shop.only(view, Prose).text == "All at once."


def test_a_streamed_reply_is_shown_once(shop):
    view = shop.view(Proceed(), shop.text("Hello."), shop.reply("Hello."))

    assert shop.only(view, Prose).text == "Hello."


def test_steps_are_numbered_and_timed(shop):
    view = shop.view(*shop.asked())

    steps = [(item.number, item.ended is not None) for item in view.items if isinstance(item, Step)]
    assert steps == [(1, True), (2, True)]
    assert view.step_count == 2


def test_tokens_add_up_over_calls(shop):
    view = shop.view(*shop.approved())

    assert (view.usage.input_tokens, view.usage.output_tokens, view.usage.total_tokens) == (30, 15, 45)


def test_tokens_that_nobody_counted_are_unknown_not_zero(shop):
    assert shop.view(Proceed()).usage.total_tokens is None


def test_a_question_holds_what_is_needed_to_decide(shop):
    view = shop.view(*shop.asked())

    (question,) = view.questions
    assert view.status is AgentStatus.WAITING_FOR_APPROVAL
    assert (question.id, question.tool_name) == ("t1.2.0", "refund")
    assert (question.message, question.reason) == ("refund 120.0?", "over 50")
    assert question.arguments == (("order", "O-1"), ("amount", "120.0"))
    assert [item.state for item in view.items if isinstance(item, Call)] == ["done", "waiting"]


def test_who_answered_stays_visible(shop):
    view = shop.view(*shop.approved())

    answer = shop.only(view, Answered)
    assert (answer.command_type, answer.by, answer.via, answer.about) == ("APPROVE_TOOL", "bob", "panel", "refund")
    assert view.questions == ()
    assert view.status is AgentStatus.COMPLETED


def test_a_rejection_shows_its_reason_and_the_call_as_denied(shop):
    view = shop.view(
        *shop.asked(),
        AgentResumeCommand.reject_tool("t1.2.0", "over the limit"),
        Proceed(),
        Proceed(),
        shop.reply("Sorry."),
    )

    call = [item for item in view.items if isinstance(item, Call)][-1]
    assert shop.only(view, Answered).reason == "over the limit"
    assert (call.state, call.problem) == (CallState.DENIED, "over the limit")


def test_a_partial_answer_leaves_the_other_question_as_it_was(shop):
    before = shop.view(*shop.two_asked())

    after = shop.view(*shop.two_asked(), AgentResumeCommand.approve_tool("t1.1.0"))

    assert [question.id for question in after.questions] == ["t1.1.1"]
    assert after.questions[0].asked == before.questions[1].asked


def test_a_question_that_is_asked_anew_is_another_one(shop):
    """P17: the same call asks again, about something else, when its outcome is unknown."""
    events = shop.events(*shop.asked())
    old = show_all(View(turn_id="t1"), events)
    told = events[-1].data["questions"][0]
    anew = replace(
        events[-1],
        sequence=events[-1].sequence + 9,
        data=type(told)({**events[-1].data, "questions": (type(told)({**told, "code": "OUTCOME_UNKNOWN"}),)}),
    )

    assert show(old, anew).questions[0].asked == events[-1].sequence + 9


def test_a_form_holds_its_schema(shop):
    (question,) = shop.view(*shop.formed()).questions

    assert (question.form_key, question.message) == ("address", "Where to?")
    assert question.schema["required"] == ("city",)


def test_submitted_data_is_shown(shop):
    view = shop.view(*shop.formed(), AgentResumeCommand.user_input("t1.1.0", {"city": "Paris"}))

    answer = shop.only(view, Answered)
    assert (answer.about, answer.fields) == ("address", (("city", "Paris"),))


def test_a_plain_question_and_its_answer(shop):
    asked = (Proceed(), Suspend(correlation_id="q1", message="Which day?"), shop.reply("Hm."))

    view = shop.view(*asked, AgentResumeCommand.user_input("q1", "Monday"))

    assert shop.view(*asked).questions[0].message == "Which day?"
    assert (shop.only(view, Answered).about, shop.only(view, Answered).fields) == ("Which day?", (("", "Monday"),))


def test_what_was_streamed_before_the_model_failed_stays_with_the_failure_after_it(shop):
    """E14"""
    view = shop.view(Proceed(), shop.text("half an ans"), ModelFailed(error=ErrorSummary(kind="Cut", message="gone")))

    assert shop.only(view, Prose).text == "half an ans"
    assert (shop.only(view, Note).level, shop.only(view, Note).text) == (
        Level.ERROR,
        "The model call failed (attempt 1): Cut: gone",
    )
    assert (view.status, view.error.message) == (AgentStatus.FAILED, "gone")


def test_after_cancel_nothing_is_answerable_or_running(shop):
    """A17, Z7"""
    view = shop.view(*shop.asked(), Cancel(reason="changed my mind"))

    assert view.status is AgentStatus.CANCELLED
    assert view.questions == ()
    assert {item.state for item in view.items if isinstance(item, Call)} == {CallState.DONE, CallState.UNFINISHED}
    assert shop.only(view, Note).text == "Cancellation requested: changed my mind"


def test_a_cancellation_that_waits_for_a_safe_point_shows(shop):
    view = shop.view(*shop.looked_up()[:6], Cancel())

    assert view.cancelling
    assert not shop.view(*shop.looked_up()[:6], Cancel(), ToolReturned("t1.1.0", "x")).cancelling


def test_waiting_for_a_person_is_no_running_time(shop):
    events = shop.events(*shop.approved())
    waits = next(event.sequence for event in events if event.type == "TURN_RESUMED")
    later = [
        replace(event, occurred_at=event.occurred_at.replace(hour=9 if event.sequence >= waits else 0))
        for event in events
    ]

    ran = ran_for(show_all(View(turn_id="t1"), later))

    assert 0 < ran.total_seconds() < 1


def test_an_event_that_comes_twice_changes_nothing(shop):
    events = shop.events(*shop.approved())
    view = show_all(View(turn_id="t1"), events)

    assert show_all(view, events) is view


@pytest.mark.parametrize("log", sorted(GOLDEN.glob("v*.json")), ids=lambda log: log.stem)
def test_logs_of_earlier_versions_are_drawn_whole(log):
    events = decode_events(json.loads(log.read_text("utf-8"))["events"])

    view = show_all(View(turn_id="t1"), events)

    assert view.status is replay(events)
    assert view.sequence == events[-1].sequence
    assert turn_text(view)
    assert json.dumps(snapshot(view, 0, {}))


def test_the_status_is_that_of_the_log_after_every_event(shop):
    """I7"""
    events = shop.events(*shop.approved())
    view = View(turn_id="t1")

    for n, event in enumerate(events, 1):
        view = show(view, event)
        assert view.status is replay(events[:n])


def test_work_outside_waits_with_its_call_and_ends_with_what_was_supplied(shop):
    """O1"""
    waiting = shop.view(*shop.outside())
    supply = AgentResumeCommand.external_result("t1.1.0", {"parcel": 7}, by="bob")
    done = shop.view(*shop.outside(), supply, Proceed())

    assert (shop.only(waiting, Call).state, waiting.questions[0].call_id) == (CallState.WAITING, "t1.1.0")
    assert (shop.only(done, Call).state, shop.only(done, Call).result) == (CallState.DONE, '{"parcel": 7}')
    assert shop.only(done, Answered).fields == (("result", '{\n  "parcel": 7\n}'),)


def test_an_error_that_is_reported_from_outside_is_the_calls_problem(shop):
    supply = AgentResumeCommand.external_result("t1.1.0", error="lost in the post")
    view = shop.view(*shop.outside(), supply, Proceed())

    assert shop.only(view, Call).state is CallState.FAILED
    assert "lost in the post" in shop.only(view, Call).problem
    assert shop.only(view, Answered).fields == (("error", "lost in the post"),)


def test_an_interruption_ends_what_waits_and_asks_outside_to_stop(shop):
    """X5, E24"""
    view = shop.view(*shop.outside(), Interrupt(message="Never mind.", metadata=FrozenDict(by="bob")))

    assert shop.only(view, Call).state is CallState.UNFINISHED
    assert (shop.only(view, Answered).by, shop.only(view, Answered).fields) == ("bob", (("", "Never mind."),))
    assert shop.only(view, Note).text == "ship was asked to stop, outside"
    assert view.questions == ()


def test_changed_arguments_take_the_place_of_the_models(shop):
    """A15"""
    approve = AgentResumeCommand.approve_tool("t1.2.0", arguments={"order": "O-1", "amount": 50})
    view = shop.view(*shop.asked(), approve, Proceed(), shop.checked(_2_0=ALLOWED))

    refund = next(item for item in view.items if isinstance(item, Call) and item.name == "refund")
    assert (refund.state, refund.arguments) == (CallState.RUNNING, (("order", "O-1"), ("amount", "50")))
    assert answer_word(shop.only(view, Answered)) == "Approved with changed arguments"


@pytest.mark.parametrize(("outcome", "word"), [("REJECT", "rejected"), ("APPROVE", "approved")])
def test_what_nobody_answered_says_how_it_resolved(shop, outcome, word):
    """A16"""
    limited = Verdict(strictness=Strictness.ASK, expires_in=0.001, when_expired=outcome)
    asked = (Proceed(), shop.reply("", ("refund", {"order": "O-1"})), shop.checked(_1_0=limited))
    (question,) = shop.view(*asked).questions
    assert (question.expires_at is None, question.when_expired) == (False, outcome)

    answer = shop.only(shop.view(*asked, Expired("t1.1.0")), Answered)

    assert answer_word(answer) == f"Nobody answered in time: {word}"
    assert (answer.by, answer.reason, is_no(answer)) == ("", "", outcome == "REJECT")


def test_a_form_that_was_declined_says_why(shop):
    """F10"""
    answer = shop.only(shop.view(*shop.formed(), AgentResumeCommand.decline("t1.1.0", "private")), Answered)

    assert (answer_word(answer), answer.reason, is_no(answer)) == ("Declined", "private", True)


def test_a_scheduled_retry_is_a_note_and_a_question_with_its_moment(shop):
    """R1"""
    view = shop.view(*shop.failing())

    (question,) = view.questions
    assert (question.type, question.due_at > view.at) == ("RETRY", True)
    notes = [item.text for item in view.items if isinstance(item, Note)]
    assert notes[0] == "The model call failed (attempt 1): OverloadedError: no capacity"
    assert re.fullmatch(r"The model is tried again at 00:00:0\d UTC", notes[1])


def test_a_model_that_failed_every_attempt_says_how(shop):
    """E18, R10"""
    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))

    (question,) = shop.view(*shop.failing(), policy=policy).questions

    assert dict(question.failure) == {
        "error": "OverloadedError",
        "HTTP status": "529",
        "provider's code": "overloaded",
        "request": "r1",
        "attempts": "1",
    }


def test_a_budget_that_is_used_up_says_which_and_how_much(shop):
    """B2"""
    policy = AgentExecutionPolicy(budget=AgentBudget(max_tool_calls=1))
    calls = shop.reply("", ("lookup", {}), ("lookup", {}))
    inputs = (Proceed(), calls, shop.checked(_1_0=ALLOWED, _1_1=ALLOWED), ToolReturned("t1.1.0", "x"))

    view = shop.view(*inputs, policy=policy)

    assert (view.status, view.error.code) == (AgentStatus.BUDGET_EXCEEDED, "max_tool_calls")
    assert view.error.message == "1 of 1 tool calls are used (max_tool_calls)"


@pytest.mark.parametrize("name", [field.name for field in fields(AgentBudget)])
def test_every_limit_has_a_word(name):
    assert LIMITS[name]


def test_a_model_call_that_was_left_on_purpose_is_no_failure(shop):
    left = ErrorSummary(kind="StreamLeft", message="the user interrupted while the model answered", code="LEFT")
    view = shop.view(Proceed(), Interrupt(message="Stop."), ModelFailed(error=left))

    assert (shop.only(view, Note).level, shop.only(view, Note).text) == (
        Level.INFO,
        "The model call was left: the user interrupted while the model answered",
    )
