"""Turns taken up where a process died: P4, P5, P17, E4, K31, K32; and who drives when several want to."""

import threading
import time
from typing import Any

import pytest

from agentflex_nb.core.errors import CommandRefusedError, InvalidValueError, RefusalReason, StoreError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.runner import utc_now
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore

call, say = ScriptedModel.call, ScriptedModel.say


class Died(BaseException):
    """Stands for the end of the process: nothing is saved after it."""


class Dying(MemoryStore):
    """A record that takes nothing more once its process is dead."""

    dead = False

    def _guard(self) -> None:
        if self.dead:
            raise StoreError("the process is dead")

    def commit(self, *args: Any, **kwargs: Any) -> None:
        self._guard()
        super().commit(*args, **kwargs)

    def append(self, *args: Any, **kwargs: Any) -> None:
        self._guard()
        super().append(*args, **kwargs)


class Crash:
    """Runs a turn in a process that dies at some point, and goes on in another one."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.store = desk.store = Dying()
        self.heard: list[Any] = []
        self.ran: list[str] = []
        self.die_in: str | None = None

    def tool(self, name: str, **given: Any) -> Any:
        @tool(name=name, **given)
        def act() -> str:
            """Act, and perhaps die of it."""
            self.ran.append(name)
            if self.die_in == name:
                self.die()
            return f"{name} done"

        return act

    def die(self) -> None:
        self.store.dead = True
        raise Died

    def first_process(self, agent: Any, **given: Any) -> None:
        runner = self.desk.another_runner(store=self.store, listeners=[self.heard.append])
        with pytest.raises((Died, StoreError)):
            runner.run(agent, "go", conversation_id=self.desk.conversation(), **given)
        self.store.dead = False
        self.die_in = None

    def second_process(self, agent: Any) -> Any:
        """Another record of the same file, so that nothing in memory is shared."""
        reborn = Dying()
        reborn.__dict__.update(self.store.__dict__)
        self.desk.store = self.store = reborn
        self.runner = self.desk.another_runner(store=reborn, listeners=[self.heard.append])
        self.runner.loader.register(agent)
        return self.runner.restore("t1")


@pytest.fixture
def crash(memory_desk):
    return Crash(memory_desk)


def test_calls_are_saved_before_the_first_is_run_and_restored_without_a_model_call(crash):
    """P4, P5: what had finished is not run again, what had not started is."""
    one, two, three = crash.tool("one"), crash.tool("two", idempotent=True), crash.tool("three")
    agent = crash.desk.agent([call("one"), call("two"), call("three")], "Done.", tools=[one, two, three])
    crash.die_in = "two"
    crash.first_process(agent)
    asked = len(agent.model.requests)

    turn = crash.second_process(agent)
    assert turn.status is AgentStatus.RUNNING
    crash.runner.run_until_blocked(turn)

    assert turn.output == "Done."
    assert crash.ran == ["one", "two", "two", "three"]
    assert len(agent.model.requests) == asked + 1
    assert [message.content for message in turn.messages[2:5]] == ["one done", "two done", "three done"]


@pytest.mark.parametrize("answer", ["approve", "supply", "reject"])
def test_a_started_call_of_unknown_outcome_is_not_run_again_unasked(crash, answer):
    """P17, K32."""
    agent = crash.desk.agent(call("pay"), "Done.", tools=[crash.tool("pay")])
    crash.die_in = "pay"
    crash.first_process(agent)

    turn = crash.second_process(agent)
    crash.runner.run_until_blocked(turn)
    assert turn.status is AgentStatus.WAITING_FOR_APPROVAL
    assert (turn.questions[0].code, turn.questions[0].id, crash.ran) == ("OUTCOME_UNKNOWN", "t1.1.0", ["pay"])
    if answer == "supply":
        turn.supply({"paid": True})
    else:
        getattr(turn, answer)()

    assert turn.output == "Done."
    assert crash.ran == ["pay"] * (2 if answer == "approve" else 1)
    assert turn.messages[2].content.startswith(
        {"approve": "pay done", "supply": '{"paid": true}', "reject": '{"status": "OUTCOME_UNKNOWN"'}[answer]
    )


def test_the_key_of_a_call_is_the_same_in_every_process(crash):
    """K32, T12."""
    keys = []

    @tool(idempotent=True)
    def pay() -> str:
        """Pay under a key."""
        keys.append(AgentToolContext.current().idempotency_key)
        if len(keys) == 1:
            crash.die()
        return "paid"

    agent = crash.desk.agent(call("pay"), "Done.", tools=[pay])
    crash.first_process(agent)
    crash.runner_turn = crash.second_process(agent)
    crash.runner.run_until_blocked("t1")

    assert keys == ["t1:t1.1.0"] * 2


def test_numbers_are_never_used_twice_over_a_crash(crash):
    """E4, E3: what was heard of deltas that were never saved has numbers of its own."""

    def dies_once(request):
        if len(agent.model.requests) > 1:
            return "Whole."
        return ["half ", "a ", "sentence", ScriptedModel.pause(0.06), Died()]

    agent = crash.desk.agent(dies_once)
    original = crash.store.append

    def append_then_die(*args, **kwargs):
        original(*args, **kwargs)
        crash.store.dead = True  # nothing after the first events is ever saved

    crash.store.append = append_then_die
    crash.first_process(agent)
    del crash.store.append
    before = [event.sequence for event in crash.heard]
    assert EventType.MODEL_TEXT_DELTA in [event.type for event in crash.heard]

    turn = crash.second_process(agent)
    crash.runner.run_until_blocked(turn)

    after = [event.sequence for event in crash.heard][len(before) :]
    assert turn.output == "Whole."
    assert before == sorted(before)
    assert min(after) > max(before)


def test_a_turn_left_running_is_found_and_can_be_cancelled_from_a_new_kernel(crash):
    """K31."""
    agent = crash.desk.agent(call("pay"), "Done.", tools=[crash.tool("pay")])
    crash.die_in = "pay"
    crash.first_process(agent)

    turn = crash.second_process(agent)
    assert [stored.turn.id for stored in crash.store.find([AgentStatus.RUNNING])] == ["t1"]
    assert turn.cancel("its kernel died")

    assert turn.status is AgentStatus.CANCELLED
    assert turn.messages[2].content.startswith("Started, but its outcome is not known")
    assert crash.store.find([AgentStatus.RUNNING]) == []


def test_a_crash_between_two_steps_goes_on_with_the_next_step(crash):
    """K31: a turn that was moved on step by step, and left."""
    one = crash.tool("one")
    agent = crash.desk.agent(call("one"), "Done.", tools=[one])
    runner = crash.desk.another_runner(store=crash.store)
    turn = runner.create(agent, "go", conversation_id=crash.desk.conversation())
    runner.step(turn)

    again = crash.second_process(agent)
    crash.runner.run_until_blocked(again)

    assert again.output == "Done."
    steps = [event.data["step"] for event in crash.store.events("t1") if event.type is EventType.STEP_STARTED]
    assert steps == [1, 2]


# -- who drives --------------------------------------------------------------------------------------------------------


def test_of_many_who_want_to_drive_one_does_and_the_others_get_its_end(desk, at_once):
    ran = []

    @tool
    def slow() -> str:
        """Be slow."""
        ran.append(threading.get_ident())
        time.sleep(0.05)
        return "done"

    agent = desk.agent(call("slow"), call("slow"), "Done.", tools=[slow])
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())
    runners = [desk.another_runner() for _ in range(6)]

    results = at_once(*[lambda runner=runner: runner.run_until_blocked(turn.id).status for runner in runners])

    assert results == [AgentStatus.COMPLETED] * 6
    assert len(ran) == 2
    assert len(set(ran)) == 1


def test_going_on_twice_drives_once(desk):
    ran = []

    @tool
    def slow() -> str:
        """Be slow."""
        ran.append(1)
        time.sleep(0.05)
        return "done"

    turn = desk.runner.create(desk.agent(call("slow"), "Done.", tools=[slow]), "go", conversation_id="c0")
    for _ in range(5):
        desk.runner.go_on(turn)

    assert turn.wait(5).output == "Done."
    assert ran == [1]


def test_whoever_starts_a_turn_may_wait_for_it_before_its_thread_has_begun(desk, monkeypatch):
    def later(function, name):
        threading.Timer(0.1, function).start()

    monkeypatch.setattr("agentflex_nb.runtime.turns.in_thread", later)
    turn = desk.runner.start(desk.agent("Hello."), "go", conversation_id=desk.conversation())

    assert turn.wait(5).output == "Hello."


def test_cancel_and_start_at_once_end_in_one_of_two_ways(desk, at_once):
    """K33: never in an error, never running on."""
    for _ in range(15):
        agent = desk.agent("Hello.")
        turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())

        results = at_once(lambda turn=turn: desk.runner.run_until_blocked(turn), lambda turn=turn: turn.cancel("no"))

        assert not [result for result in results if isinstance(result, BaseException)]
        assert turn.status in (AgentStatus.CANCELLED, AgentStatus.COMPLETED)


def test_a_thread_that_cannot_be_started_leaves_the_turn_free(desk, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    turn = desk.runner.create(desk.agent("Hello."), "go", conversation_id=desk.conversation())
    with monkeypatch.context() as patched:
        patched.setattr("agentflex_nb.runtime.turns.in_thread", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            desk.runner.go_on(turn)

    assert desk.runner.run_until_blocked(turn).output == "Hello."


def test_what_cannot_be_taken_up_leaves_the_turn_free(desk):
    """A store that cannot be read for a moment must not leave the turn taken for ever."""
    turn = desk.runner.create(desk.agent("Hello."), "go", conversation_id=desk.conversation())
    desk.store.request_cancel(turn.id)
    original = desk.store.commit

    def refuse(*_, **__):
        raise StoreError("for a moment")

    desk.store.commit = refuse
    with pytest.raises(StoreError):
        desk.runner.run_until_blocked(turn)
    desk.store.commit = original

    assert desk.runner.run_until_blocked(turn).status is AgentStatus.CANCELLED


@pytest.mark.parametrize("agent", [5, None, object(), ["shop"]])
def test_what_is_no_agent_is_refused_with_a_sentence(memory_desk, agent):
    with pytest.raises(InvalidValueError, match="an Agent, or the id"):
        memory_desk.runner.run(agent, "go")


def expiring(desk: Any, outcome: str = "REJECT", seconds: float = 0.05) -> Any:
    """A turn that waits, by the clock on the wall, for an approval which nobody gives."""

    @tool(approval=lambda call: ToolApprovalDecision.require_approval(expires_in=seconds, when_expired=outcome))
    def pay() -> str:
        """Pay."""
        return "paid"

    desk.runner = desk.another_runner(clock=utc_now, wait=threading.Condition.wait_for)
    return desk.run(call("pay"), "Well.", tools=[pay])


@pytest.mark.parametrize(("outcome", "told"), [("REJECT", "nobody answered in time"), ("APPROVE", "paid")])
def test_a_question_that_nobody_answers_resolves_by_itself_and_the_turn_goes_on(desk, outcome, told):
    """A16"""
    turn = expiring(desk, outcome)
    assert turn.status == "WAITING_FOR_APPROVAL"

    until = time.monotonic() + 10
    while not turn.status.is_terminal and time.monotonic() < until:
        time.sleep(0.01)

    turn.wait(10)
    assert turn.output == "Well."
    assert told in turn.messages[-2].content
    assert [answer.command_type for answer in turn.to_snapshot().answers] == ["EXPIRED"]


def test_an_answer_that_comes_too_late_is_told_so_whoever_looked_first(desk):
    """A16"""
    turn = expiring(desk)
    time.sleep(0.06)

    with pytest.raises(CommandRefusedError) as refused:
        turn.approve()

    assert refused.value.reason is RefusalReason.EXPIRED
    desk.runner.run_until_blocked(turn)
    assert turn.output == "Well."
