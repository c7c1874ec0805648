"""The lines of Python that answer: they name the question where it must be named, and every one of them works."""

import pytest

import agentflex_nb as af
from agentflex_nb.core.inputs import Proceed, Suspend
from agentflex_nb.core.machine import SuspensionType
from agentflex_nb.core.questions import OUTCOME_UNKNOWN
from agentflex_nb.widgets.code import in_code
from agentflex_nb.widgets.items import Asked, View

VIEW = View(turn_id="t1")


def test_an_approval_can_be_given_with_changes_or_refused(shop):
    view = shop.view(*shop.asked())

    assert in_code(view, view.questions[0]) == (
        "lab.restore('t1').approve()",
        'lab.restore(\'t1\').approve(arguments={"order": ..., "amount": ...})',
        "lab.restore('t1').reject(\"why\")",
    )


def test_the_question_is_named_where_there_are_several(shop):
    first, second = (view := shop.view(*shop.two_asked())).questions

    assert in_code(view, first)[0] == "lab.restore('t1').approve(call_id='t1.1.0')"
    assert in_code(view, second)[-1] == "lab.restore('t1').reject(\"why\", call_id='t1.1.1')"


def test_a_form_shows_its_fields_and_can_be_declined(shop):
    view = shop.view(*shop.formed())

    assert in_code(view, view.questions[0]) == (
        "lab.restore('t1').submit({\"city\": ...})",
        "lab.restore('t1').decline(\"why\")",
    )


def test_a_plain_question_is_answered_with_text(shop):
    view = shop.view(Proceed(), Suspend(correlation_id="q1", message="Which day?"), shop.reply("Hm."))

    assert in_code(view, view.questions[0]) == ("lab.restore('t1').submit(\"your answer\")",)


@pytest.mark.parametrize(
    ("type", "code", "methods"),
    [
        (SuspensionType.EXTERNAL_TOOL, "", ["supply", "supply"]),
        (SuspensionType.TOOL_APPROVAL, OUTCOME_UNKNOWN, ["approve", "reject", "supply", "supply"]),
        (SuspensionType.RETRY, "", ["continue_"]),
        (SuspensionType.MODEL, "", ["retry"]),
    ],
)
def test_every_kind_of_question_has_its_methods(type, code, methods):
    lines = in_code(VIEW, Asked(id="q", type=type, message="?", asked=1, code=code))

    called = [line.removeprefix("lab.restore('t1').").split("(")[0] for line in lines]
    assert called == methods
    assert all(hasattr(af.AgentTurn, method) for method in called)


def test_what_nobody_here_can_answer_can_be_looked_at():
    asked = Asked(id="q", type=SuspensionType.CHILD_AGENT, message="?", asked=1)

    assert in_code(VIEW, asked) == ("lab.restore('t1')",)


def test_of_many_names_the_first_are_shown():
    schema = {"properties": {f"f{n}": {} for n in range(6)}}
    asked = Asked(id="q", type=SuspensionType.USER_INPUT, message="?", asked=1, schema=schema)

    assert in_code(VIEW, asked)[0] == ('lab.restore(\'t1\').submit({"f0": ..., "f1": ..., "f2": ..., "f3": ..., ...})')
