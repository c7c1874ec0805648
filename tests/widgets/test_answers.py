"""What a press means, and what cannot be understood."""

import pytest

from agentflex_nb.core.errors import CommandRefusedError, RefusalReason
from agentflex_nb.core.inputs import (
    ApproveTool,
    Cancel,
    Continue,
    ExternalResult,
    Proceed,
    RejectTool,
    Retry,
    Suspend,
    UserInput,
)
from agentflex_nb.core.machine import SuspensionType
from agentflex_nb.core.questions import OUTCOME_UNKNOWN, fitting
from agentflex_nb.core.turn import Question
from agentflex_nb.widgets.answers import in_code, offers, only_question, read
from agentflex_nb.widgets.items import Asked, View


@pytest.fixture
def asked(shop) -> View:
    return shop.view(*shop.asked())


def press(view, verb, by="alice", **more):
    return read({"kind": "press", "verb": verb, "question": "t1.2.0", "press": "p1", **more}, view, by)


@pytest.mark.parametrize(
    ("verb", "data", "kind"),
    [
        ("approve", {}, ApproveTool),
        ("reject", {"reason": "no"}, RejectTool),
        ("submit", {"data": {"a": 1}}, UserInput),
        ("submit", {"data": "text"}, UserInput),
        ("supply", {"data": "sent"}, ExternalResult),
        ("retry", {}, Retry),
        ("continue", {}, Continue),
        ("cancel", {}, Cancel),
    ],
)
def test_every_verb_is_a_command_signed_by_who_sits_here(asked, verb, data, kind):
    answer = press(asked, verb, **data)

    assert type(answer.command) is kind
    assert answer.command.metadata == {"by": "alice", "via": "panel"}
    assert answer.press == "p1"


def test_nobody_is_named_where_nobody_is_known(asked):
    assert press(asked, "approve", by="").command.metadata == {"via": "panel"}


def test_a_reason_travels_with_the_rejection(asked):
    assert press(asked, "reject", reason="over the limit").command.reason == "over the limit"


@pytest.mark.parametrize(
    "message",
    [{}, {"verb": None}, {"verb": "explode"}, {"verb": "submit"}, {"verb": "submit", "data": 3}, {"verb": ["approve"]}],
)
def test_what_cannot_be_understood_is_refused_as_invalid(asked, message):
    with pytest.raises(CommandRefusedError) as refused:
        read(message, asked, "alice")

    assert refused.value.reason is RefusalReason.INVALID


def test_an_answer_to_an_earlier_question_of_the_same_call_is_out_of_date(asked):
    """K12: a stale click must not answer the next pause."""
    with pytest.raises(CommandRefusedError) as refused:
        press(asked, "approve", asked=asked.questions[0].asked - 5)

    assert refused.value.reason is RefusalReason.ALREADY_RESOLVED


def test_an_answer_to_no_open_question_is_passed_on_for_the_turn_to_judge(asked):
    answer = read({"verb": "approve", "question": "t1.1.0", "asked": 1}, asked, "")

    assert answer.command.correlation_id == "t1.1.0"


def test_the_one_open_question_need_not_be_named(asked, shop):
    assert only_question(asked) == "t1.2.0"
    with pytest.raises(CommandRefusedError, match=r"t1\.1\.0, t1\.1\.1") as several:
        only_question(shop.view(*shop.two_asked()))
    assert several.value.reason is RefusalReason.WRONG_CORRELATION
    with pytest.raises(CommandRefusedError, match="asks nothing") as none:
        only_question(shop.view(Proceed()))
    assert none.value.reason is RefusalReason.NOT_BLOCKED


VERBS = {
    "approve": ApproveTool, "reject": RejectTool, "submit": UserInput, "supply": ExternalResult,
    "retry": Retry, "continue": Continue,
}  # fmt: skip


@pytest.mark.parametrize("type", SuspensionType)
@pytest.mark.parametrize("code", ["", OUTCOME_UNKNOWN])
def test_what_is_offered_is_what_the_turn_takes(type, code):
    asked = Asked(id="q", type=type, message="?", asked=1, code=code)

    takes = fitting(Question(id="q", type=type, message="?", code=code))

    assert {VERBS[verb] for verb in offers(asked)} <= takes
    assert bool(offers(asked)) == bool(takes)


def test_the_code_that_answers_names_the_question_where_there_are_several(shop):
    first, second = (view := shop.view(*shop.two_asked())).questions

    assert in_code(view, first) == "lab.restore('t1').approve(call_id='t1.1.0')"
    assert in_code(view, second) == "lab.restore('t1').approve(call_id='t1.1.1')"


def test_the_code_that_answers_a_form_shows_its_fields(shop):
    view = shop.view(*shop.formed())

    assert in_code(view, view.questions[0]) == "lab.restore('t1').submit({\"city\": ...})"


def test_the_code_that_answers_a_plain_question(shop):
    view = shop.view(Proceed(), Suspend(correlation_id="q1", message="Which day?"), shop.reply("Hm."))

    assert in_code(view, view.questions[0]) == "lab.restore('t1').submit(\"your answer\")"
