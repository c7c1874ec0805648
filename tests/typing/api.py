"""How a user's code looks to a type checker: checked by mypy, never run."""

from collections.abc import Callable
from typing import Any, assert_type

import pandas as pd

import agentflex_nb as af
from agentflex_nb.testing import check


@af.tool
def lookup(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"id": order_id}


@af.tool(approval=lambda call: bool(call.arguments["amount"] > 50), idempotent=True)
def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    af.AgentToolContext.current().emit_progress("half", percent=50)
    return order_id


@af.tool(on_error="RETURN_ERROR_TO_MODEL", max_result_chars=2_000, summary=len)
def add_up(frame: af.ResultRef[pd.DataFrame]) -> float:
    """Add up what an earlier call returned."""
    assert_type(frame, pd.DataFrame)
    return float(frame["amount"].sum())


def timed(call: af.ToolCall, proceed: Callable[[af.ToolCall], Any]) -> Any:
    return proceed(call)


def late(turn: af.Turn) -> bool:
    return turn.step_count > 1


def policy(turn: af.Turn, call: af.ToolCall, tool: af.Tool) -> af.Verdict:
    return af.ToolApprovalDecision.ALLOW


def listen(event: af.AgentEvent) -> None:
    assert_type(event.type, af.EventType)


agent = af.Agent(
    "a",
    model=af.ScriptedModel("hi"),
    tools=[lookup, refund, len],
    tool_groups=[af.ToolGroup("sums", [add_up, max], condition=late, interceptors=[timed])],
    interceptors=[timed],
    error_message=lambda call, error: f"{call.name}: {error}",
    approval_policy=policy,
)
assert_type(agent.with_(instructions="x"), af.Agent)

with af.Lab("lab.duckdb", user="alice", listeners=[listen]) as lab:
    turn = lab.run(agent, "hello", responder={"refund": True})
    assert_type(turn, af.AgentTurn)
    assert_type(turn.status, af.AgentStatus)
    assert_type(turn.text, str)
    assert_type(turn.approve(by="bob"), af.AgentTurn)
    assert_type(turn.usage.total_tokens, int | None)
    assert_type(turn.results, af.Results)
    assert_type(lab.turns(turn=turn), pd.DataFrame)
    assert_type(lab.sql("select 1"), pd.DataFrame)
    assert_type(lab.stream(agent, "hello").turn, af.AgentTurn)
    for event in lab.stream(agent, "hello"):
        assert_type(event, af.AgentEvent)
    check(lab)
    assert_type(lab.restore(turn, migrate_to=agent.with_(instructions="x")), af.AgentTurn)
    assert_type(lab.agents(where={"agent_id": "a"}), pd.DataFrame)
    assert_type(lab.agent_diff("a", "1", "2"), str)
    try:
        lab.register(agent)
    except af.AgentDriftError as drift:
        assert_type(drift.differences, tuple[af.AgentDifference, ...])

parts = af.AgentParts(models=[af.ScriptedModel("hi")], tools=[lookup, len], approval_policies=[policy])
assert_type(parts.assemble({"id": "a", "model": "scripted"}).to_config(), dict[str, Any])

runner = af.AgentRunner(af.MemoryStore(), listeners=[listen])
assert_type(runner.run(agent, "hello"), af.AgentTurn)


async def main() -> None:
    assert_type(await runner.arun(agent, "hello"), af.AgentTurn)
    async for event in await runner.astream(agent, "hello"):
        assert_type(event, af.AgentEvent)


hidden = af.DisplayPolicy(redact=["sk-.*", str.lower], may_see=lambda viewer, turn_id: viewer == "alice")
metrics = af.MetricsListener()
runner.add_event_listener(metrics).add_event_listener(af.filtered(listen, hidden), last=True)
runner.add_event_listener(af.LogListener(policy=hidden)).add_event_listener(af.OpenTelemetryListener(content=True))
assert_type(metrics.snapshot(), list[af.Metric])
assert_type(metrics.snapshot()[0].quantile(0.9), float)
check(runner)
check(runner.store)
af.Lab(display=hidden)
