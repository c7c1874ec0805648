"""Every derived table, exact on logs that are small enough to count by hand."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    Cancel,
    Interrupted,
    Migrate,
    ModelFailed,
    ModelReplied,
    Proceed,
    StepFailed,
    Suspend,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
)
from agentflex_nb.core.machine import TRANSITIONS, AgentStatus
from agentflex_nb.core.messages import ToolCall, Usage, assistant
from agentflex_nb.core.verdicts import ALLOWED, ToolApprovalDecision
from agentflex_nb.store.archive import Archive, sql
from agentflex_nb.store.fold import DERIVED, fold
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import ANSWER, ASK, REFUND, Tale
from agentflex_nb.testing.time import START


class Told(Tale):
    """A tale whose inputs come so many seconds after what was before, and whose tables can be asked for."""

    def after(self, seconds, *inputs) -> "Told":
        self.clock.advance(seconds - 0.001)
        return self.say(*inputs)

    @property
    def call_id(self) -> str:
        return self.turn.pending[0].call.id

    def rows(self, columns: str, table: str) -> list[dict]:
        fold(self.store, self.archive)
        return self.archive.query(f"select {columns} from {table} order by all").to_pylist()


@pytest.fixture
def tale(tmp_path):
    with closing(SqliteStore(tmp_path / "live", "process")) as store, closing(Archive()) as archive:
        told = Told(store)
        told.archive = archive
        yield told


def seconds(at) -> float:
    return (at - START) / timedelta(seconds=1)


def both(first: str, second: str) -> ModelReplied:
    calls = [ToolCall(id="", name=name, arguments=freeze({"n": n})) for n, name in enumerate((first, second))]
    return ModelReplied(message=assistant(tool_calls=tuple(calls)), usage=Usage(input_tokens=7))


# -- turns -------------------------------------------------------------------------------------------------------------


def test_a_turn_that_completed(tale):
    tale.after(1, Proceed()).after(2, REFUND).after(0.5, CallsChecked({tale.call_id: ALLOWED}))
    tale.after(0.5, CallsChecked({tale.call_id: ALLOWED})).after(3, ToolReturned(tale.call_id, "paid"))
    tale.after(1, Proceed()).after(2, ANSWER)

    (turn,) = tale.rows("*", "turns")
    assert (turn["status"], turn["phase"], turn["version"], turn["output"]) == (
        "COMPLETED",
        "FINISHED",
        tale.turn.version,
        "Done.",
    )
    assert (turn["step_count"], turn["iteration_count"], turn["tool_call_count"]) == (2, 2, 1)
    assert (turn["input_tokens"], turn["output_tokens"], turn["total_tokens"]) == (10, 2, 12)
    assert turn["reasoning_tokens"] is None
    assert (turn["active_ms"], turn["waiting_ms"]) == (9_000, 0)
    assert (turn["message_count"], turn["attached_count"], turn["event_count"]) == (4, 0, len(tale.events))
    assert seconds(turn["started_at"]) == pytest.approx(1, abs=0.01)
    assert turn["ended_at"] == turn["updated_at"] == tale.events[-1].occurred_at
    assert turn["error_kind"] is None


def test_time_that_a_person_takes_is_waiting_time(tale):
    """B8."""
    tale.after(1, Proceed()).after(2, REFUND).after(1, CallsChecked({tale.call_id: ASK}))
    tale.after(3_600, AgentResumeCommand.approve_tool(tale.call_id)).after(10, Proceed())
    tale.after(0.5, CallsChecked({tale.call_id: ASK})).after(0.5, ToolReturned(tale.call_id, "paid"))

    (turn,) = tale.rows("status, active_ms, waiting_ms", "turns")
    assert turn == {"status": "RUNNING", "active_ms": 4_000, "waiting_ms": 3_600_000}


def test_time_that_nobody_ran_is_not_running_time(tale):
    """K31: numbers are left out where a process died; the night between is nobody's."""
    tale.after(1, Proceed()).after(2, REFUND).after(1, CallsChecked({tale.call_id: ALLOWED}))
    tale.after(1, CallsChecked({tale.call_id: ALLOWED}))
    tale.turn = replace(tale.turn, sequence=100)
    tale.after(50_000, Cancel())

    assert tale.rows("active_ms", "turns") == [{"active_ms": 4_000}]


def test_a_turn_that_failed_says_why(tale):
    tale.say(Proceed(), ModelFailed(error=ErrorSummary(kind="TimeoutError", message="too slow", code="TIMEOUT")))

    (turn,) = tale.rows("status, error_kind, error_message, error_code, output, total_tokens", "turns")
    assert turn == {
        "status": "FAILED",
        "error_kind": "TimeoutError",
        "error_message": "too slow",
        "error_code": "TIMEOUT",
        "output": None,
        "total_tokens": None,
    }


def test_a_cancel_request_that_is_not_heard_yet_shows(tale):
    tale.say(Proceed())
    tale.store.request_cancel("t1")

    assert tale.rows("status, cancel_requested", "turns") == [{"status": "READY", "cancel_requested": True}]


# -- steps -------------------------------------------------------------------------------------------------------------


def test_steps_count_what_ran_in_them(tale):
    tale.after(1, Proceed()).after(2, REFUND).after(1, CallsChecked({tale.call_id: ASK}))
    tale.after(60, AgentResumeCommand.approve_tool(tale.call_id)).after(1, Proceed())
    tale.after(0.5, CallsChecked({tale.call_id: ASK})).after(2, ToolReturned(tale.call_id, "paid")).finish()

    columns = "step, duration_ms::integer as ms, model_calls, tool_calls, input_tokens"
    assert [tuple(row.values()) for row in tale.rows(columns, "steps")] == [
        (1, 3_000, 1, 0, None),
        (2, 2_500, 0, 1, None),
        (3, 1, 1, 0, 10),
    ]


# -- model calls -------------------------------------------------------------------------------------------------------


def test_a_model_call_from_its_start_to_its_reply(tale):
    first = START + timedelta(seconds=1.5)
    tale.after(1, Proceed())
    tale.after(
        2,
        ModelReplied(
            message=assistant("Done."),
            usage=Usage(input_tokens=10, output_tokens=2, cache_read_tokens=4),
            finish_reason="stop",
            model="m-2026",
            response_id="r1",
            first_delta_at=first,
        ),
    )

    (call,) = tale.rows("*", "model_calls")
    assert (call["call_index"], call["step"], call["iteration"], call["attempt"]) == (1, 1, 1, 1)
    assert (call["status"], call["finish_reason"], call["response_model"], call["response_id"]) == (
        "COMPLETED", "stop", "m-2026", "r1",
    )  # fmt: skip
    assert (call["input_tokens"], call["output_tokens"], call["total_tokens"], call["cache_read_tokens"]) == (
        10,
        2,
        12,
        4,
    )
    assert call["reasoning_tokens"] is None
    assert (call["message_position"], call["tool_calls"]) == (1, 0)
    assert call["first_delta_at"] == first
    assert (call["duration_ms"], call["first_delta_ms"]) == (2_000, pytest.approx(499, abs=2))


def test_a_model_call_that_failed_says_why_and_what_it_used(tale):
    error = ErrorSummary(kind="RateLimited", message="slow down")
    tale.after(1, Proceed()).after(2, ModelFailed(error=error, usage=Usage(input_tokens=5)))

    (call,) = tale.rows(
        "status, error_kind, error_message, error_code, input_tokens, tool_calls, duration_ms", "model_calls"
    )
    assert tuple(call.values()) == ("FAILED", "RateLimited", "slow down", None, 5, None, 2_000)


@pytest.mark.parametrize(("then", "status"), [((), "STARTED"), ((Cancel(),), "STARTED")])
def test_a_model_call_without_an_end_is_open(tale, then, status):
    tale.say(Proceed(), *then)
    tale.store.append("t1", tale.unsaved, reserved=100)

    assert tale.rows("status, finished_at", "model_calls") == [{"status": status, "finished_at": None}]
    assert tale.rows("kind, status", "open_calls") == [{"kind": "MODEL", "status": status}]


# -- tool calls --------------------------------------------------------------------------------------------------------


def test_a_call_from_the_reply_to_its_result(tale):
    tale.after(1, Proceed()).after(2, REFUND).after(1, CallsChecked({tale.call_id: ALLOWED}))
    tale.after(1, CallsChecked({tale.call_id: ALLOWED})).after(1, ToolProgressed(tale.call_id, "half"))
    tale.after(2, ToolReturned(tale.call_id, "x" * 5_000))

    (call,) = tale.rows("*", "tool_results")
    assert (call["call_index"], call["tool_call_id"], call["step"], call["tool_name"]) == (1, "t1.1.0", 1, "refund")
    assert json.loads(call["arguments"]) == {"order": "O-1", "amount": 60.5}
    assert (call["status"], call["approval_outcome"], call["starts"]) == ("COMPLETED", None, 1)
    assert (call["duration_ms"], call["result_chars"], call["result_text"]) == (3_000, 5_000, "x" * 5_000)
    assert seconds(call["requested_at"]) == pytest.approx(3, abs=0.01)
    assert seconds(call["started_at"]) == pytest.approx(5, abs=0.01)
    assert seconds(call["finished_at"]) == pytest.approx(8, abs=0.01)


def test_calls_that_wait_were_asked_or_are_behind_one_that_was(tale):
    tale.say(Proceed(), both("refund", "refund"))
    tale.say(CallsChecked({"t1.1.0": ASK, "t1.1.1": ALLOWED}))

    assert [tuple(row.values()) for row in tale.rows("call_index, status, approval_outcome", "tool_calls")] == [
        (1, "WAITING", "PENDING"),
        (2, "REQUESTED", None),
    ]


def test_what_a_person_and_a_policy_decide_is_told_apart(tale):
    """A4, A5, E26."""
    tale.say(Proceed(), both("refund", "refund"))
    tale.say(CallsChecked({"t1.1.0": ASK, "t1.1.1": ToolApprovalDecision.deny("never")}))
    tale.say(AgentResumeCommand.reject_tool("t1.1.0", "too much", by="alice"), Proceed())

    assert [tuple(row.values()) for row in tale.rows("call_index, status, approval_outcome, starts", "tool_calls")] == [
        (1, "DENIED", "REJECTED", 0),
        (2, "DENIED", "DENIED", 0),
    ]


def test_a_call_that_failed_says_why(tale):
    tale.call().say(ToolFailed("t1.1.0", ErrorSummary(kind="KeyError", message="'O-1'"), "Error: 'O-1'"))

    (call,) = tale.rows("status, error_kind, error_message, result_text", "tool_results")
    assert call == {
        "status": "FAILED",
        "error_kind": "KeyError",
        "error_message": "'O-1'",
        "result_text": "Error: 'O-1'",
    }


def test_a_tool_that_asks_for_a_form_counts_the_time_that_it_ran(tale):
    """F3."""
    form = AgentForm(key="address", description="Where to?", schema=freeze({"type": "object"}))
    tale.call().after(2, ToolAsked(tale.call_id, form)).after(
        100, AgentResumeCommand.user_input("t1.1.0", {"zip": "1"})
    )
    tale.say(Proceed())
    while not tale.turn.pending[0].started:
        tale.say(CallsChecked({"t1.1.0": ALLOWED}))
    tale.after(3, ToolReturned("t1.1.0", "sent"))

    (call,) = tale.rows("status, starts, duration_ms::integer as ms", "tool_calls")
    assert call == {"status": "COMPLETED", "starts": 2, "ms": 5_000}


@pytest.mark.parametrize(
    "ending", [StepFailed(ErrorSummary(kind="RuntimeError", message="in a middleware")), Interrupted("stop")]
)
def test_a_call_that_its_turn_left_behind_says_whether_it_had_started(tale, ending):
    """X3."""
    tale.say(Proceed(), both("refund", "refund"), CallsChecked({"t1.1.0": ALLOWED, "t1.1.1": ASK}))
    tale.say(CallsChecked({"t1.1.0": ALLOWED}), ending)

    assert [tuple(row.values()) for row in tale.rows("call_index, status, starts, approval_outcome", "tool_calls")] == [
        (1, "INTERRUPTED", 1, None),
        (2, "NOT_RUN", 0, None),
    ]


def test_arguments_that_are_no_json_stay_as_the_model_wrote_them(tale):
    call = ToolCall(id="", name="refund", malformed='{"order": ', provider_id="call_9")
    tale.say(Proceed(), ModelReplied(message=assistant(tool_calls=(call,))))

    (row,) = tale.rows("status, malformed, provider_id, error_code", "tool_calls")
    assert row == {
        "status": "FAILED",
        "malformed": '{"order": ',
        "provider_id": "call_9",
        "error_code": "INVALID_ARGUMENTS",
    }


# -- suspensions -------------------------------------------------------------------------------------------------------


def test_an_approval_from_question_to_answer(tale):
    """A13."""
    tale.after(1, Proceed()).after(1, REFUND).after(1, CallsChecked({tale.call_id: ASK}))
    tale.after(60, AgentResumeCommand.approve_tool("t1.1.0", by="alice", ticket=7))

    (row,) = tale.rows("*", "suspensions")
    assert (row["question_id"], row["asking"], row["type"], row["tool_name"]) == (
        "t1.1.0",
        1,
        "TOOL_APPROVAL",
        "refund",
    )
    assert (row["message"], row["code"]) == ("over 50", "APPROVAL_REQUIRED")
    assert (row["outcome"], row["answered_by"], row["waited_ms"]) == ("APPROVED", "alice", 60_000)
    assert json.loads(row["answer_metadata"]) == {"by": "alice", "ticket": 7}
    assert json.loads(row["arguments"]) == {"order": "O-1", "amount": 60.5}
    assert (row["schema"], row["response"], row["answer_reason"]) == (None, None, None)


def test_a_partial_answer_leaves_the_other_question_as_it_was_asked(tale):
    """A19."""
    tale.say(Proceed(), both("refund", "refund"), CallsChecked({"t1.1.0": ASK, "t1.1.1": ASK}))
    asked = tale.events[-1].occurred_at
    tale.after(10, AgentResumeCommand.reject_tool("t1.1.1", "no", by="bob"))

    rows = tale.rows("question_id, asking, asked_at, outcome, answered_by, answer_reason", "suspensions")
    assert [tuple(row.values()) for row in rows] == [
        ("t1.1.0", 1, asked, "PENDING", None, None),
        ("t1.1.1", 1, asked, "REJECTED", "bob", "no"),
    ]
    assert tale.rows("question_id", "waits") == [{"question_id": "t1.1.0"}]


def test_one_call_can_be_asked_about_twice(tale):
    form = AgentForm(key="address", description="Where to?", schema=freeze({"type": "object", "title": "Address"}))
    tale.call(ASK).say(AgentResumeCommand.approve_tool("t1.1.0"), Proceed(), CallsChecked({"t1.1.0": ASK}))
    tale.say(ToolAsked("t1.1.0", form), AgentResumeCommand.user_input("t1.1.0.ask2", {"zip": "1"}, by="eve"))

    rows = tale.rows("question_id, tool_call_id, type, outcome, form_key, schema, response, answered_by", "suspensions")
    assert [tuple(row.values()) for row in rows] == [
        ("t1.1.0", "t1.1.0", "TOOL_APPROVAL", "APPROVED", None, None, None, None),
        (
            "t1.1.0.ask2",
            "t1.1.0",
            "USER_INPUT",
            "SUBMITTED",
            "address",
            '{"type":"object","title":"Address"}',
            '{"zip":"1"}',
            "eve",
        ),
    ]


def test_a_plain_question_is_answered_with_text(tale):
    """F5, Y1."""
    tale.say(Suspend(correlation_id="q1", message="Which order?"), AgentResumeCommand.user_input("q1", "O-2"))

    (row,) = tale.rows("question_id, type, message, tool_name, outcome, response", "suspensions")
    assert tuple(row.values()) == ("q1", "USER_INPUT", "Which order?", None, "ANSWERED", '"O-2"')


def test_a_question_of_a_cancelled_turn_is_closed(tale):
    """A17."""
    tale.call(ASK).after(5, Cancel(reason="enough"))

    (row,) = tale.rows("outcome, answered_at, waited_ms::integer as ms", "suspensions")
    assert row == {"outcome": "CANCELLED", "answered_at": None, "ms": 5_000}
    assert tale.rows("*", "waits") == []


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_messages_stand_with_their_turn_in_order(tale):
    tale.step().finish()

    rows = tale.rows("position, role, content, tool_call_id, origin, attached", "used_messages")
    assert [tuple(row.values()) for row in rows] == [
        (0, "user", "hello from t1", None, "", False),
        (1, "assistant", "", None, "", False),
        (2, "tool", "refunded in step 1", "t1.1.0", "", False),
        (3, "assistant", "Done.", None, "", False),
    ]


def test_a_trajectory_is_the_tools_in_order(tale):
    tale.step().step()

    assert tale.rows("tools, statuses, calls", "trajectories") == [
        {"tools": ["refund", "refund"], "statuses": ["COMPLETED", "COMPLETED"], "calls": 2}
    ]


def test_the_words_of_the_core_are_those_of_the_derivations():
    """A status or an event that is added to the core is thought of here too."""
    texts = {table: sql(f"derive_{table}") for table in DERIVED}
    ends = {type.value for row in TRANSITIONS.values() for (type, _), target in row.items() if target.is_terminal}

    for table in ("model_calls", "suspensions", "tool_calls"):
        assert all(f"'{end}'" in texts[table] for end in ends), table
    waits = {status.value for status in AgentStatus if status.is_blocked}
    assert all(status.startswith("WAITING_FOR_") or f"'{status}'" in texts["turns"] for status in waits)
    assert not [status for status in AgentStatus if status.value.startswith("WAITING_FOR_") and not status.is_blocked]


# -- migrations --------------------------------------------------------------------------------------------------------


def test_what_ran_stands_under_the_version_that_ran_it_and_the_turn_under_its_last(tale):
    """P11: rows of a migrated turn are counted once, each under one version."""
    tale.after(1, Proceed()).after(2, REFUND).after(1, CallsChecked({tale.call_id: ASK}))
    tale.say(Migrate(agent_version="2", definition_hash="h"))
    assert tale.rows("agent_version, question_id", "waits") == [{"agent_version": "2", "question_id": tale.call_id}]
    tale.after(5, AgentResumeCommand.approve_tool(tale.call_id)).after(1, Proceed())
    tale.after(0.5, CallsChecked({tale.call_id: ASK})).after(0.5, ToolReturned(tale.call_id, "paid"))
    tale.after(1, Proceed()).after(2, ANSWER)

    def versions(columns: str, table: str) -> list[tuple]:
        return [tuple(row.values()) for row in tale.rows(columns, table)]

    assert versions("agent_version, migrated_from", "turns") == [("2", "1")]
    assert versions("step, agent_version", "steps") == [(1, "1"), (2, "2"), (3, "2")]
    assert versions("call_index, agent_version", "model_calls") == [(1, "1"), (2, "2")]
    assert versions("agent_version, status", "tool_calls") == [("2", "COMPLETED")]
    assert versions("agent_version, outcome", "suspensions") == [("1", "APPROVED")]
    assert versions("agent_version, calls", "trajectories") == [("2", 1)]


def test_a_turn_that_was_not_migrated_says_so(tale):
    tale.finish()

    assert tale.rows("agent_version, migrated_from", "turns") == [{"agent_version": "1", "migrated_from": None}]
