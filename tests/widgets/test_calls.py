"""The calls of a turn, as a panel follows them."""

import pytest

from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import (
    Proceed,
    ToolFailed,
    ToolProgressed,
)
from agentflex_nb.core.verdicts import ALLOWED, Strictness, Verdict
from agentflex_nb.widgets.items import Call, CallState


def test_a_call_goes_from_written_to_done(shop):
    inputs = shop.looked_up()
    call = {
        n: shop.only(
            shop.view(*inputs[:n], shop.call_piece(0, "lookup", '{"or')) if n == 4 else shop.view(*inputs[:n]), Call
        )
        for n in (4, 5, 6, 7, 8)
    }

    assert [call[n].state for n in call] == ["writing", "ready", "running", "running", "done"]
    assert (call[4].name, call[4].raw) == ("lookup", '{"or')
    assert call[5].arguments == (("order", "O-1"),)
    assert (call[7].progress.message, call[7].progress.percent, call[7].progress.fields) == (
        "reading",
        50,
        (("rows", "7"),),
    )
    assert (call[8].result, call[8].result_length) == ('{"amount": 120}', 15)
    assert call[8].ended > call[8].began


def test_a_call_that_was_seen_being_written_keeps_its_place(shop):
    written = shop.view(Proceed(), shop.text("a"), shop.call_piece(0, "lookup", "{"))
    whole = shop.view(Proceed(), shop.text("a"), shop.call_piece(0, "lookup", "{"), shop.reply("a", ("lookup", {})))

    assert shop.only(whole, Call).key == shop.only(written, Call).key
    assert shop.only(whole, Call).call_id == "t1.1.0"


def test_a_policy_that_denies_says_why(shop):
    no = Verdict(strictness=Strictness.DENY, code="LIMIT", message="not today", reason="the limit is 50")

    view = shop.view(Proceed(), shop.reply("", ("refund", {})), shop.checked(_1_0=no))

    assert (shop.only(view, Call).state, shop.only(view, Call).problem) == (CallState.DENIED, "the limit is 50")


def test_a_tool_that_failed_says_why(shop):
    error = ErrorSummary(kind="TimeoutError", message="no answer")
    view = shop.view(
        Proceed(),
        shop.reply("", ("lookup", {})),
        shop.checked(_1_0=ALLOWED),
        ToolFailed("t1.1.0", error, "Error: no answer"),
    )

    assert (shop.only(view, Call).state, shop.only(view, Call).problem) == (CallState.FAILED, "TimeoutError: no answer")


@pytest.mark.parametrize(("percent", "shown"), [(50, 50.0), (-1, 0.0), (250, 100.0), ("half", None), (None, None)])
def test_a_percentage_is_shown_where_it_is_one(shop, percent, shown):
    view = shop.view(*shop.looked_up()[:6], ToolProgressed("t1.1.0", "m", FrozenDict(percent=percent)))

    assert shop.only(view, Call).progress.percent == shown
