"""Writes the golden files of today's format: python tests/golden/write.py (once a format; a file that exists stays).

Each file is a turn as a store keeps it (its state, instructions, messages and events), and what that means, every field
written out. Tomorrow's code must read the first and find the second.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentflex_nb.core.agent import (
    AgentBudget,
    AgentExecutionPolicy,
    AgentRetryPolicy,
    ClosingTexts,
    WhenExhausted,
)
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    Cancel,
    DeltaKind,
    Interrupt,
    Interrupted,
    Migrate,
    ModelFailed,
    ModelReplied,
    Proceed,
    Streamed,
    Suspend,
    ToolFailed,
    ToolProgressed,
)
from agentflex_nb.core.messages import ToolCall, Usage, assistant, user
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.store.codec import FORMAT, encode_events, encode_message, encode_turn
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing.store_contract import ASK, Tale

HERE = Path(__file__).parent


def tales() -> Iterator[tuple[str, Tale]]:
    """Turns that between them use every field."""
    ready = Tale(MemoryStore(), metadata=freeze({"tags": ["a", None, 1.5]}), streaming=False)
    yield "ready", ready

    waiting = Tale(MemoryStore(), conversation_id="c1", attached=[user("before"), assistant("yes?")]).call(ASK)
    yield "waiting_for_approval", waiting

    answered = Tale(MemoryStore(), policy=AgentExecutionPolicy(max_iterations=0, max_steps=7)).call(ASK)
    question = answered.turn.questions[0].id
    answered.say(AgentResumeCommand.reject_tool(question, "über dem Limit", by="alice"), Proceed(), Proceed())
    answered.say(
        Streamed(DeltaKind.REASONING, "hm"), Streamed(DeltaKind.TEXT, "All right"),
        ModelReplied(
            message=assistant("All right.", reasoning="hm", provider_data=freeze({"id": "m1"})),
            usage=Usage(input_tokens=5, output_tokens=2, reasoning_tokens=1, cache_read_tokens=0, cache_write_tokens=3),
            finish_reason="stop", model="m", response_id="r1", first_delta_at=answered.clock() + timedelta(seconds=1),
        ),
    )  # fmt: skip
    yield "completed_after_rejection", answered

    running = Tale(MemoryStore()).call()
    running.say(ToolProgressed(running.turn.pending[0].call.id, "half way", freeze({"percent": 50})))
    running.say(Cancel(reason="enough", metadata=freeze({"by": "bob"})))
    yield "cancelled_while_its_tool_runs", running

    failed = Tale(MemoryStore()).call()
    call_id = failed.turn.pending[0].call.id
    failed.say(ToolFailed(call_id, ErrorSummary(kind="KeyError", message="'O-1'", code="LOST"), "Error: 'O-1'"))
    yield "failed", failed

    malformed = ToolCall(
        id="", name="refund", malformed='{"order', provider_id="call_0", provider_data=freeze({"i": 0})
    )
    told = Tale(MemoryStore()).say(Proceed(), ModelReplied(message=assistant("Well,", tool_calls=(malformed,))))
    yield "malformed_call", told

    stopped = Tale(MemoryStore()).say(Proceed(), Interrupted("stop pressed"))
    yield "interrupted", stopped

    asked = Tale(MemoryStore()).say(Suspend(correlation_id="q1", message="Which one?", metadata=freeze({"n": 1})))
    yield "waiting_for_user", asked

    offline = Tale(MemoryStore()).say(Proceed(), ModelFailed(error=ErrorSummary(kind="OSError", message="no route")))
    yield "model_failed", offline

    slow = ErrorSummary(kind="RateLimitError", message="slow down", retryable=True, retry_after=7.0, status=429)
    patient = Tale(MemoryStore()).say(Proceed(), ModelFailed(error=slow, usage=Usage(input_tokens=3)))
    yield "retry_scheduled", patient

    once = AgentRetryPolicy(max_retries=0, when_exhausted=WhenExhausted.SUSPEND)
    policy = AgentExecutionPolicy(retry=once, budget=AgentBudget(max_seconds=60.5), closing=ClosingTexts(turn="{why}!"))
    yield "waiting_for_model", Tale(MemoryStore(), policy=policy).say(Proceed(), ModelFailed(error=slow))

    limited = ToolApprovalDecision.require_approval("May I?", expires_in=90, when_expired="APPROVE")
    edited = Tale(MemoryStore()).call(limited)
    cheaper = {"order": "O-1", "amount": 10}
    edited.say(AgentResumeCommand.approve_tool(edited.turn.questions[0].id, arguments=cheaper, by="carol"))
    yield "approved_with_other_arguments", edited

    taken_over = Tale(MemoryStore()).call()
    yield "interrupted_while_its_tool_runs", taken_over.say(Interrupt(message="Stop that."))

    newer = Migrate(agent_version="2", definition_hash="h2", instructions="Be kind.", metadata=freeze({"by": "dora"}))
    yield "migrated", Tale(MemoryStore()).call(ASK).say(newer)


def kept(tale: Tale) -> dict[str, Any]:
    """A turn as its golden file shows it."""
    state, instructions = encode_turn(tale.turn)
    events = [*tale.events, *tale.unsaved]
    return {
        "state": state,
        "instructions": instructions,
        "messages": [encode_message(message) for message in tale.turn.messages],
        "events": encode_events(events),
        "turn": spelled_out(tale.turn),
        "log": [spelled_out(event) for event in events],
    }


def spelled_out(value: Any) -> Any:
    """Every field of a value, and of those in it, as JSON."""
    return json.loads(json.dumps(asdict(value), default=lambda at: at.isoformat()))


if __name__ == "__main__":
    for name, tale in tales():
        path = HERE / f"v{FORMAT}_{name}.json"
        if not path.exists():
            path.write_text(json.dumps(kept(tale), indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(path.name)
