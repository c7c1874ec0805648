"""Without a notebook a turn is printed, whole and once, and nothing hangs."""

import io

import pytest

from agentflex_nb.widgets.panel import Panel
from agentflex_nb.widgets.screens import TextScreen
from agentflex_nb.widgets.static_text import turn_text


@pytest.fixture
def printed(shop):
    """Feeds a panel on a text screen; what was printed."""

    def feed(*logs, ahead=()):
        out = io.StringIO()
        panel = Panel("t1", on_command=lambda *_: None)
        panel.catch_up(ahead)
        panel.attach(TextScreen(out))
        for log in logs:
            for event in log:
                panel.feed(event)
        return out.getvalue()

    return feed


def test_a_waiting_turn_prints_its_question_and_the_code_that_answers_it(shop, printed):
    """K14: a front end that shows only text."""
    text = printed(shop.events(*shop.asked()))

    assert "shop · turn t1" in text
    assert "refund 120.0?" in text
    assert "lab.restore('t1').approve()" in text
    assert text.strip().splitlines()[-1].startswith("WAITING_FOR_APPROVAL · 2 steps · 30 tokens")


def test_every_item_is_printed_once_when_it_is_complete(shop, printed):
    text = printed(shop.events(*shop.approved()))

    for once in ("I look it up.", "✓ lookup", "✓ refund", "Approved by bob", "Done.", "COMPLETED"):
        assert text.count(once) == 1, once


def test_a_turn_that_is_opened_late_is_printed_from_its_beginning(shop, printed):
    text = printed(ahead=shop.events(*shop.approved()))

    assert text == turn_text(shop.view(*shop.approved())) + "\n"


def test_it_prints_to_what_stdout_is_at_the_time(shop, capsys):
    panel = Panel("t1", on_command=lambda *_: None)
    panel.attach(TextScreen())
    for event in shop.events(*shop.approved()):
        panel.feed(event)

    assert "COMPLETED" in capsys.readouterr().out
