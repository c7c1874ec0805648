"""What a press means, and what cannot be understood."""

import pytest

from agentflex_nb.core.errors import CommandRefusedError, RefusalReason
from agentflex_nb.core.frozen import FrozenDict, freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    ApproveTool,
    Cancel,
    Continue,
    Decline,
    ExternalResult,
    Interrupt,
    Proceed,
    RejectTool,
    Retry,
    Suspend,
    UserInput,
)
from agentflex_nb.core.machine import SuspensionType
from agentflex_nb.core.questions import OUTCOME_UNKNOWN, fitting
from agentflex_nb.core.turn import Question
from agentflex_nb.core.verdicts import Strictness, Verdict
from agentflex_nb.widgets.answers import about, is_editable, offers, only_question, read
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
        ("approve", {"arguments": {"amount": 1}}, ApproveTool),
        ("reject", {"reason": "no"}, RejectTool),
        ("submit", {"data": {"a": 1}}, UserInput),
        ("submit", {"data": "text"}, UserInput),
        ("decline", {"reason": "no"}, Decline),
        ("supply", {"data": "sent"}, ExternalResult),
        ("supply", {"error": "lost"}, ExternalResult),
        ("retry", {}, Retry),
        ("continue", {}, Continue),
        ("cancel", {}, Cancel),
        ("interrupt", {"message": "Stop that."}, Interrupt),
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
    [
        {},
        {"verb": None},
        {"verb": "explode"},
        {"verb": "submit"},
        {"verb": "submit", "data": 3},
        {"verb": ["approve"]},
        {"verb": "approve", "arguments": [1]},
        {"verb": "interrupt"},
        {"verb": "interrupt", "message": " "},
        {"verb": "interrupt", "message": 3},
    ],
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
    "decline": Decline, "retry": Retry, "continue": Continue,
}  # fmt: skip


@pytest.mark.parametrize("type", SuspensionType)
@pytest.mark.parametrize("code", ["", OUTCOME_UNKNOWN])
@pytest.mark.parametrize("schema", [None, FrozenDict(type="object")])
def test_what_is_offered_is_what_the_turn_takes(type, code, schema):
    asked = Asked(id="q", type=type, message="?", asked=1, code=code, schema=schema)

    takes = fitting(Question(id="q", type=type, message="?", code=code, schema=schema))

    assert {VERBS[verb] for verb in offers(asked)} <= takes
    assert bool(offers(asked)) == bool(takes)


def test_a_form_can_be_declined_and_a_plain_question_cannot(shop):
    plain = shop.view(Proceed(), Suspend(correlation_id="q1", message="Which day?"), shop.reply("Hm."))

    assert offers(shop.view(*shop.formed()).questions[0]) == ("submit", "decline")
    assert offers(plain.questions[0]) == ("submit",)


def test_what_a_command_is_about():
    """What the panel says about a refusal stands where the press was."""
    assert about(AgentResumeCommand.approve_tool("q1")) == "q1"
    assert about(Cancel()) != about(Interrupt(message="x"))


def test_changed_arguments_and_errors_travel_with_their_answer(asked):
    assert press(asked, "approve", arguments={"amount": 7}).command.arguments == {"amount": 7}
    assert press(asked, "approve").command.arguments is None
    assert press(asked, "supply", error="lost").command.error == "lost"
    assert press(asked, "decline", reason="private").command.reason == "private"
    assert press(asked, "interrupt", message="Stop\ud800that.").command.message == "Stop\ufffdthat."


@pytest.mark.parametrize(
    ("arguments", "editable"),
    [
        ({"order": "O-1"}, True),
        ({}, True),
        ({"n": 2**53 - 1}, True),
        ({"a": [{"n": 2**53}]}, False),
        ({"t": "x" * 30_000}, False),
    ],
)
def test_what_a_browser_would_not_give_back_as_it_is_is_not_changed_there(shop, arguments, editable):
    """A15: a number that a browser rounds must not become another one because somebody changed a word beside it."""
    ask = shop.checked(_1_0=Verdict(strictness=Strictness.ASK))
    view = shop.view(Proceed(), shop.reply("", ("refund", freeze(arguments))), ask)

    assert is_editable(view.questions[0]) is editable


def test_a_call_whose_outcome_is_unknown_is_run_again_as_it_was():
    asked = Asked(
        id="q", type=SuspensionType.TOOL_APPROVAL, message="?", asked=1, code=OUTCOME_UNKNOWN, given=FrozenDict(n=1)
    )

    assert not is_editable(asked)
