"""The verbs, end to end: what is published and saved when turns run, wait, are answered, cancelled and restored."""

import asyncio
import threading
import time
from collections import Counter

import pytest
from pydantic import BaseModel

from agentflex_nb.core.agent import AgentExecutionPolicy, ToolErrorStrategy
from agentflex_nb.core.errors import (
    AgentDriftError,
    AgentVersionNotFoundError,
    CommandRefusedError,
    ConversationBusyError,
    InvalidValueError,
    RefusalReason,
    TurnFailedError,
    TurnNotFoundError,
    UnansweredError,
    VersionConflictError,
    WrongThreadError,
)
from agentflex_nb.core.events import EventType
from agentflex_nb.core.forms import FormRequired
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.core.machine import AgentPhase, AgentStatus
from agentflex_nb.core.messages import Origin, Role, assistant, user
from agentflex_nb.core.model import Finish, ToolCallDelta
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.answers import fail_if_asked
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.registry import registry_of
from agentflex_nb.runtime.runner import AgentRunner, AgentTurnOptions
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore

call, say = ScriptedModel.call, ScriptedModel.say
WHOLE = AgentTurnOptions(streaming=False)
TELL_MODEL = AgentExecutionPolicy(tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL)


class Hand:
    """Tools that count what they do."""

    def __init__(self) -> None:
        self.done: list[tuple[str, object]] = []
        self.keys: list[str] = []

        @tool(approval=lambda call: call.arguments["amount"] > 50)
        def transfer(amount: int) -> str:
            """Move money."""
            self.keys.append(AgentToolContext.current().idempotency_key)
            self.done.append(("transfer", amount))
            return f"moved {amount}"

        @tool
        def read(what: str = "it") -> str:
            """Read something."""
            self.done.append(("read", what))
            return f"{what} read"

        self.transfer, self.read = transfer, read
        self.tools = [transfer, read]


@pytest.fixture
def hand() -> Hand:
    return Hand()


def shop(*replies, **given):
    return Agent("shop", model=ScriptedModel(*replies), **given)


# -- what is published, in which order ---------------------------------------------------------------------------------


def test_a_plain_answer_publishes_exactly_these_events(desk):
    """E1."""
    turn = desk.run("Hello.")

    assert [event.type.value for event in desk.heard] == [
        "SNAPSHOT_SAVED",
        "TURN_STARTED",
        "STEP_STARTED",
        "MODEL_STARTED",
        "MODEL_COMPLETED",
        "SNAPSHOT_SAVED",
        "STEP_COMPLETED",
        "TURN_COMPLETED",
    ]
    assert desk.log(turn) == [event.type.value for event in desk.heard]
    assert [event.sequence for event in desk.heard] == list(range(1, 9))
    assert (turn.status, turn.output) == (AgentStatus.COMPLETED, "Hello.")


def test_one_tool_call_publishes_exactly_these_events_and_is_saved_as_started_before_it_runs(desk):
    """E28, E2."""
    seen = []

    @tool
    def look() -> str:
        """Look at what is on disk."""
        seen.extend(event.type.value for event in desk.store.events("t1"))
        return "seen"

    turn = desk.run(call("look"), "Done.", tools=[look])

    expected = [
        ["SNAPSHOT_SAVED"],
        ["TURN_STARTED", "STEP_STARTED", "MODEL_STARTED", "MODEL_COMPLETED", "TOOL_STARTED", "SNAPSHOT_SAVED"],
        ["TOOL_COMPLETED", "SNAPSHOT_SAVED", "STEP_COMPLETED"],
        ["STEP_STARTED", "MODEL_STARTED", "MODEL_COMPLETED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_COMPLETED"],
    ]
    assert desk.log(turn) == [type for commit in expected for type in commit]
    assert seen == expected[0] + expected[1]
    assert turn.version == 3


def test_every_event_says_whose_it_is(desk):
    """E12."""
    turn = desk.run("Hello.")

    assert {(event.turn_id, event.root_turn_id, event.parent_turn_id) for event in desk.heard} == {
        (turn.id, turn.id, None)
    }
    assert {(event.agent_id, event.agent_version) for event in desk.heard} == {("shop", desk.agent("Hello.").version)}


def test_numbers_grow_by_one_in_turns_that_run_at_the_same_time(desk, at_once):
    """E3."""
    desk.heard.clear()

    at_once(*[lambda: desk.run(say("one two three"), options=AgentTurnOptions()) for _ in range(8)])

    by_turn = {event.turn_id: [] for event in desk.heard}
    for event in desk.heard:
        by_turn[event.turn_id].append(event.sequence)
    assert len(by_turn) == 8
    for numbers in by_turn.values():
        assert numbers == list(range(1, len(numbers) + 1))


def test_numbers_go_on_without_a_gap_when_a_turn_is_answered_by_another_runner(desk, hand):
    """E4, E20, A10."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)
    heard = []
    other = desk.another_runner(listeners=[heard.append])

    other.restore(turn.id).approve(by="bob")

    assert turn.status is AgentStatus.COMPLETED
    numbers = [event.sequence for event in desk.heard + heard]
    assert numbers == list(range(1, len(numbers) + 1))
    order = [event.type for event in desk.heard + heard]
    story = [
        EventType.TOOL_APPROVAL_REQUESTED,
        EventType.TURN_RESUMED,
        EventType.TOOL_STARTED,
        EventType.TOOL_COMPLETED,
        EventType.TURN_COMPLETED,
    ]
    assert [type for type in order if type in story] == story


def test_each_runner_tells_its_own_listeners(desk, hand):
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)
    heard = []
    other = desk.another_runner(listeners=[heard.append])
    before = len(desk.heard)

    other.resume(turn, AgentResumeCommand.approve_tool(turn.questions[0].id))

    assert len(desk.heard) == before
    assert heard[0].type is EventType.TURN_RESUMED


def test_stepping_leaves_no_gap(desk, hand):
    """E3: one step a call, over two runners."""
    agent = desk.agent(call("read"), call("read"), "Done.", tools=hand.tools)
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation(), options=WHOLE)
    other = desk.another_runner()

    desk.runner.step(turn)
    assert (turn.status, len(hand.done)) == (AgentStatus.RUNNING, 1)
    other.step(turn.id)
    desk.runner.step(turn)

    assert turn.status is AgentStatus.COMPLETED
    numbers = [event.sequence for event in desk.store.events(turn.id)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_suspension_is_published_after_its_step_is_done_and_its_snapshot_saved(desk, hand):
    """E7, E21, A1."""
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)

    assert desk.log(turn)[-4:] == ["TOOL_APPROVAL_REQUESTED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_SUSPENDED"]
    assert (turn.status, hand.done) == (AgentStatus.WAITING_FOR_APPROVAL, [])
    question = turn.questions[0]
    assert (question.id, question.tool_name, question.arguments) == ("t1.1.0", "transfer", {"amount": 80})


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_approval_runs_the_tool_once_and_the_model_is_asked_with_the_result(desk, hand):
    """A3, A13."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)

    turn.approve(by="alice", ticket=7)

    assert hand.done == [("transfer", 80)]
    assert [message.content for message in turn.messages] == ["go", "", "moved 80", "Moved."]
    (answer,) = turn.to_snapshot().answers
    assert (answer.by, answer.metadata["ticket"], answer.command_type) == ("alice", 7, "APPROVE_TOOL")


def test_rejection_tells_the_model_and_runs_nothing(desk, hand):
    """A4, E26."""
    turn = desk.run(call("transfer", amount=80), "Then not.", tools=hand.tools)

    turn.reject("over limit", by="alice")

    assert hand.done == []
    assert "over limit" in turn.messages[2].content
    assert desk.log(turn).count("TOOL_DENIED") == 1
    assert turn.status is AgentStatus.COMPLETED


def test_a_wrong_call_id_is_refused_and_nothing_changes(desk, hand):
    """A7, K33."""
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)
    before = desk.store.load(turn.id)

    for command, reason in [
        (AgentResumeCommand.approve_tool("nope"), RefusalReason.WRONG_CORRELATION),
        (AgentResumeCommand.user_input(turn.questions[0].id, "hello"), RefusalReason.WRONG_KIND),
        (AgentResumeCommand.continue_(turn.questions[0].id), RefusalReason.WRONG_KIND),
    ]:
        with pytest.raises(CommandRefusedError) as refused:
            desk.runner.resume(turn, command)
        assert refused.value.reason is reason

    assert desk.store.load(turn.id) == before
    assert hand.done == []


@pytest.mark.parametrize("second", ["approve", "reject"])
def test_two_answers_at_once_one_wins_and_the_other_is_told_so(desk, hand, at_once, second):
    """A9, A8, K12: two threads, two runners."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)
    other = desk.another_runner().restore(turn.id)

    results = at_once(lambda: turn.approve(by="alice"), lambda: getattr(other, second)(by="bob"))

    refused = [result for result in results if isinstance(result, CommandRefusedError)]
    assert [error.reason for error in refused] == [RefusalReason.ALREADY_RESOLVED]
    assert refused[0].by == turn.to_snapshot().answers[0].by
    assert len(hand.done) <= 1
    assert desk.log(turn).count("TURN_RESUMED") == 1
    assert turn.status is AgentStatus.COMPLETED


def test_two_stores_on_one_file_one_answer_wins(tmp_path, hand, at_once):
    """A9 over two records of one file, as two processes have them."""
    stores = [SqliteStore(tmp_path / "turns.sqlite", "process") for _ in range(2)]
    runners = [AgentRunner(store) for store in stores]
    agent = shop(call("transfer", amount=80), "Moved.", tools=hand.tools)
    for runner in runners:
        runner.loader.register(agent)
    turn = runners[0].run(agent, "go")

    results = at_once(*[lambda runner=runner: runner.restore(turn.id).approve() for runner in runners])

    assert sum(isinstance(result, CommandRefusedError) for result in results) == 1
    assert hand.done == [("transfer", 80)]
    for store in stores:
        store.close()


def test_a_second_click_on_a_finished_question_says_who_was_first(desk, hand):
    """A8, K12: a click on an old panel while the next question is open."""
    turn = desk.run(call("transfer", amount=80), call("transfer", amount=90), "Moved.", tools=hand.tools)
    first = turn.questions[0].id
    turn.approve(by="alice")
    second = turn.questions[0].id

    with pytest.raises(CommandRefusedError, match=r"already answered .* by alice") as refused:
        turn.approve(first)

    assert refused.value.reason is RefusalReason.ALREADY_RESOLVED
    assert (turn.questions[0].id, hand.done) == (second, [("transfer", 80)])


def test_submit_resume_records_the_answer_and_runs_nothing(desk, hand):
    """A11."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)

    desk.runner.submit_resume(turn, AgentResumeCommand.approve_tool(turn.questions[0].id))

    assert (turn.status, hand.done) == (AgentStatus.READY, [])
    desk.runner.run_until_blocked(turn)
    assert (turn.status, hand.done) == (AgentStatus.COMPLETED, [("transfer", 80)])


def test_running_a_blocked_turn_returns_it_unchanged(desk, hand):
    """A12: no model call."""
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)
    before = turn.to_snapshot()

    assert desk.runner.run_until_blocked(turn).to_snapshot() == before
    assert desk.runner.step(turn).to_snapshot() == before
    assert len(desk.events(turn, EventType.MODEL_STARTED)) == 1


def test_a_provider_id_that_comes_again_asks_again(desk, hand):
    """A14, K24: an approval covers the call that was shown, and no other with the same label."""

    def wire(amount):
        return [ToolCallDelta(0, "x", "transfer", f'{{"amount": {amount}}}'), Finish(reason="tool_calls")]

    turn = desk.run(wire(80), wire(9999), "Moved.", tools=hand.tools)
    turn.approve()

    assert (turn.status, hand.done) == (AgentStatus.WAITING_FOR_APPROVAL, [("transfer", 80)])
    assert turn.questions[0].arguments == {"amount": 9999}
    turn.approve()
    assert hand.done == [("transfer", 80), ("transfer", 9999)]
    assert len(set(hand.keys)) == 2


def test_a_constant_provider_id_keeps_every_result(memory_desk, hand):
    """K24: fifty rounds under one label, fifty results."""
    reply = [ToolCallDelta(0, "x", "read", "{}"), Finish(reason="tool_calls")]
    policy = AgentExecutionPolicy(max_iterations=60)

    turn = memory_desk.run(*[reply] * 50, "Done.", tools=hand.tools, execution_policy=policy)

    results = [message for message in turn.messages if message.role is Role.TOOL]
    assert (len(results), len({message.tool_call_id for message in results})) == (50, 50)


@pytest.mark.parametrize("fails", ["policy", "tool"])
def test_an_error_in_an_approval_ends_the_turn_failed(desk, fails):
    """A18."""

    def broken(*_):
        raise ZeroDivisionError("by zero")

    @tool(approval=broken if fails == "tool" else False)
    def act() -> str:
        """Act."""
        raise AssertionError("it was not judged")

    policy = broken if fails == "policy" else None
    turn = desk.run(call("act"), tools=[act], approval_policy=policy)

    assert (turn.status, turn.error.kind) == (AgentStatus.FAILED, "ZeroDivisionError")
    assert desk.log(turn)[-1] == "TURN_FAILED"


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        asyncio.CancelledError(),
        GeneratorExit(),
        StopIteration(),
        MemoryError(),
        RecursionError(),
        ExceptionGroup("two", [ValueError("a"), OSError("b")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_approval_policy_may_raise_anything(memory_desk, error, hand):
    """K35, A18."""

    def policy(*_):
        raise error

    turn = memory_desk.run(call("read"), tools=hand.tools, approval_policy=policy)

    assert (turn.status, hand.done) == (AgentStatus.FAILED, [])


def test_the_policy_of_an_agent_judges_every_call(desk, hand):
    """A5."""

    def policy(turn, call, tool):
        return ToolApprovalDecision.deny("not today", code="CLOSED", day="sunday")

    turn = desk.run(call("read"), "Pity.", tools=hand.tools, approval_policy=policy)

    assert (turn.status, hand.done) == (AgentStatus.COMPLETED, [])
    assert '"code": "CLOSED"' in turn.messages[2].content
    assert "sunday" in turn.messages[2].content


# -- several calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gated_first", [True, False])
def test_parallel_calls_keep_their_order_across_the_wait(desk, hand, gated_first):
    """A6, K11, T6: each runs once, in the model's order."""
    calls = [call("transfer", amount=80), call("read", what="mail")]
    turn = desk.run(calls if gated_first else calls[::-1], "Done.", tools=hand.tools)
    assert hand.done == ([] if gated_first else [("read", "mail")])

    desk.another_runner().restore(turn.id).approve()

    assert hand.done == ([("transfer", 80), ("read", "mail")] if gated_first else [("read", "mail"), ("transfer", 80)])
    assert turn.status is AgentStatus.COMPLETED


def test_a_rejected_call_does_not_take_its_siblings_with_it(desk, hand):
    """K11."""
    turn = desk.run([call("transfer", amount=80), call("read", what="mail")], "Done.", tools=hand.tools)

    turn.reject()

    assert hand.done == [("read", "mail")]
    assert [message.content for message in turn.messages if message.role is Role.TOOL][1] == "mail read"


def test_a_failing_call_closes_those_that_were_not_run(desk, hand):
    """K11, X3 with FAIL_TURN."""

    @tool
    def breaks() -> str:
        """Break."""
        raise OSError("no such disk")

    turn = desk.run([call("read"), call("breaks"), call("transfer", amount=1)], tools=[*hand.tools, breaks])

    assert (turn.status, hand.done) == (AgentStatus.FAILED, [("read", "it")])
    results = [message for message in turn.messages if message.role is Role.TOOL]
    assert [message.origin for message in results] == [Origin.SOURCE, Origin.SOURCE, Origin.RUNTIME]
    assert "Not run" in results[2].content


# -- what models invent ------------------------------------------------------------------------------------------------


def test_an_invented_tool_fails_the_turn_or_is_told_to_the_model(desk, hand):
    """K06, T7."""
    both = [call("serch_web"), call("read")]

    failed = desk.run(both, "Sorry.", tools=hand.tools)
    told = desk.run(both, "Sorry.", tools=hand.tools, execution_policy=TELL_MODEL)

    assert (failed.status, failed.error.code) == (AgentStatus.FAILED, "UNKNOWN_TOOL")
    assert "serch_web" in failed.error.message
    assert "shop" in failed.error.message
    assert (told.status, hand.done) == (AgentStatus.COMPLETED, [("read", "it")])
    assert "transfer, read" in told.messages[2].content


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ("", True),
        (None, True),
        ("  ", True),
        ("{}", True),
        ('{"what": "x', False),
        ('{"what":"a"}{"what":"b"}', False),
        ("{'what':1}", False),
        ('```json\n{"what":"a"}\n```', False),
        ("\ufeff{}", False),
        ('{"what":"x\ny"}', False),
        ('{"what":"a","what":"b"}', False),
        ('{"what": 3}', False),
        ('{"other": "x"}', False),
        ('{"what": NaN}', False),
    ],
)
def test_arguments_that_are_no_json_object_run_nothing_and_are_told_to_the_model(
    memory_desk, hand, arguments, runs, streaming
):
    """K07, T9: the same outcome in both modes, also under FAIL_TURN."""
    reply = [ToolCallDelta(0, "c1", "read", arguments), Finish(reason="tool_calls")]

    turn = memory_desk.run(reply, "Done.", tools=hand.tools, options=AgentTurnOptions(streaming=streaming))

    assert turn.status is AgentStatus.COMPLETED
    assert bool(hand.done) == runs
    assert turn.messages[2].content.startswith("it read" if runs else "Error: ")
    completed = memory_desk.events(turn, EventType.MODEL_COMPLETED)[0]
    assert completed.data["tool_calls"][0]["malformed"] in (None, arguments)


def test_a_call_cut_off_by_the_length_never_runs_and_asks_for_no_approval(memory_desk, hand):
    """K07."""
    cut = [ToolCallDelta(0, "c1", "transfer", '{"amount": 80'), Finish(reason="length")]

    turn = memory_desk.run(cut, "Sorry.", tools=hand.tools)

    assert (turn.status, hand.done) == (AgentStatus.COMPLETED, [])
    assert "TOOL_APPROVAL_REQUESTED" not in memory_desk.log(turn)
    assert '{"amount": 80' in turn.messages[2].content


def test_arguments_of_a_wrong_type_ask_for_no_approval(memory_desk, hand):
    turn = memory_desk.run(call("transfer", amount="much"), "Sorry.", tools=hand.tools)

    assert (turn.status, hand.done) == (AgentStatus.COMPLETED, [])
    assert "amount" in turn.messages[2].content


def test_a_model_that_says_nothing_fails_the_turn(desk):
    """R7."""
    turn = desk.run([])

    assert (turn.status, turn.error.kind) == (AgentStatus.FAILED, "EmptyReplyError")
    assert desk.log(turn)[-4:] == ["MODEL_FAILED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_FAILED"]


def test_a_stream_that_breaks_keeps_what_was_told_and_fails(desk):
    """E14, Z28."""
    turn = desk.run([say("half a"), ConnectionError("gone")], options=AgentTurnOptions())

    assert turn.status is AgentStatus.FAILED
    log = desk.log(turn)
    assert log.index("MODEL_TEXT_DELTA") < log.index("MODEL_FAILED") < log.index("TURN_FAILED")
    assert desk.events(turn, EventType.MODEL_TEXT_DELTA)[0].data["content"] == "half a"


# -- forms -------------------------------------------------------------------------------------------------------------


class Seats(BaseModel):
    number: int
    window: bool = False


def test_a_form_that_the_model_asks_for_becomes_one_result(desk):
    """F1, F2."""
    form = AgentForm("seats", "Where to sit", Seats)
    turn = desk.run(call("request_user_input", form_key="seats"), "Booked.", forms=[form])
    assert (turn.status, turn.phase) == (AgentStatus.WAITING_FOR_USER, AgentPhase.TOOLS)

    turn.submit({"number": 2})

    assert turn.status is AgentStatus.COMPLETED
    assert turn.messages[2].content == '{"status": "SUBMITTED", "form_key": "seats", "data": {"number": 2}}'


def test_an_unknown_form_is_told_to_the_model(desk):
    """F1."""
    form = AgentForm("seats", "Where to sit", Seats)
    turn = desk.run(call("request_user_input", form_key="other"), "Sorry.", forms=[form])

    assert turn.status is AgentStatus.COMPLETED
    assert "seats" in turn.messages[2].content


@pytest.mark.parametrize("by_key", [True, False])
def test_a_tool_that_asks_for_a_form_runs_again_from_its_start_with_the_data(desk, by_key):
    """F3, E19."""
    form = AgentForm("seats", "Where to sit", Seats)
    seen = []

    @tool
    def book() -> str:
        """Book."""
        context = AgentToolContext.current()
        seen.append((context.idempotency_key, context.form_data))
        if context.form_data is None:
            raise FormRequired("seats" if by_key else form, "Please choose")
        return f"{context.form_data['number']} seats"

    turn = desk.run(call("book"), "Booked.", tools=[book], forms=[form])
    assert desk.log(turn)[-5:] == [
        "SNAPSHOT_SAVED",
        "TOOL_INPUT_REQUESTED",
        "SNAPSHOT_SAVED",
        "STEP_COMPLETED",
        "TURN_SUSPENDED",
    ]
    assert turn.questions[0].message == "Please choose"
    turn.submit({"number": 2})

    assert seen == [("t1:t1.1.0", None), ("t1:t1.1.0", {"number": 2})]
    assert (turn.messages[2].content, turn.to_snapshot().tool_call_count) == ("2 seats", 1)
    assert "TOOL_FAILED" not in desk.log(turn)


def test_asking_twice_for_a_form_is_an_error(desk):
    """F4."""
    form = AgentForm("seats", "Where to sit", Seats)

    @tool
    def book() -> str:
        """Book."""
        raise FormRequired(form)

    turn = desk.run(call("book"), tools=[book])
    turn.submit({"number": 2})

    assert (turn.status, turn.error.code) == (AgentStatus.FAILED, "FORM_ASKED_TWICE")


def test_data_is_held_against_the_schema_that_was_frozen(desk):
    """F8, K28, Z17: errors with their places, nothing consumed, the second submission counts."""
    form = AgentForm("seats", "Where to sit", Seats)
    turn = desk.run(call("request_user_input", form_key="seats"), "Booked.", forms=[form])
    before = desk.store.load(turn.id)

    for data in [{}, {"number": "3"}, {"number": True}, {"number": 2.5}]:
        with pytest.raises(CommandRefusedError) as refused:
            turn.submit(data)
        assert refused.value.reason is RefusalReason.INVALID
        assert [error.pointer for error in refused.value.errors] == ["/number"]
    with pytest.raises(CommandRefusedError, match="not with text"):
        turn.submit("two")

    assert desk.store.load(turn.id) == before
    assert turn.submit({"number": 3.0}).status is AgentStatus.COMPLETED


def test_an_empty_submission_is_data(desk):
    """F9."""
    form = AgentForm("ok", "Go on?", {"type": "object", "properties": {"note": {"type": "string"}}})
    seen = []

    @tool
    def go() -> str:
        """Go."""
        seen.append(AgentToolContext.current().form_data)
        if seen[-1] is None:
            raise FormRequired(form)
        return "gone"

    turn = desk.run(call("go"), "Done.", tools=[go])
    turn.submit({})

    assert seen == [None, {}]
    assert turn.status is AgentStatus.COMPLETED


# -- plain questions ---------------------------------------------------------------------------------------------------


def test_a_turn_can_be_asked_a_plain_question_before_it_runs(desk):
    """Y1, F5."""
    agent = desk.agent(lambda request: f"You said {request.messages[-1].content}.")
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())

    desk.runner.suspend(turn, "Which one?")
    assert (turn.status, turn.questions[0].message) == (AgentStatus.WAITING_FOR_USER, "Which one?")
    with pytest.raises(CommandRefusedError):
        desk.runner.resume(turn, AgentResumeCommand.continue_(turn.questions[0].id))
    turn.submit("the red one")

    assert turn.output == "You said the red one."


def test_a_running_turn_stops_at_the_end_of_its_step_for_a_question(desk, hand):
    """Y1: saved when it is asked, published when the step is done."""

    @tool
    def ask() -> str:
        """Ask the user something, from within."""
        desk.runner.suspend("t1", "Sure?")
        return "asked"

    turn = desk.run(call("ask"), "Done.", tools=[ask])

    assert (turn.status, turn.questions[0].message) == (AgentStatus.WAITING_FOR_USER, "Sure?")
    assert turn.submit("yes").output == "Done."


def test_a_turn_that_waits_or_has_ended_cannot_be_suspended(desk, hand):
    waiting = desk.run(call("transfer", amount=80), tools=hand.tools)
    done = desk.run("Done.")

    with pytest.raises(CommandRefusedError, match="WAITING_FOR_APPROVAL") as refused:
        desk.runner.suspend(waiting, "?")
    assert refused.value.reason is RefusalReason.WRONG_KIND
    with pytest.raises(CommandRefusedError, match="COMPLETED") as refused:
        desk.runner.suspend(done, "?")
    assert refused.value.reason is RefusalReason.FINAL


# -- snapshots and versions --------------------------------------------------------------------------------------------


def test_saving_a_snapshot_tells_the_version_and_copying_one_saves_nothing(desk, hand):
    """P20, P3, P2."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)
    copied = turn.to_snapshot()

    assert desk.runner.save_snapshot(turn) == copied.version + 1
    assert (turn.version, desk.log(turn)[-1]) == (copied.version + 1, "SNAPSHOT_SAVED")
    with pytest.raises(VersionConflictError):
        desk.runner.save_snapshot(copied)
    turn.approve()
    with pytest.raises(CommandRefusedError, match="COMPLETED"):
        desk.runner.save_snapshot(turn)
    assert copied.status is AgentStatus.WAITING_FOR_APPROVAL


def test_a_turns_own_policy_streaming_and_metadata_survive_restore(desk, hand):
    """P8, T17."""
    policy = AgentExecutionPolicy(max_iterations=7)
    options = AgentTurnOptions(execution_policy=policy, streaming=False, metadata={"ticket": [1, {"a": None}]})
    turn = desk.run(call("transfer", amount=80), tools=hand.tools, options=options)

    identity = desk.another_runner().restore(turn.id).to_snapshot().identity

    assert (identity.policy, identity.streaming, identity.metadata) == (policy, False, {"ticket": (1, {"a": None})})


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), {"deep": [{"er": object()}]}, {None: 1}])
def test_metadata_that_is_no_json_is_refused_when_it_is_given(memory_desk, value):
    """P9."""
    with pytest.raises(InvalidValueError, match="metadata"):
        memory_desk.runner.create(memory_desk.agent("x"), "go", options=AgentTurnOptions(metadata={"k": value}))
    turn = memory_desk.run("x")
    with pytest.raises(InvalidValueError):
        memory_desk.runner.cancel(turn, k=value)


def test_restore_takes_the_exact_version_and_ignores_the_active_one(desk, hand):
    """P11, K34."""
    turn = desk.run(call("transfer", amount=80), "From one.", tools=hand.tools, version="1")
    desk.runner.loader.register(desk.agent(call("read"), "From two.", tools=hand.tools, version="2"))

    assert desk.runner.restore(turn.id).approve().output == "From one."


def test_what_a_resumed_turn_lacks_is_said_before_anything_changes(desk, hand):
    """P12, K34."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools, version="1")
    before = desk.store.load(turn.id)
    empty, lacking = desk.another_runner(loader=None), desk.another_runner(loader=None)
    empty.loader.register(desk.agent("x", version="2"))
    lacking.loader.register(desk.agent("x", tools=[hand.read], version="1"))

    for runner, error, said in [
        (empty, AgentVersionNotFoundError, "known versions: 2"),
        (lacking, AgentDriftError, "lacks transfer"),
    ]:
        with pytest.raises(error, match=said):
            runner.restore(turn.id)
        with pytest.raises(error, match=said):
            runner.resume(turn.id, AgentResumeCommand.approve_tool(turn.questions[0].id))
    with pytest.raises(TurnNotFoundError):
        desk.runner.restore("nobody")
    assert desk.store.load(turn.id) == before

    empty.loader.register(desk.runner.loader.load("shop", "1"))
    assert empty.restore(turn.id).approve().status is AgentStatus.COMPLETED


def test_a_turn_whose_agent_is_gone_can_still_be_cancelled(desk, hand):
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)

    assert desk.another_runner(loader=None).cancel(turn.id, "agent is gone")

    assert turn.status is AgentStatus.CANCELLED


def test_a_final_turn_refuses_every_answer(desk, hand):
    """P14, K33, A17."""
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)
    question = turn.questions[0].id
    turn.cancel("no more")
    before = desk.store.load(turn.id)

    for command in [
        AgentResumeCommand.approve_tool(question),
        AgentResumeCommand.reject_tool(question),
        AgentResumeCommand.user_input(question, "x"),
        AgentResumeCommand.retry(question),
    ]:
        with pytest.raises(CommandRefusedError) as refused:
            desk.runner.resume(turn, command)
        assert refused.value.reason is RefusalReason.FINAL

    assert desk.store.load(turn.id) == before
    assert (hand.done, turn.questions) == ([], ())
    assert desk.runner.run_until_blocked(turn).status is AgentStatus.CANCELLED


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancel_before_the_first_step_asks_no_model(desk):
    """X1, E22."""
    agent = desk.agent("Never said.")
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())

    assert turn.cancel("changed my mind")
    desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED
    assert agent.model.requests == ()
    log = desk.log(turn)
    assert log.index("CANCELLATION_REQUESTED") < log.index("TURN_CANCELLED")


def test_a_cancel_flag_raised_elsewhere_is_seen_before_the_first_step(desk):
    """X1, T13."""
    agent = desk.agent("Never said.")
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())
    desk.store.request_cancel(turn.id)

    assert desk.runner.run_until_blocked(turn).status is AgentStatus.CANCELLED
    assert agent.model.requests == ()


@pytest.mark.parametrize("elsewhere", [True, False])
def test_cancel_during_a_tool_keeps_its_result_and_asks_no_model(desk, elsewhere):
    """X2, T13, Z4: from another runner, or by the store's flag alone."""
    seen = []

    @tool
    def slow() -> str:
        """Work until somebody wants the end."""
        context = AgentToolContext.current()
        seen.append(context.is_cancellation_requested())
        desk.store.request_cancel("t1") if elsewhere else desk.another_runner().cancel("t1", "enough")
        deadline = time.monotonic() + 5
        while not context.is_cancellation_requested() and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(context.is_cancellation_requested())
        return "what I have"

    turn = desk.run(call("slow"), "Never said.", tools=[slow])

    assert seen == [False, True]
    assert turn.status is AgentStatus.CANCELLED
    assert turn.messages[2].content == "what I have"
    assert len(desk.events(turn, EventType.MODEL_STARTED)) == 1


def test_a_second_cancel_is_false(desk, hand):
    """P13, K33."""
    turn = desk.run(call("transfer", amount=80), tools=hand.tools)

    assert [turn.cancel(), turn.cancel()] == [True, False]
    assert desk.log(turn).count("TURN_CANCELLED") == 1
    assert desk.run("Done.").cancel() is False


def test_cancel_of_a_turn_with_several_open_calls_closes_them_all(desk, hand):
    """X3, K33."""
    turn = desk.run([call("transfer", amount=n) for n in (80, 1, 90)], tools=hand.tools)

    turn.cancel("no more")

    results = [message for message in turn.messages if message.role is Role.TOOL]
    assert [message.origin for message in results] == [Origin.RUNTIME] * 3
    assert (turn.messages[-1].role, turn.messages[-1].origin) == (Role.ASSISTANT, Origin.RUNTIME)
    assert hand.done == []


def test_cancel_while_the_model_speaks_stops_at_the_next_piece(desk):
    runner = desk.another_runner(listeners=[lambda event: cancel_at(event)])

    def cancel_at(event):
        if event.type is EventType.MODEL_STARTED:
            runner.cancel(event.turn_id, "stop")

    turn = runner.run(desk.agent(say("a b c d")), "go", conversation_id=desk.conversation())

    assert turn.status is AgentStatus.CANCELLED
    assert "MODEL_COMPLETED" not in desk.log(turn)
    assert desk.log(turn).count("MODEL_FAILED") == 1


# -- limits ------------------------------------------------------------------------------------------------------------


def test_rounds_and_steps_have_their_limits(desk, hand):
    """B5, X3."""
    rounds = desk.run(
        *[call("read")] * 5, "Done.", tools=hand.tools, execution_policy=AgentExecutionPolicy(max_iterations=2)
    )
    steps = desk.run(*[call("read")] * 5, "Done.", tools=hand.tools, execution_policy=AgentExecutionPolicy(max_steps=3))

    assert (rounds.status, rounds.to_snapshot().iteration_count) == (AgentStatus.MAX_ITERATIONS_REACHED, 2)
    assert (steps.status, steps.to_snapshot().step_count) == (AgentStatus.MAX_STEPS_REACHED, 3)
    assert desk.log(rounds)[-1] == "MAX_ITERATIONS_REACHED"
    assert desk.log(steps)[-1] == "MAX_STEPS_REACHED"


# -- conversations -----------------------------------------------------------------------------------------------------


def test_a_conversation_with_an_active_turn_refuses_a_second(desk, hand):
    """V3, K36."""
    turn = desk.run(call("transfer", amount=80), "Moved.", tools=hand.tools)

    with pytest.raises(ConversationBusyError) as busy:
        desk.runner.run(desk.agent("x", id="other"), "me too", conversation_id="c1")

    assert busy.value.active_turn_ids == (turn.id,)
    turn.approve()
    assert desk.runner.run(desk.agent("Hi.", id="other"), "now?", conversation_id="c1").output == "Hi."


def test_two_runs_at_once_on_one_conversation_one_gets_it(desk, at_once):
    """V3, K36."""
    agent = desk.agent([ScriptedModel.pause(0.2), "Hi."])
    desk.conversation()

    results = at_once(*[lambda: desk.runner.run(agent, "go", conversation_id="c1") for _ in range(2)])

    assert sum(isinstance(result, ConversationBusyError) for result in results) == 1
    assert [message.content for _, message in desk.store.conversation("c1")] == ["go", "Hi."]


def test_one_agent_serves_many_conversations_at_a_time(desk, at_once):
    """Y3, K36."""
    agent = desk.agent(lambda request: f"You said {request.messages[-1].content}.")
    names = [desk.conversation() for _ in range(20)]

    turns = at_once(*[lambda name=name: desk.runner.run(agent, name, conversation_id=name) for name in names])

    assert [turn.output for turn in turns] == [f"You said {name}." for name in names]


def test_a_tool_that_runs_its_own_conversation_is_refused_not_stuck(desk):
    """K36."""

    @tool
    def nested() -> str:
        """Run a turn within a turn."""
        desk.runner.run(desk.agent("x", id="other"), "in here", conversation_id="c1")
        return "never"

    turn = desk.run(call("nested"), tools=[nested])

    assert (turn.status, turn.error.kind) == (AgentStatus.FAILED, "ConversationBusyError")


def test_a_tool_may_run_a_turn_of_another_conversation(desk):
    @tool
    def nested() -> str:
        """Run a turn within a turn."""
        return desk.runner.run(desk.agent("Inner.", id="other"), "in here").output

    turn = desk.run(call("nested"), "Outer.", tools=[nested])

    assert (turn.output, turn.messages[2].content) == ("Outer.", "Inner.")


def test_earlier_turns_stand_before_the_new_message_once(desk, hand):
    """V5, V1."""
    agent = desk.agent(call("read"), "Done.", tools=hand.tools)
    desk.conversation()
    desk.runner.run(agent, "first", conversation_id="c1")

    second = desk.runner.run(desk.agent("Hi.", id="other"), "second", conversation_id="c1")

    assert [message.content for message in second.messages] == ["first", "", "it read", "Done.", "second", "Hi."]
    said = [message.content for _, message in desk.store.conversation("c1")]
    assert said == ["first", "", "it read", "Done.", "second", "Hi."]


# -- forty ways to call it ---------------------------------------------------------------------------------------------


@tool
async def wait_a_little(n: int = 1) -> int:
    """Wait."""
    await asyncio.sleep(0.001)
    return n + 1


@tool
async def complain() -> str:
    """Raise what a hasty wrapper would take for its own trouble."""
    raise RuntimeError("This event loop is already running")


def test_run_works_in_a_script_in_a_thread_and_inside_a_running_loop(desk, at_once):
    """K01."""

    def run():
        return desk.run(call("wait_a_little", n=2), "Done.", tools=[wait_a_little])

    async def inside():
        return run()

    async def awaited():
        return await desk.runner.arun(desk.agent(call("wait_a_little"), "Done.", tools=[wait_a_little]), "go")

    turns = [run(), asyncio.run(inside()), asyncio.run(awaited()), *at_once(run, run)]

    assert [turn.output for turn in turns] == ["Done."] * 5


def test_an_error_of_the_users_is_not_taken_for_a_loop_error(desk):
    """K01: once, as it is."""
    turn = desk.run(call("complain"), tools=[complain])

    assert (turn.status, turn.error.message) == (AgentStatus.FAILED, "This event loop is already running")
    assert desk.log(turn).count("TOOL_STARTED") == 1


def test_a_blocking_verb_on_the_runtimes_own_loop_is_refused_and_names_the_other(desk):
    """Y8."""

    @tool
    async def nested() -> str:
        """Run a turn where nobody may wait."""
        inner = desk.agent("Inner.", id="other")
        with pytest.raises(WrongThreadError, match="await arun"):
            desk.runner.run(inner, "x")
        with pytest.raises(WrongThreadError, match="done"):
            desk.runner.start(inner, "x").wait()
        return (await desk.runner.arun(inner, "x")).output

    turn = desk.run(call("nested"), "Outer.", tools=[nested])

    assert (turn.output, turn.messages[2].content) == ("Outer.", "Inner.")


def test_start_returns_at_once_and_wait_ends_when_it_is_done_or_suspended(desk, hand):
    gate = threading.Event()

    @tool
    def slow() -> str:
        """Wait for the gate."""
        gate.wait(10)
        return "through"

    agent = desk.agent(call("slow"), call("transfer", amount=80), "Done.", tools=[slow, *hand.tools])
    turn = desk.runner.start(agent, "go", conversation_id=desk.conversation())
    with pytest.raises(TimeoutError, match="still runs"):
        turn.wait(0.05)
    gate.set()

    assert turn.wait(10).status is AgentStatus.WAITING_FOR_APPROVAL
    assert turn.approve().output == "Done."


def test_the_twins_do_what_the_verbs_do(desk, hand):
    async def story():
        runner = desk.runner
        agent = desk.agent(call("transfer", amount=80), call("read"), "Done.", tools=hand.tools)
        turn = await runner.arun(agent, "go", conversation_id=desk.conversation())
        assert turn.status is AgentStatus.WAITING_FOR_APPROVAL
        await runner.aresume(turn, AgentResumeCommand.approve_tool(turn.questions[0].id))
        assert (await turn.done()).output == "Done."
        asked = await runner.arun(desk.agent(call("transfer", amount=80), "x", tools=hand.tools), "go")
        assert await runner.acancel(asked, "no")
        stepped = runner.create(agent, "go")
        await runner.astep(stepped)
        assert (await runner.arestore(stepped.id)).id == stepped.id
        return (await runner.arun_until_blocked(stepped)).status

    assert asyncio.run(story()) is AgentStatus.WAITING_FOR_APPROVAL


# -- responders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("responder", "output"),
    [
        (lambda question: True, "Moved."),
        ({"transfer": True}, "Moved."),
        ({"t1.1.0": AgentResumeCommand.approve_tool("t1.1.0", by="me")}, "Moved."),
    ],
)
def test_a_responder_answers_where_nobody_sits(desk, hand, responder, output):
    agent = desk.agent(call("transfer", amount=80), "Moved.", tools=hand.tools)

    turn = desk.runner.run(agent, "go", responder=responder, conversation_id=desk.conversation())

    assert (turn.output, hand.done) == (output, [("transfer", 80)])


def test_a_responder_without_an_answer_leaves_the_turn_waiting(desk, hand):
    agent = desk.agent(call("transfer", amount=80), "Moved.", tools=hand.tools)

    with pytest.raises(UnansweredError, match="transfer"):
        desk.runner.run(agent, "go", responder={"other": True}, conversation_id=desk.conversation())
    with pytest.raises(UnansweredError, match="forbids"):
        desk.runner.run(agent, "go", responder=fail_if_asked, conversation_id=desk.conversation())

    assert Counter(stored.turn.status for stored in desk.store.find(list(AgentStatus))) == {
        AgentStatus.WAITING_FOR_APPROVAL: 2
    }


def test_a_failed_turn_is_returned_and_check_raises(desk):
    turn = desk.run(ValueError("no such model"))

    with pytest.raises(TurnFailedError, match="ValueError: no such model"):
        turn.check()


def test_an_input_that_is_no_message_is_refused(memory_desk):
    for input in [7, [7], ["text"], None]:
        with pytest.raises(InvalidValueError, match="input"):
            memory_desk.runner.run(memory_desk.agent("x"), input)


def test_messages_may_be_given_as_they_are(desk):
    turn = desk.run("Done.", input=[user("a"), assistant("b"), user("c\ud83d")])

    assert [message.content for message in turn.messages] == ["a", "b", "c\ufffd", "Done."]


def test_an_id_that_was_used_before_is_refused(memory_desk):
    first = memory_desk.run("One.")
    runner = AgentRunner(memory_desk.store, new_id=lambda now: first.id)

    with pytest.raises(VersionConflictError):
        runner.run(memory_desk.agent("Two."), "go")

    assert first.output == "One."


# -- many --------------------------------------------------------------------------------------------------------------


def test_a_thousand_turns_leave_no_thread_and_no_entry_behind():
    store = MemoryStore()
    runner = AgentRunner(store)
    agent = shop("Hi.")
    runner.run(agent, "warm up")
    threads = threading.active_count()

    for _ in range(1_000):
        runner.run(agent, "go")

    assert threading.active_count() <= threads
    assert len(registry_of(store)) == 0


@pytest.mark.slow
def test_waiting_turns_cost_no_thread():
    runner = AgentRunner(MemoryStore())
    hand = Hand()
    agent = shop(call("transfer", amount=80), "Moved.", tools=hand.tools)
    threads = threading.active_count()

    turns = [runner.run(agent, "go", options=WHOLE) for _ in range(10_000)]

    assert threading.active_count() <= threads + 1
    assert turns[5_000].approve().output == "Moved."
