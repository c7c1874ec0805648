"""The core played by hand."""

from agentflex_nb.core.agent import AgentDefinition
from agentflex_nb.core.effects import CallModel
from agentflex_nb.core.inputs import ModelReplied, Proceed
from agentflex_nb.core.messages import assistant
from agentflex_nb.testing import play

AGENT = AgentDefinition(id="a", version="1", name="a", instructions="Be kind.")


def test_a_turn_that_was_only_opened_is_ready_and_saved():
    played = play(AGENT)

    assert played.turn.status == "READY"
    assert played.types == ["SNAPSHOT_SAVED"]
    assert played.effects == ()


def test_inputs_lead_to_effects_and_events():
    played = play(AGENT, Proceed())

    [effect] = played.effects
    assert isinstance(effect, CallModel)
    assert [message.content for message in effect.request.messages] == ["Be kind.", "hello"]


def test_the_whole_log_is_there_in_order():
    played = play(AGENT, Proceed(), ModelReplied(message=assistant("hi")), turn_id="t7")

    assert played.turn.output == "hi"
    assert [event.sequence for event in played.events] == list(range(1, len(played.events) + 1))
    assert {event.turn_id for event in played.events} == {"t7"}
