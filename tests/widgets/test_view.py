"""What a panel shows, folded from the events of real turns."""

from dataclasses import replace

from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    Cancel,
    ModelFailed,
    Proceed,
    Suspend,
    ToolReturned,
)
from agentflex_nb.core.machine import AgentStatus, replay
from agentflex_nb.widgets.items import Answered, Call, CallState, Level, Note, Prose, ProseKind, Step, View
from agentflex_nb.widgets.view import ran_for, show, show_all


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
    """P16: the same call asks again, about something else, when its outcome is unknown."""
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
    """A17"""
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


def test_the_status_is_that_of_the_log_after_every_event(shop):
    """I7"""
    events = shop.events(*shop.approved())
    view = View(turn_id="t1")

    for n, event in enumerate(events, 1):
        view = show(view, event)
        assert view.status is replay(events[:n])
