"""A turn as plain text."""

from dataclasses import replace

import pytest

from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.inputs import AgentResumeCommand, ModelFailed, Proceed
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.static_text import turn_text
from agentflex_nb.widgets.view import show_all


def test_the_whole_turn_reads_from_its_prompt_to_its_status(shop):
    view = show_all(View(turn_id="t1", prompt="Refund\nO-1"), shop.events(*shop.approved()))

    assert turn_text(view).splitlines() == [
        "shop · turn t1",
        "> Refund",
        "  O-1",
        "step 1",
        "  ~ which order?",
        "  I look it up.",
        "  ✓ lookup(order=O-1)  2 ms",
        '      {"amount": 120}',
        "step 2",
        "  It can be refunded.",
        "  ✓ refund(order=O-1, amount=120.0)  1 ms",
        "      sent",
        "  → Approved by bob at 00:00:00 UTC (refund)",
        "step 3",
        "step 4",
        "  Done.",
        "COMPLETED · 4 steps · 45 tokens · 16 ms",
    ]


def test_every_open_question_has_the_line_that_answers_it(shop):
    text = turn_text(shop.view(*shop.two_asked()))

    assert "answer it: lab.restore('t1').approve(call_id='t1.1.0')" in text
    assert "answer it: lab.restore('t1').approve(call_id='t1.1.1')" in text


def test_a_failed_turn_says_why(shop):
    text = turn_text(shop.view(Proceed(), ModelFailed(error=ErrorSummary(kind="Cut", message="gone"))))

    assert "  ! Cut: gone" in text
    assert text.splitlines()[-1].startswith("FAILED")


def test_submitted_data_stands_under_its_answer(shop):
    text = turn_text(shop.view(*shop.formed(), AgentResumeCommand.user_input("t1.1.0", {"city": "Paris"})))

    assert "→ Answered at 00:00:00 UTC (address)\n      city: Paris" in text


def test_no_line_ends_in_space(shop):
    text = turn_text(shop.view(Proceed(), shop.text("a\n\nb"), shop.reply("a\n\nb")))

    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("dropped", [0, 1_234])
def test_items_that_were_dropped_are_counted(shop, dropped):
    text = turn_text(replace(shop.view(Proceed()), dropped=dropped))

    assert ("1,234 earlier items are left out: lab.events(turn='t1')" in text) == bool(dropped)
