"""Patches and snapshots: however a turn is cut into messages, the page shows the same."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import AgentResumeCommand, Cancel, Proceed
from agentflex_nb.core.verdicts import Strictness, Verdict
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.view import show_all
from agentflex_nb.widgets.wire import is_durable, patch, snapshot, state, thaw

ASK = Verdict(strictness=Strictness.ASK)


def as_sent(message):
    """The message after a journey as JSON, strict about what JSON knows."""
    return json.loads(json.dumps(message, allow_nan=False))


@given(st.data())
def test_patches_over_any_cut_lead_to_the_same_page_as_the_snapshot(shop, new_page, data):
    inputs = [*shop.approved()[:3], shop.text("a😀"), shop.call_piece(0, "lookup", "{"), *shop.approved()[3:]]
    events = shop.events(*inputs)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events) - 1))))
    view = View(turn_id="t1")
    page = new_page(as_sent(snapshot(view, 0, {})))

    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True), 1):
        after = show_all(view, events[start:end])
        page.take(as_sent(patch(view, after, number, {})))
        view = after

    whole = new_page(as_sent(snapshot(view, 99, {})))
    assert page.gaps == 0
    assert page.items == whole.items
    assert page.state == whole.state


def test_text_that_grows_is_sent_as_what_was_added(shop):
    inputs = (Proceed(), shop.text("x" * 9_000))
    old = shop.view(*inputs)
    new = show_all(old, shop.events(*inputs, shop.text("!")))

    message = patch(old, new, 1, {})

    assert [grown["piece"] for grown in message["grown"]] == ["!"]
    assert message["put"] == []


def test_an_item_that_did_not_change_is_not_sent_again(shop):
    inputs = shop.approved()
    old = shop.view(*inputs[:-1])
    new = show_all(old, shop.events(*inputs))

    assert len(patch(old, new, 1, {})["put"]) == 1  # the step that ended


def test_no_message_has_id_as_a_top_level_key(shop):
    """ipykernel 7.4 keeps an entry for every such message."""
    view = shop.view(*shop.asked())

    assert "id" not in snapshot(view, 1, {})
    assert "id" not in patch(View(turn_id="t1"), view, 1, {})


@pytest.mark.parametrize(
    ("before", "after", "durable"), [(2, 3, True), (3, 4, False), (4, 5, True), (6, 7, False), (7, 8, True)]
)
def test_what_is_worth_a_snapshot(shop, before, after, durable):
    """Blocks that begin or end and calls that move are; text that grows and progress are not."""
    inputs = shop.looked_up()

    assert is_durable(shop.view(*inputs[:before]), shop.view(*inputs[:after])) is durable


def test_questions_and_a_cancellation_are_worth_a_snapshot(shop):
    asked = shop.two_asked()

    assert is_durable(shop.view(*asked), shop.view(*asked, AgentResumeCommand.approve_tool("t1.1.0")))
    assert is_durable(shop.view(Proceed()), shop.view(Proceed(), Cancel()))


def test_a_question_says_what_it_offers_and_how_it_is_answered_in_code(shop):
    (question,) = state(shop.view(*shop.asked()), {})["questions"]

    assert question["offers"] == ["approve", "reject"]
    assert question["in_code"].splitlines()[0] == "lab.restore('t1').approve()"


def test_frozen_data_becomes_plain():
    assert thaw(FrozenDict(a=(1, FrozenDict(b=None)))) == {"a": [1, {"b": None}]}
    assert type(thaw(FrozenDict(a=FrozenDict()))["a"]) is dict


SCHEMA = FrozenDict(type="object", properties=FrozenDict(amount=FrozenDict(type="number")))


def test_arguments_that_can_be_changed_are_sent_as_they_are_with_the_schema_of_the_tool(shop):
    """A15"""
    (question,) = state(shop.view(*shop.asked()), {}, lambda asked: SCHEMA)["questions"]

    assert question["given"] == {"order": "O-1", "amount": 120.0}
    assert question["parameters"] == {"type": "object", "properties": {"amount": {"type": "number"}}}
    assert type(question["given"]) is dict


def test_of_other_questions_no_arguments_are_sent(shop):
    for inputs in (shop.formed(), shop.outside()):
        (question,) = state(shop.view(*inputs), {}, lambda asked: SCHEMA)["questions"]
        assert (question["given"], question["parameters"]) == (None, None)


def test_a_page_can_count_down_by_itself(shop):
    """A16: the moment is sent once; no message is needed for each second."""
    limited = replace(ASK, expires_in=60.0, when_expired="APPROVE")
    asked = (Proceed(), shop.reply("", ("refund", {})), shop.checked(_1_0=limited))
    (question,) = state(shop.view(*asked), {})["questions"]
    assert (question["expires_at"], question["when_expired"]) == ("2026-01-01T00:01:00.005000+00:00", "APPROVE")

    (retry,) = state(shop.view(*shop.failing()), {})["questions"]
    assert retry["due_at"].startswith("2026-01-01T00:00:0")


def test_listeners_that_raised_are_told_and_worth_a_snapshot(shop):
    view = shop.view(*shop.asked())
    failing = replace(view, failing=(("log", 2),))

    assert state(view, {})["failing"] == ""
    assert "log (2 times)" in state(failing, {})["failing"]
    assert is_durable(view, failing)
