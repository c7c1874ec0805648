"""A turn as plain text."""

from dataclasses import replace

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.inputs import AgentResumeCommand, ModelFailed, Proceed
from agentflex_nb.core.verdicts import Strictness, Verdict
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


def test_every_way_to_answer_is_a_line(shop):
    lines = turn_text(shop.view(*shop.asked())).splitlines()

    at = lines.index("      answer it: lab.restore('t1').approve()")
    assert lines[at + 1 : at + 3] == [
        '             or: lab.restore(\'t1\').approve(arguments={"order": ..., "amount": ...})',
        "             or: lab.restore('t1').reject(\"why\")",
    ]


def test_what_happens_by_itself_is_said_with_its_time(shop):
    """A16"""
    limited = Verdict(strictness=Strictness.ASK, expires_in=60.0)
    asked = (Proceed(), shop.reply("", ("refund", {})), shop.checked(_1_0=limited))

    assert "      If nobody answers, it is rejected on 2026-01-01 at 00:01:00 UTC.\n" in turn_text(shop.view(*asked))
    retrying = turn_text(shop.view(*shop.failing()))
    assert "      It is tried again on 2026-01-01 at 00:00:0" in retrying
    assert "answer it: lab.restore('t1').continue_()" in retrying


def test_a_model_that_failed_shows_how(shop):
    """E18"""
    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))

    text = turn_text(shop.view(*shop.failing(), policy=policy))

    assert "      HTTP status: 529\n" in text
    assert "answer it: lab.restore('t1').retry()" in text


def test_listeners_that_raised_are_named_before_the_status(shop):
    *_, told, status = turn_text(replace(shop.view(*shop.approved()), failing=(("log", 1),))).splitlines()

    assert told == "  ! Not everybody heard all of this. Listeners that raised: log (1 time)"
    assert status.startswith("COMPLETED")
    assert "raised" not in turn_text(shop.view(*shop.approved()))
