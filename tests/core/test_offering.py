"""Which tools the model is offered, where that is for the agent's code to say: T5, T11, Y7."""

from dataclasses import replace

import pytest

from agentflex_nb.core.effects import CallModel, OfferTools
from agentflex_nb.core.errors import IllegalTransitionError
from agentflex_nb.core.inputs import Cancel, Interrupt, ToolsOffered
from agentflex_nb.core.machine import AgentStatus

from .play import (
    ASK,
    EXTRA,
    FAIR,
    GO,
    Crash,
    Played,
    approve,
    breaks,
    calls,
    continue_,
    fails,
    judge,
    offers,
    play,
    returns,
    wants,
)


def offered(played: Played) -> list[str]:
    assert isinstance(played.effect, CallModel)
    return [spec.name for spec in played.effect.request.tools]


def test_code_is_asked_which_tools_are_offered_before_each_call_of_the_model():
    """T5, T11, Y7: hidden tools are not shown, those of others are."""
    played = play(GO, agent=FAIR)
    assert (played.kinds[-1], played.effects) == ("MODEL_STARTED", (OfferTools(),))

    played.say(offers(EXTRA, hidden=("look", "pay")))
    assert offered(played) == ["mail", "ship", "export", "scan", "request_user_input", "extra"]

    played.say(calls(wants("mail")), judge(), returns(), GO, offers())
    assert offered(played) == ["look", "pay", "mail", "ship", "export", "scan", "request_user_input"]
    assert played.kinds.count("MODEL_STARTED") == 2


def test_an_agent_whose_tools_are_fixed_is_never_asked():
    played = play(GO)

    assert isinstance(played.effect, CallModel)
    with pytest.raises(IllegalTransitionError, match="fixed"):
        played.say(ToolsOffered())


def test_a_hidden_tool_runs_all_the_same():
    """T11"""
    played = play(GO, offers(hidden=("look",)), calls(wants("look")), judge(), returns("seen"), agent=FAIR)

    assert played.last("TOOL_COMPLETED")["result"] == "seen"


def test_a_resolved_tool_is_judged_asked_about_and_outlives_the_process_until_its_call_is_answered():
    """T5, A1, P4: what was called is part of the state, what was only offered is not."""
    other = replace(EXTRA, name="other")
    played = play(GO, offers(EXTRA, other), calls(wants("extra")), judge(ASK), agent=FAIR)

    assert (played.turn.status, played.turn.resolved) == (AgentStatus.WAITING_FOR_APPROVAL, (EXTRA,))
    played.say(approve(), GO, Crash(), GO, judge(), returns("done"))
    assert (played.last("TOOL_COMPLETED")["result"], played.turn.resolved) == ("done", ())


def test_a_tool_that_was_offered_once_is_unknown_in_the_next_round():
    """T7"""
    played = play(GO, offers(EXTRA), calls(wants("extra")), judge(), judge(), returns(), agent=FAIR)

    played.say(GO, offers(), calls(wants("extra")))

    assert (played.turn.status, played.turn.error.code) == (AgentStatus.FAILED, "UNKNOWN_TOOL")


@pytest.mark.parametrize("meanwhile", [Cancel(reason="enough"), Interrupt(message="Stop that.")])
def test_a_turn_that_shall_do_something_else_does_not_ask_the_model(meanwhile):
    """X1, Z28: what was told to have started is told to be over."""
    played = play(GO, meanwhile, ToolsOffered(), agent=FAIR)

    assert not played.effects
    assert played.kinds.count("MODEL_FAILED") == played.kinds.count("MODEL_STARTED") == 1
    assert not played.turn.step_open


def test_where_nobody_can_say_what_is_offered_the_call_of_the_model_has_failed():
    """R1, R8: what may pass is tried again, and then asked again."""
    assert play(GO, breaks(), agent=FAIR).turn.status is AgentStatus.FAILED

    played = play(GO, fails(), continue_(), GO, agent=FAIR)

    assert played.effects == (OfferTools(),)
    assert played.last("MODEL_STARTED")["attempt"] == 2
