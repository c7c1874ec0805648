"""Turns that wait for a time: R1, R5, R6, X1, A16; and those that wait for the outside or are interrupted: O, X5."""

import asyncio
import threading
from datetime import datetime
from functools import partial

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import (
    AgentVersionNotFoundError,
    AuthenticationError,
    BadRequestError,
    CommandRefusedError,
    ContentFilterError,
    ContextLengthError,
    ModelConnectionError,
    ModelError,
    OverloadedError,
    QuotaExceededError,
    RateLimitError,
    StoreError,
    TruncatedStreamError,
    UnansweredError,
)
from agentflex_nb.core.events import EventType
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.model import Finish, TextDelta
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.answers import fail_if_asked
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.runner import AgentRunner, AgentRunnerOptions, AgentTurnOptions
from agentflex_nb.runtime.tools import Tool, tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing import CountingClock

call = ScriptedModel.call


def patient(**given):
    return AgentExecutionPolicy(retry=AgentRetryPolicy(jitter=0, **given))


def busy(times: int):
    """A model that is busy so often, counted by the attempt that the turn itself counts."""
    return ScriptedModel(lambda request: RateLimitError("busy") if request.attempt <= times else "Done.")


def until(turn, *statuses: AgentStatus) -> None:
    done = threading.Event()
    for _ in range(2_000):
        if turn.status in statuses:
            return
        done.wait(0.005)
    raise AssertionError(f"still {turn.status}")


def test_run_waits_for_what_is_due_soon_and_returns_the_end(desk):
    """R1"""
    before = desk.clock()

    turn = desk.run(model=busy(2), execution_policy=patient())

    assert (turn.text, len(desk.events(turn, EventType.RETRY_SCHEDULED))) == ("Done.", 2)
    assert (desk.clock() - before).total_seconds() > 3, "one second, then two"


def test_run_returns_a_turn_whose_retry_is_due_late_and_a_timer_goes_on_with_it(desk):
    """K26: the cell does not sleep for minutes."""
    runner = desk.another_runner(options=AgentRunnerOptions(max_retry_wait=0.01))
    agent = desk.agent(model=busy(1), execution_policy=patient(initial_delay=0.05))

    turn = runner.run(agent, "go")

    assert turn.status is AgentStatus.RETRY_SCHEDULED
    desk.clock.advance(1)
    until(turn, AgentStatus.COMPLETED)


def test_a_turn_in_a_worker_thread_is_tried_again_and_whoever_waits_sees_its_end():
    runner = AgentRunner(MemoryStore())
    agent = Agent("a", model=busy(2), execution_policy=patient(initial_delay=0.01))

    turn = runner.start(agent, "go").wait(20)
    assert turn.text == "Done."

    async def awaits():
        return await (await runner.astart(agent, "go")).done()

    assert asyncio.run(awaits()).text == "Done."


def test_the_stop_button_ends_a_run_that_waits_for_a_retry(desk):
    """X3, I3"""

    def pressed(condition, holds, timeout):
        raise KeyboardInterrupt

    runner = desk.another_runner(wait=pressed)
    turn = runner.create(desk.agent(model=busy(1), execution_policy=patient()), "go", conversation_id="c9")
    desk.handles.append(turn)

    with pytest.raises(KeyboardInterrupt):
        runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED
    assert desk.log(turn)[-1] == "TURN_CANCELLED"


@pytest.mark.parametrize("act", ["cancel", "submit_interrupt", "go on"])
def test_what_somebody_says_while_a_run_waits_is_heard_at_once(desk, act):
    """Z2, X5, R5"""

    def wait(condition, holds, timeout):
        condition.release()
        other = threading.Thread(target=say)
        other.start()
        other.join(20)
        condition.acquire()
        assert holds(), "the turn has changed"

    def say():
        if act == "go on":
            runner.restore(turn.id).continue_()
        else:
            getattr(runner, act)(turn, "never mind")

    runner = desk.another_runner(wait=wait)
    turn = runner.create(desk.agent(model=busy(1), execution_policy=patient()), "go")
    desk.handles.append(turn)
    runner.run_until_blocked(turn)

    wanted = {"cancel": AgentStatus.CANCELLED, "submit_interrupt": AgentStatus.READY, "go on": AgentStatus.COMPLETED}
    assert turn.status is wanted[act]


def test_an_agent_that_is_gone_leaves_its_retry_as_it_was(desk):
    """P12"""
    due = desk.another_runner(options=AgentRunnerOptions(max_retry_wait=1_000), loader=AgentLoader())
    turn = desk.runner.run(desk.agent(model=busy(1), execution_policy=patient(initial_delay=100, max_delay=500)), "go")

    with pytest.raises(AgentVersionNotFoundError):
        due.run_until_blocked(turn.id)

    assert turn.refresh().status is AgentStatus.RETRY_SCHEDULED


def test_a_store_that_is_closed_when_a_retry_falls_due_hurts_nobody(caplog):
    class Closes(MemoryStore):
        closed = False

        def load(self, turn_id):
            if self.closed:
                raise StoreError("it is closed")
            return super().load(turn_id)

    store = Closes()
    runner = AgentRunner(store, options=AgentRunnerOptions(max_retry_wait=0))
    runner.run(Agent("a", model=busy(1), execution_policy=patient(initial_delay=0.05)), "go")
    store.closed = True

    with caplog.at_level("INFO"):
        for _ in range(500):
            if "is not tried again here" in caplog.text:
                break
            threading.Event().wait(0.01)

    assert "it is closed" in caplog.text
    assert "WARNING" not in caplog.text


def test_of_two_runners_that_wait_for_one_retry_one_makes_it(desk, at_once):
    """R1, A9"""
    policy = patient(initial_delay=100, max_delay=500)
    turn = desk.runner.run(desk.agent(model=busy(1), execution_policy=policy), "go")
    desk.clock.advance(101)

    at_once(*[lambda: desk.another_runner().run_until_blocked(turn.id)] * 4)

    assert turn.refresh().status is AgentStatus.COMPLETED
    assert len(desk.events(turn, EventType.TURN_RESUMED)) == 1
    assert len(desk.events(turn, EventType.MODEL_COMPLETED)) == 1


def test_of_two_processes_that_find_one_retry_due_one_makes_it(tmp_path, at_once):
    """R1, A9, P2: neither knows of the other but by the file."""
    asked = []

    class Busy:
        name = "busy"

        def stream(self, request):
            asked.append(request.attempt)
            if request.attempt == 1:
                raise RateLimitError("busy")
            yield from (TextDelta("Done."), Finish(reason="stop"))

    clock = CountingClock()
    agent = Agent("a", version="1", model=Busy(), execution_policy=patient(initial_delay=100, max_delay=500))
    stores = [SqliteStore(tmp_path / "turns.sqlite", "process") for _ in range(3)]
    runners = [AgentRunner(store, clock=clock, wait=clock.wait) for store in stores]
    for runner in runners:
        runner.loader.register(agent)
    turn = runners[0].run(agent, "go")
    clock.advance(101)

    at_once(*[partial(runner.run_until_blocked, turn.id) for runner in runners[1:]])

    events = stores[0].events(turn.id)
    assert [event.type for event in events if event.type is EventType.TURN_RESUMED] == [EventType.TURN_RESUMED]
    assert len([event for event in events if event.type is EventType.MODEL_COMPLETED]) == 1
    assert runners[0].restore(turn.id).text == "Done."
    for store in stores:
        store.close()


def test_an_agent_that_is_gone_when_the_timer_rings_leaves_its_retry_due(memory_desk, caplog):
    """P12, R1: said in the log, and nothing has begun."""
    gone = AgentVersionNotFoundError("helper", "1", [])

    class Forgets(AgentLoader):
        gone = False

        def load(self, id, version):
            if self.gone:
                raise gone
            return super().load(id, version)

    loader = Forgets()
    runner = memory_desk.another_runner(loader=loader, options=AgentRunnerOptions(max_retry_wait=0.01))
    turn = runner.run(memory_desk.agent(model=busy(1), execution_policy=patient(initial_delay=0.05)), "go")
    before = memory_desk.log(turn)
    loader.gone = True
    memory_desk.clock.advance(1)

    with caplog.at_level("INFO"):
        for _ in range(500):
            if "is not tried again here" in caplog.text:
                break
            threading.Event().wait(0.01)

    assert str(gone) in caplog.text
    assert memory_desk.log(turn) == before
    loader.gone = False
    assert runner.run_until_blocked(turn).text == "Done."


def test_a_scheduled_retry_is_no_question_for_a_responder(desk):
    policy = patient(initial_delay=100, max_delay=500)
    agent = desk.agent(model=busy(1), execution_policy=policy)

    turn = desk.runner.run(agent, "go", responder=fail_if_asked)

    assert turn.status is AgentStatus.RETRY_SCHEDULED


def test_a_question_that_expires_is_resolved_by_whoever_looks_first(desk):
    """A16"""
    asks = tool(approval=lambda call: ToolApprovalDecision.require_approval("ok?", expires_in=30))(lambda: "done")
    asks = Tool(name="act", description="", function=asks.function, approval=asks.approval)
    turn = desk.run(call("act"), "Well.", tools=[asks])
    desk.clock.advance(31)

    with pytest.raises(CommandRefusedError) as refusal:
        turn.approve()

    assert refusal.value.reason == "EXPIRED"
    assert desk.runner.run_until_blocked(turn).text == "Well."


def test_work_outside_can_be_supplied_from_another_runner(desk):
    """O1, O2, A10"""
    ship = Tool(name="ship", description="", function=lambda: None, external=True)
    turn = desk.run(call("ship"), "Sent.", tools=[ship])
    assert turn.status is AgentStatus.WAITING_FOR_EXTERNAL_TOOL
    with pytest.raises(UnansweredError):
        _ = turn.output

    desk.another_runner().restore(turn.id).supply({"tracking": 7})

    assert turn.refresh().output == "Sent."


@pytest.mark.parametrize("verb", ["cancel", "interrupt"])
def test_who_works_outside_hears_of_the_end_once_it_is_saved_and_is_refused_when_too_late(desk, verb):
    """O5, X5, E24: the listener that would call the outside off finds the end in the store."""
    ship = Tool(name="ship", description="", function=lambda: None, external=True)
    told = []

    def call_off(event):
        if event.type is EventType.EXTERNAL_TOOL_CANCEL_REQUESTED:
            told.append((event.data["idempotency_key"], desk.store.load(event.turn_id).turn.suspension))

    turn = desk.run(call("ship"), "As you like.", tools=[ship])
    late = AgentResumeCommand.external_result(turn.questions[0].id, "sent")
    desk.runner.add_event_listener(call_off)

    getattr(turn, verb)("Never mind.")

    assert told == [(f"{turn.id}:{turn.id}.1.0", None)]
    with pytest.raises(CommandRefusedError):
        desk.runner.resume(turn, late)
    assert turn.status is (AgentStatus.CANCELLED if verb == "cancel" else AgentStatus.COMPLETED)
    assert turn.messages[2].content.startswith("Started, but its outcome is not known")


def test_an_interruption_of_a_running_turn_is_heard_at_its_next_safe_point(desk):
    """X5, X2"""

    @tool
    def work() -> str:
        """Work."""
        context = AgentToolContext.current()
        desk.runner.submit_interrupt(context.turn_id, "Do something else.")
        return "done"

    turn = desk.run([call("work"), call("work")], "As you like.", tools=[work])
    desk.runner.run_until_blocked(turn)

    assert [message.content for message in turn.messages[2:5]] == [
        "done", "Not run: the user interrupted.", "Do something else.",
    ]  # fmt: skip
    assert turn.text == "As you like."


def test_an_interruption_leaves_a_stream(desk):
    """X5"""
    turns = []

    class Talks:
        name = "talks"
        rounds = 0

        def stream(self, request):
            self.rounds += 1
            if self.rounds == 1:
                yield TextDelta("bla ")
                desk.runner.submit_interrupt(turns[0], "Stop.")
                yield TextDelta("bla ")
                raise AssertionError("nobody listens any more")
            yield TextDelta("Yes?")
            yield Finish(reason="stop")

    turns.append(desk.runner.create(desk.agent(model=Talks()), "go"))
    desk.runner.run_until_blocked(turns[0])

    assert turns[0].text == "Yes?"
    assert desk.events(turns[0], EventType.MODEL_FAILED)[0].data["error"]["code"] == "LEFT"


def test_a_model_that_talks_beyond_its_time_is_left_and_what_it_says_later_is_dropped(desk):
    """B2, Z8, E8"""

    class Endless:
        name = "endless"

        def stream(self, request):
            while True:
                desk.clock.advance(4)
                yield TextDelta("bla ")

    limited = AgentExecutionPolicy(budget=AgentBudget(max_seconds=10))

    turn = desk.run(model=Endless(), execution_policy=limited, options=AgentTurnOptions(streaming=True))

    assert turn.status is AgentStatus.BUDGET_EXCEEDED
    assert turn.error.message.startswith("max_seconds (used=12")
    assert desk.log(turn)[-1] == "BUDGET_EXCEEDED"


# -- what is tried again -----------------------------------------------------------------------------------------------

PASSES = [
    RateLimitError("busy", status=429),
    OverloadedError("down", status=503),
    ModelConnectionError("no route"),
    TruncatedStreamError("cut"),
    TimeoutError("slow"),
    ConnectionResetError("gone"),
]
STAYS = [
    QuotaExceededError("no money", status=429, provider_code="insufficient_quota"),
    AuthenticationError("who?", status=401),
    BadRequestError("what?", status=400),
    ContextLengthError("too long", status=400),
    ContentFilterError("no"),
    ModelError("something", status=500),
    ValueError("of the adapter"),
    TypeError("of the adapter"),
    KeyError("choices"),
    NameError("typo"),
    Exception(),
]


@pytest.mark.parametrize("error", [*PASSES, *STAYS], ids=lambda error: type(error).__name__)
def test_only_what_may_pass_is_tried_again(memory_desk, error):
    """K26, R4, Z27: the error says so; a status alone says nothing."""
    asked = []

    class Model:
        name = "fails"

        def stream(self, request):
            asked.append(request.attempt)
            raise error

    turn = memory_desk.run(model=Model(), execution_policy=patient(max_retries=3))

    assert turn.status is AgentStatus.FAILED
    assert asked == ([1, 2, 3, 4] if error in PASSES else [1])


@pytest.mark.parametrize(
    ("asked", "waits"), [(7, 7), (0.5, 1), (-5, 1), (1e9, 60), (float("nan"), 1), ("Wed, 21 Oct", 1), (None, 1)]
)
def test_a_provider_may_ask_for_more_time_and_nonsense_is_not_heard(memory_desk, asked, waits):
    """K26, R2: a lower bound, up to the longest wait, and the log says until when."""
    runner = memory_desk.another_runner(options=AgentRunnerOptions(max_retry_wait=0))
    error = RateLimitError("busy", retry_after=asked)

    turn = runner.run(memory_desk.agent(error, execution_policy=patient()), "go")

    scheduled = memory_desk.events(turn, EventType.RETRY_SCHEDULED)[0]
    until = datetime.fromisoformat(scheduled.data["next_runnable_at"])
    assert (until - scheduled.occurred_at).total_seconds() == waits
    assert turn.status is AgentStatus.RETRY_SCHEDULED


def test_a_turn_over_three_runners_is_one_turn_with_one_order(desk):
    """K29: numbers go on, nothing is told twice, and what is counted is what the state says."""
    ask = Tool(name="ask", description="", function=lambda: "ok", approval=True)
    turn = desk.run([call("ask"), call("ask")], "Done.", tools=[ask])
    before = desk.store.events(turn.id)

    desk.another_runner().restore(turn.id).approve("t1.1.0")
    desk.another_runner().restore(turn.id).approve("t1.1.1")

    events = desk.store.events(turn.id)
    assert events[: len(before)] == before
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})
    told = [event.data["usage"] for event in events if event.type is EventType.MODEL_COMPLETED]
    turn.refresh()
    assert sum(usage["total_tokens"] for usage in told) == turn.usage.total_tokens
    assert len([event for event in events if event.type is EventType.TOOL_COMPLETED]) == 2
