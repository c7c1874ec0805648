"""What the log says when a call has its result: E2, P17, O2, A17."""

import pytest

from agentflex_nb.core.advance import advance
from agentflex_nb.core.inputs import Cancel, Interrupt
from agentflex_nb.core.values import PackedValue

from .play import (
    GO,
    INVALID,
    MARKET,
    Crash,
    calls,
    judge,
    play,
    raises,
    results,
    returns,
    supply,
    wants,
)

OUTSIDE = (GO, calls(wants("ship")), judge())
UNKNOWN = (GO, calls(wants("look")), judge(), Crash(), GO)


def test_an_event_carries_the_beginning_of_a_long_result_and_its_length():
    played = play(GO, calls(wants("look")), judge(), returns("x" * 5_000))

    told = played.last("TOOL_COMPLETED")
    assert (told["result"], told["result_chars"]) == ("x" * 2_000, 5_000)
    assert results(played)["t1.1.0"] == "x" * 5_000


def test_a_whole_value_is_saved_in_the_commit_that_has_its_text():
    """T14, P5"""
    kept = PackedValue("application/json", b"[1, 2]")
    before = play(GO, calls(wants("look")), judge())

    said = returns("[1 …", value_type="list", kept=kept)(before)
    result = advance(before.definition, before.turn, said, before.now())

    told = next(event.data for event in result.events if event.type == "TOOL_COMPLETED")
    assert (result.commits, result.kept) == (True, (("t1.1.0", kept),))
    assert (told["value_type"], told["kept"], told["kept_bytes"]) == ("list", "application/json", 6)


@pytest.mark.parametrize(
    ("asked", "completed", "failed"),
    [(OUTSIDE, "EXTERNAL_TOOL_COMPLETED", "EXTERNAL_TOOL_FAILED"), (UNKNOWN, "TOOL_COMPLETED", "TOOL_FAILED")],
)
def test_a_result_that_was_supplied_is_told_as_what_it_is(asked, completed, failed):
    """O2, P17"""
    assert play(*asked, supply("sent"), GO, agent=MARKET).last(completed)["result"] == "sent"
    told = play(*asked, supply(error="lost"), GO, agent=MARKET).last(failed)
    assert (told["error"]["code"], told["error"]["message"], told["started"]) == ("REPORTED", "lost", True)


@pytest.mark.parametrize("end", [Cancel(reason="enough"), Interrupt(message="Stop that.")])
@pytest.mark.parametrize("asked", [OUTSIDE, UNKNOWN])
def test_a_result_that_was_supplied_is_told_once_also_where_the_turn_ends_meanwhile(asked, end):
    """X2, X5: what was acknowledged is in the history and in the log."""
    played = play(*asked, supply("sent"), end, agent=MARKET)

    told = [event for event in played.events if event.data.get("result") == "sent"]
    assert (len(told), list(results(played).values())) == (1, ["sent"])
    assert played.every("TOOL_INTERRUPTED") == []


def test_a_result_that_came_before_an_interruption_stays_a_result():
    """X5"""
    played = play(GO, calls(wants("look"), wants("look")), judge(), Interrupt(message="Stop."), returns("found"))

    assert [data["tool_call_id"] for data in played.every("TOOL_COMPLETED")] == ["t1.1.0"]
    assert [data["tool_call_id"] for data in played.every("TOOL_INTERRUPTED")] == ["t1.1.1"]


def test_what_the_runtime_makes_up_for_a_call_is_labelled_and_what_a_tool_said_is_not():
    """X3: unknown tools, and arguments that do not fit."""

    def origins(*moves, **how):
        played = play(GO, *moves, **how)
        return [message.origin.value for message in played.turn.messages if message.role.value == "tool"]

    assert origins(calls(wants("nonsense"))) == ["runtime"]
    assert origins(calls(wants("look", malformed="{"))) == ["runtime"]
    assert origins(calls(wants("look")), judge(INVALID)) == ["runtime"]
    assert origins(calls(wants("look")), judge(), raises()) == [""]
    assert origins(calls(wants("look")), judge(), returns("fine")) == [""]
