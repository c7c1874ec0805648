"""How a history is closed, whatever ends the turn or leaves its work: X3, X4, X6, B9."""

import pytest

from agentflex_nb.core.agent import ClosingTexts
from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.inputs import Cancel, Interrupt, Interrupted
from agentflex_nb.core.messages import Usage

from .play import (
    DENY,
    GO,
    INVALID,
    Crash,
    approve,
    asks_for,
    calls,
    falters,
    judge,
    piece,
    play,
    results,
    wants,
    with_policy,
)

LOOK = (GO, calls(wants("look")), judge())
GUARDED = (GO, calls(wants("pay")), judge(), judge())


def test_what_the_model_had_used_by_the_time_it_was_stopped_counts():
    """B9, Z11"""
    played = play(GO, piece("Hel"), Interrupted("stopped", Usage(input_tokens=5_000)))

    assert played.turn.usage.input_tokens == 5_000
    assert played.last("MODEL_FAILED")["usage"]["input_tokens"] == 5_000


@pytest.mark.parametrize(
    "moves",
    [
        (GO, calls(wants("mail")), judge(), falters()),  # its next attempt is scheduled
        (*LOOK, asks_for()),  # it runs again from its start
        (*LOOK, Crash(), GO, approve()),  # nobody knows what came of it in the process that died
    ],
)
def test_a_call_that_was_ever_started_is_never_told_to_the_model_as_not_run(moves):
    """X3, P17: whatever ends the turn before it starts again."""
    cancelled, interrupted = play(*moves, Cancel()), play(*moves, Interrupt(message="Stop that."))

    assert results(cancelled) == {"t1.1.0": "Started, but its outcome is not known: the turn was cancelled."}
    assert results(interrupted) == {"t1.1.0": "Started, but its outcome is not known: the user interrupted."}


@pytest.mark.parametrize("no", [DENY, INVALID])
def test_a_no_that_comes_after_a_start_does_not_say_that_nothing_happened(no):
    """P17, A19: a person lets it run again, and the policy does not; the process that died may have done it."""
    played = play(*GUARDED, Crash(), GO, approve(), GO, judge(no))

    told = results(played)["t1.1.0"]
    assert "Nothing was run" not in told
    assert '"status": "DENIED"' not in told
    assert (played.every("TOOL_DENIED") == []) is (no is INVALID)


def test_the_agent_words_what_closes_a_history():
    """X4: the reason stands where the text has a place for it."""
    words = ClosingTexts(not_run="Skipped ({why})", started="Who knows", turn="Sorry: {why}!")
    played = play(
        GO, calls(wants("look"), wants("mail")), judge(), Interrupted("enough"), policy=with_policy(closing=words)
    )

    assert results(played) == {"t1.1.0": "Who knows", "t1.1.1": "Skipped (the turn was cancelled: enough)"}
    assert played.history[-1] == ("assistant", "Sorry: The turn was cancelled: enough!")
    assert play(Cancel(), policy=with_policy(closing=words)).history[-1] == (
        "assistant",
        "Sorry: The turn was cancelled!",
    )


@pytest.mark.parametrize("wrong", ["{reason}", "{", "{0}", "{why.real}"])
def test_a_closing_text_with_anything_else_in_braces_is_refused_when_it_is_written(wrong):
    """X4"""
    with pytest.raises(InvalidAgentError, match="why"):
        ClosingTexts(turn=wrong)
