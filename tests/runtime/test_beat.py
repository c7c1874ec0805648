"""The pulse: E15 while the model is silent, E28's hundred milliseconds, and threads that end."""

import contextvars
import threading
import time

from agentflex_nb.core.events import EventType
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.beat import Beat
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.drive import AgentRunnerOptions
from agentflex_nb.runtime.runner import AgentRunner
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore

say, pause, call = ScriptedModel.say, ScriptedModel.pause, ScriptedModel.call


def texts(events):
    return [event.data["content"] for event in events if event.type is EventType.MODEL_TEXT_DELTA]


def test_text_is_told_while_the_model_is_silent(desk):
    """E15."""
    heard, at = [], []

    def listener(event):
        heard.append(event)
        at.append(time.monotonic())

    runner = AgentRunner(desk.store, listeners=[listener])
    runner.run(desk.agent([say("one two "), pause(0.4), say("three")]), "go", conversation_id=desk.conversation())

    assert texts(heard) == ["one two ", "three"]
    first, second = (at[n] for n, event in enumerate(heard) if event.type is EventType.MODEL_TEXT_DELTA)
    assert second - first > 0.2


def test_a_beat_of_zero_makes_each_piece_an_event(desk):
    """E15."""
    heard = []
    runner = AgentRunner(desk.store, listeners=[heard.append], options=AgentRunnerOptions(text_beat=0))

    runner.run(desk.agent(say("one two three")), "go", conversation_id=desk.conversation())

    assert texts(heard) == ["one ", "two ", "three"]


def test_events_that_no_commit_carries_are_saved_within_a_tenth_of_a_second(desk):
    """E28: without a new version."""
    seen = []

    @tool
    def work() -> str:
        """Tell, and wait."""
        AgentToolContext.current().emit_progress("half")
        for _ in range(30):
            time.sleep(0.01)
            seen.append([event.type for event in desk.store.events("t1")][-1])
        return str(desk.store.load("t1").turn.version)

    turn = desk.run(call("work"), "Done.", tools=[work])

    assert seen[-1] is EventType.TOOL_PROGRESS
    assert turn.messages[2].content == "1"


def test_what_is_not_saved_yet_is_saved_before_anybody_asks(desk):
    """E28: always before a query."""

    @tool
    def work() -> str:
        """Tell, and look at once."""
        AgentToolContext.current().emit_progress("half")
        return ",".join(event.type for event in desk.runner.events("t1"))

    turn = desk.run(call("work"), "Done.", tools=[work])

    assert turn.messages[2].content.endswith("TOOL_PROGRESS")


def test_a_slow_listener_of_one_turn_does_not_silence_another(desk):
    """E5, K30: the pulse never waits for a listener."""
    gate, heard = threading.Event(), []
    stuck = AgentRunner(desk.store)
    stuck.add_event_listener(lambda event: event.type is EventType.MODEL_TEXT_DELTA and gate.wait(10))
    lively = AgentRunner(desk.store, listeners=[lambda event: heard.append((event.type, time.monotonic()))])
    agent = desk.agent([say("one"), pause(0.5), say("two")])

    slow = stuck.start(agent, "go", conversation_id=desk.conversation())
    lively.run(agent, "go", conversation_id=desk.conversation())

    times = [at for type, at in heard if type is EventType.MODEL_TEXT_DELTA]
    assert times[1] - times[0] > 0.3
    gate.set()
    slow.wait(5)


class Member:
    def __init__(self, fails=False):
        self.looks, self.fails = 0, fails

    def tick(self):
        self.looks += 1
        if self.fails:
            raise ValueError("trouble")


def until(condition, seconds=3.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_one_members_trouble_does_not_stop_the_pulse_of_the_others(caplog):
    beat, broken, well = Beat(), Member(fails=True), Member()
    beat.join(broken)
    beat.join(well)

    assert until(lambda: well.looks > 3)
    assert broken.looks > 2
    beat.stop()
    assert "failed at the beat" in caplog.text


def test_who_has_left_gets_no_more_looks_and_the_thread_ends_with_the_beat():
    beat, member = Beat(), Member()
    beat.join(member)
    assert until(lambda: member.looks > 0)

    beat.leave(member)
    time.sleep(0.05)
    looks = member.looks
    time.sleep(0.1)

    assert member.looks == looks
    thread = beat._thread
    beat.stop()
    assert not thread.is_alive()


def test_a_sleeping_beat_wakes_for_the_next_member(monkeypatch):
    monkeypatch.setattr("agentflex_nb.runtime.beat._LINGER", 0.0)
    beat = Beat()
    for _ in range(5):
        member = Member()
        beat.join(member)
        assert until(lambda member=member: member.looks > 0)
        beat.leave(member)
        assert until(lambda: not beat._awake.is_set())
    beat.stop()


def test_a_beat_hammered_from_many_threads_looks_at_everybody(at_once):
    beat = Beat()

    def come_and_go():
        for _ in range(50):
            member = Member()
            beat.join(member)
            assert until(lambda member=member: member.looks)
            beat.leave(member)

    assert at_once(*[come_and_go] * 8) == [None] * 8
    assert beat._members == {}
    beat.stop()


def test_text_told_by_the_beat_goes_with_the_context_of_its_run():
    """K19: what a listener prints stays with the cell that ran the turn."""
    cell = contextvars.ContextVar("cell", default="none")
    seen = []
    runner = AgentRunner(MemoryStore())
    runner.add_event_listener(lambda event: seen.append((event.type, cell.get())))
    agent = Agent("a", model=ScriptedModel([say("one"), pause(0.2), say("two")]))
    for name in ("first", "second"):
        cell.set(name)
        runner.run(agent, "go")

    assert [name for type, name in seen if type is EventType.MODEL_TEXT_DELTA] == ["first"] * 2 + ["second"] * 2
