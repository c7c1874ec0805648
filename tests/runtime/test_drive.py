"""One turn being moved on: the text beat in a run, steps, and options."""

import threading
import time

import pytest

from agentflex_nb.core.errors import StoreError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.model import Finish, TextDelta
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.drive import AgentRunnerOptions, summary
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore

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


@pytest.mark.parametrize("act", ["cancel", "suspend"])
def test_text_that_came_before_a_word_from_another_thread_is_told_before_it(memory_desk, act):
    """E15: any other event lets held text go."""
    runner = memory_desk.another_runner(options=AgentRunnerOptions(text_beat=60.0))
    turns = []

    class Model:
        name = "m"

        def stream(self, request):
            yield TextDelta("hello ")
            yield TextDelta("world")
            other = threading.Thread(target=getattr(runner, act), args=[turns[0], "please"])
            other.start()
            other.join(20)
            yield Finish(reason="stop")

    turns.append(runner.create(memory_desk.agent(model=Model()), "go"))
    runner.run_until_blocked(turns[0])

    told = memory_desk.log(turns[0])
    word = "CANCELLATION_REQUESTED" if act == "cancel" else "SNAPSHOT_SAVED"
    after_text = told[told.index("MODEL_STARTED") :]
    assert after_text.index("MODEL_TEXT_DELTA") < after_text.index(word)


def test_a_failed_commit_ends_the_run_though_a_middleware_swallows_it(memory_desk):
    """P18, I3"""

    class Full(MemoryStore):
        commits = 0

        def commit(self, *given, **named):
            self.commits += 1
            if self.commits > 1:
                raise StoreError("disk full")
            super().commit(*given, **named)

    class Swallows(AgentMiddleware):
        def around_step(self, turn, proceed):
            try:
                return proceed(turn)
            except Exception:
                return turn

    runner = memory_desk.another_runner(store=Full())
    with pytest.raises(StoreError, match="disk full"):
        runner.run(memory_desk.agent("hi", middlewares=[Swallows()]), "go")


def test_whatever_the_text_of_an_error_does_it_is_summed_up():
    class Rude(Exception):
        def __str__(self):
            raise SystemExit(3)

    assert (summary(Rude()).kind, summary(Rude()).message) == ("Rude", "Rude")
