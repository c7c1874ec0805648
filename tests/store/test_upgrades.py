"""What an earlier version saved goes on as it would have gone on then."""

import json
from pathlib import Path

import pytest

from agentflex_nb.core.advance import advance
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.inputs import AgentResumeCommand, ModelFailed, Proceed
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.turn import Turn
from agentflex_nb.store.codec import decode_message, decode_turn
from agentflex_nb.store.upgrades import FORMAT, upgraded
from agentflex_nb.testing.store_contract import SHOP
from agentflex_nb.testing.time import START

SLOW = ErrorSummary(kind="RateLimitError", message="slow down", retryable=True)


def saved(name: str) -> Turn:
    golden = json.loads((Path(__file__).parents[1] / "golden" / f"{name}.json").read_text("utf-8"))
    messages = [decode_message(text) for _, text in golden["messages"]]
    return decode_turn(golden["state"], messages, dict([golden["instructions"]]).get)


def test_a_question_of_the_first_format_is_answered_and_its_call_runs():
    waiting = saved("v1_waiting_for_approval")
    yes = AgentResumeCommand.approve_tool(waiting.questions[0].id)

    approved = advance(SHOP, waiting, yes, START).turn

    assert approved.pending[0].approved


def test_a_turn_of_the_first_format_fails_at_once_as_it_did_then():
    asked = advance(SHOP, saved("v1_ready"), Proceed(), START).turn

    failed = advance(SHOP, asked, ModelFailed(error=SLOW), START).turn

    assert failed.status is AgentStatus.FAILED


@pytest.mark.parametrize(
    "state", [{}, {"identity": None}, {"identity": {"policy": 7}}, {"identity": {"policy": {}}, "pending": [3]}]
)
def test_what_is_no_state_is_left_for_its_reader_to_refuse(state):
    assert upgraded(dict(state), 1) == state or "retry" in state["identity"]["policy"]


def test_a_state_of_today_stays_as_it_is():
    state = {"identity": {"policy": {}}}

    assert upgraded(state, FORMAT) == {"identity": {"policy": {}}}
