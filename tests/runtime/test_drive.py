"""One turn being moved on: the text beat in a run, steps, and options."""

import time

from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.drive import AgentRunnerOptions, summary
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.runtime.tools import tool

call, say, think = ScriptedModel.call, ScriptedModel.say, ScriptedModel.think
DELTAS = (EventType.MODEL_TEXT_DELTA, EventType.MODEL_REASONING_DELTA, EventType.MODEL_TOOL_CALL_DELTA)


def test_pieces_within_a_beat_are_joined_exactly_and_any_other_event_lets_them_go(desk):
    """E15, E16: with a clock that stands still, a beat never ends by itself."""
    runner = AgentRunner(desk.store, monotonic=lambda: 0.0, options=AgentRunnerOptions(text_beat=10))
    agent = desk.agent([say("one two "), think("hm hm"), say("three four"), call("look")], "x", tools=[LOOK])

    turn = runner.run(agent, "go", conversation_id=desk.conversation())

    told = [(event.type, event.data["content"]) for event in desk.store.events(turn.id) if event.type in DELTAS]
    assert told[:4] == [
        (EventType.MODEL_TEXT_DELTA, "one two "),
        (EventType.MODEL_REASONING_DELTA, "hm hm"),
        (EventType.MODEL_TEXT_DELTA, "three four"),
        (EventType.MODEL_TOOL_CALL_DELTA, "{}"),
    ]
    assert turn.messages[1].content == "one two three four"


@tool(name="look")
def LOOK() -> str:
    """Look."""
    return "seen"


def test_the_concatenation_of_the_deltas_is_the_text_whatever_the_beat(desk):
    """E15."""
    words = " ".join(f"word{n}\N{GRINNING FACE}" for n in range(200))
    for beat in (0, 0.001, 0.04):
        runner = AgentRunner(desk.store, options=AgentRunnerOptions(text_beat=beat))
        turn = runner.run(desk.agent(say(words)), "go", conversation_id=desk.conversation())
        told = [event.data["content"] for event in desk.store.events(turn.id) if event.type in DELTAS]
        assert "".join(told) == turn.output == words
        assert (len(told) == 200) == (beat == 0)


def test_without_streaming_there_are_no_deltas_and_the_log_has_the_text(desk):
    turn = desk.run(say("one two"), options=AgentTurnOptions(streaming=False))

    assert not [event for event in desk.store.events(turn.id) if event.type in DELTAS]
    assert desk.events(turn, EventType.MODEL_COMPLETED)[0].data["content"] == "one two"


def test_model_started_says_where_the_turn_stands(desk):
    """E13."""
    turn = desk.run(call("look"), "Done.", tools=[LOOK])

    told = [
        (event.data["iteration"], event.data["remaining_iterations"])
        for event in desk.events(turn, EventType.MODEL_STARTED)
    ]
    assert told == [(1, 19), (2, 18)]


def test_a_step_is_at_most_one_model_call_and_what_it_led_to(desk):
    turn = desk.runner.create(desk.agent(call("look"), call("look"), "Done.", tools=[LOOK]), "go", conversation_id="c0")

    counts = []
    while not turn.status.is_terminal:
        desk.runner.step(turn)
        counts.append((len(desk.events(turn, EventType.MODEL_STARTED)), len(desk.events(turn, EventType.TOOL_STARTED))))

    assert counts == [(1, 1), (2, 2), (3, 2)]


def test_many_deltas_are_few_events_and_cheap(memory_desk):
    """E15, K13's base: twenty thousand pieces as fast as they come."""
    text = "x " * 20_000
    begun = time.process_time()
    turn = memory_desk.run(say(text), options=AgentTurnOptions())
    spent = time.process_time() - begun

    assert turn.output == text
    assert len(memory_desk.events(turn, EventType.MODEL_TEXT_DELTA)) < 1 + spent / 0.04 * 4
    assert turn.status is AgentStatus.COMPLETED


def test_the_text_of_an_error_is_bounded_and_well_formed():
    assert summary(ValueError("x" * 100_000)).message == "x" * 10_000
    assert summary(ValueError("a\ud83d")).message == "a\ufffd"
    assert summary(ValueError()).message == "ValueError"
    assert summary(SystemExit(3)).message == "SystemExit(3)"
