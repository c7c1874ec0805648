"""What a lab's tables tell of turns that did not go straight: tried again, taken over, supplied, declined, expired."""

from pathlib import Path

import pytest

import agentflex_nb as af
from agentflex_nb.testing import check

script = af.ScriptedModel
SOON = af.AgentRetryPolicy(max_retries=2, initial_delay=0.01)
PATIENT = af.AgentExecutionPolicy(retry=SOON)


@af.tool(external=True)
def ship(order: str) -> str:
    """Ship an order."""


@af.tool(approval=lambda call: af.ToolApprovalDecision.require_approval("ok?", expires_in=0.05))
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def lab(tmp_path: Path):
    with af.Lab(tmp_path / "lab.duckdb", user="alice", display=False, durability="process") as lab:
        yield lab
        check(lab)


def fails(times: int, error: Exception):
    """A model that fails so often, then answers."""
    left = [times]

    def reply(request):
        left[0] -= 1
        return error if left[0] >= 0 else "Done."

    return script(reply)


def asked(lab, turn) -> list[tuple]:
    rows = lab.suspensions(turn=turn)[["type", "outcome", "answered_by"]]
    return [tuple(None if value != value else value for value in row) for row in rows.itertuples(index=False)]


def test_each_try_of_a_model_is_a_row_and_each_wait_says_until_when(lab):
    """R1, R8"""
    turn = lab.run(
        af.Agent("a", model=fails(2, af.RateLimitError("slow down", status=429)), execution_policy=PATIENT), "hi"
    )

    assert (turn.status, turn.text) == ("COMPLETED", "Done.")
    assert asked(lab, turn) == [("RETRY", "RETRIED", "schedule")] * 2
    calls = lab.model_calls(turn=turn)
    assert list(calls["status"]) == ["FAILED", "FAILED", "COMPLETED"]
    assert list(calls["attempt"]) == [1, 2, 3]
    waits = lab.suspensions(turn=turn)
    assert (waits["expires_at"] > waits["asked_at"]).all()
    assert (waits["answered_at"] >= waits["expires_at"]).all()
    assert lab.turns()["waiting_ms"].item() > 10


def test_a_tool_that_is_tried_again_is_one_call_with_several_starts(lab):
    """R1, B4"""
    left = [2]

    @af.tool(idempotent=True)
    def shaky() -> str:
        """Shaky."""
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("gone")
        return "ok"

    agent = af.Agent("a", model=script(script.call("shaky"), "Done."), tools=[shaky], execution_policy=PATIENT)
    turn = lab.run(agent, "hi")

    call = lab.tool_calls(turn=turn).iloc[0]
    assert (call["status"], call["starts"], call["result_text"]) == ("COMPLETED", 3, "ok")
    assert set(lab.suspensions(turn=turn)["tool_call_id"]) == {call["tool_call_id"]}
    assert turn.to_snapshot().tool_call_count == 1


def test_a_retry_that_is_due_late_shows_as_what_it_is(lab):
    later = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(initial_delay=600, max_delay=600))
    turn = lab.run(af.Agent("a", model=fails(1, af.OverloadedError("busy")), execution_policy=later), "hi")

    assert turn.status == "RETRY_SCHEDULED"
    assert asked(lab, turn) == [("RETRY", "PENDING", None)]
    with pytest.raises(af.CommandRefusedError, match="continue_") as refusal:
        turn.retry()
    assert refusal.value.reason == "NOT_DUE"
    turn.continue_()
    assert (turn.status, asked(lab, turn)) == ("COMPLETED", [("RETRY", "CONTINUED", "alice")])


def test_a_model_that_gave_up_waits_for_a_person(lab):
    """R10, O4, E18"""
    ask = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))
    agent = af.Agent("a", model=fails(1, af.OverloadedError("busy", status=529)), execution_policy=ask)
    turn = lab.run(agent, "hi")

    assert turn.status == "WAITING_FOR_MODEL"
    suspended = next(event for event in turn.events() if event.type == "TURN_SUSPENDED")
    told = suspended.data["metadata"]["model_failure"]
    assert (told["type"], told["http_status"], told["attempts"]) == ("OverloadedError", 529, 1)
    turn.retry()
    assert (turn.status, asked(lab, turn)) == ("COMPLETED", [("MODEL", "RETRIED", "alice")])


def test_work_outside_is_a_call_that_waits_and_then_has_a_result(lab):
    """O1, O2, O3"""
    turn = lab.run(af.Agent("a", model=script(script.call("ship", order="O-1"), "Sent."), tools=[ship]), "hi")
    waiting = lab.tool_calls(turn=turn).iloc[0]
    assert (waiting["status"], waiting["starts"]) == ("WAITING", 1)

    turn.supply({"tracking": 7})

    call = lab.tool_calls(turn=turn).iloc[0]
    assert (call["status"], call["result_text"]) == ("COMPLETED", '{"tracking": 7}')
    assert asked(lab, turn) == [("EXTERNAL_TOOL", "SUPPLIED", "alice")]


def test_an_interruption_answers_every_open_question(lab):
    """X5"""
    both = [script.call("ship", order="O-1"), script.call("ship", order="O-2")]
    turn = lab.run(af.Agent("a", model=script(both, "As you like."), tools=[ship]), "hi")

    turn.interrupt("Never mind.")

    assert turn.text == "As you like."
    assert asked(lab, turn) == [("EXTERNAL_TOOL", "INTERRUPTED", "alice")] * 2
    assert list(lab.tool_calls(turn=turn)["status"]) == ["INTERRUPTED"] * 2


def test_a_question_that_nobody_answered_says_so(lab):
    """A16"""
    turn = lab.run(af.Agent("a", model=script(script.call("pay", amount=5), "Well."), tools=[pay]), "hi")
    while lab.sql("select now() < max(expires_at) as open from suspensions")["open"].item():
        pass

    with pytest.raises(af.CommandRefusedError) as refusal:
        turn.approve()

    assert refusal.value.reason == "EXPIRED"
    lab.runner.run_until_blocked(turn)
    assert (turn.text, asked(lab, turn)) == ("Well.", [("TOOL_APPROVAL", "EXPIRED", "expiry")])
    assert lab.tool_calls(turn=turn)["status"].item() == "DENIED"


def test_a_form_that_was_declined_says_why(lab):
    """F10"""
    form = af.AgentForm("address", "Where to?", {"type": "object", "properties": {"city": {"type": "string"}}})
    model = script(script.call("request_user_input", form_key="address"), "All right.")
    turn = lab.run(af.Agent("a", model=model, forms=[form]), "hi")

    turn.decline("none of your business")

    row = lab.suspensions(turn=turn).iloc[0]
    assert (row["outcome"], row["answer_reason"]) == ("DECLINED", "none of your business")
    assert '"status": "DECLINED"' in turn.messages[-2].content


def test_changed_arguments_are_on_record_beside_those_of_the_model(lab):
    """A15"""
    slow = af.Tool(name="slow", description="", function=lambda amount: f"paid {amount}", approval=True)
    agent = af.Agent("b", model=script(script.call("slow", amount=70), "Paid."), tools=[slow])
    turn = lab.run(agent, "hi")

    turn.approve(arguments={"amount": 7})

    call = lab.tool_calls(turn=turn).iloc[0]
    assert (call["arguments"], call["result_text"]) == ('{"amount":70}', "paid 7")
    assert lab.suspensions(turn=turn)["response"].item() == '{"amount":7}'
