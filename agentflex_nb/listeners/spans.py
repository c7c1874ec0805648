"""Events become spans: the one file that needs OpenTelemetry.

Rule 1: a span begins and ends when its events happened, not when they were heard.
Rule 2: the names are our own copy of the conventions (all of them are still "development" there), in one table each.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer

from ..core.events import AgentEvent, EventType
from ..core.machine import AgentStatus

OPERATION = "gen_ai.operation.name"
AGENT_ID, AGENT_VERSION = "gen_ai.agent.id", "gen_ai.agent.version"
REQUEST_MODEL, RESPONSE_MODEL, RESPONSE_ID = "gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id"
FINISH_REASONS, FIRST_CHUNK = "gen_ai.response.finish_reasons", "gen_ai.response.time_to_first_chunk"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_NAME, TOOL_TYPE, CALL_ID = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
CALL_ARGUMENTS, CALL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"
# what the conventions have no name for
TURN_ID, ROOT_TURN_ID, TURN_STATUS = "agentflex.turn.id", "agentflex.root_turn.id", "agentflex.turn.status"
RESUMED_BY, ITERATION, ATTEMPT = "agentflex.resumed_by", "agentflex.iteration", "agentflex.attempt"
CODE = "agentflex.code"

# tokens of an event -> the attribute
USAGE: Mapping[str, str] = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
}

_MOST_TURNS = 10_000  # turns that wait or run at a time; those that resume beyond lack a link to where they stopped
_LONGEST = 1_000  # characters of an error's message
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMITS = frozenset(
    {AgentStatus.MAX_STEPS_REACHED, AgentStatus.MAX_ITERATIONS_REACHED, AgentStatus.BUDGET_EXCEEDED},
)


@dataclass(slots=True)
class _Going:
    """The open spans of a turn, and what the next ones must know."""

    stretch: Span | None = None
    model: Span | None = None
    asked_at: datetime | None = None
    tools: dict[str, Span] = field(default_factory=dict)
    before: SpanContext | None = None
    """Where the turn last ran."""
    resumed_by: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)


class Spans:
    """The spans of every turn that has not ended. The events of one turn come one at a time."""

    def __init__(self, tracer: Tracer | None, *, content: bool) -> None:
        self._tracer = tracer or trace.get_tracer("agentflex_nb")
        self._content = content
        self._turns: dict[str, _Going] = {}

    def tell(self, event: AgentEvent) -> None:
        """One more event."""
        going = self._turns.setdefault(event.turn_id, _Going())
        status = AgentStatus(event.data["status"])
        if status is AgentStatus.RUNNING and going.stretch is None:
            going.stretch = self._begin_stretch(going, event)
        if (act := _ACTS.get(event.type)) is not None:
            act(self, going, event)
        if status is not AgentStatus.RUNNING and going.stretch is not None:
            self._end_stretch(going, going.stretch, event, status)
        if status.is_terminal:
            del self._turns[event.turn_id]
        elif len(self._turns) > _MOST_TURNS:
            del self._turns[next(iter(self._turns))]

    # -- the turn ------------------------------------------------------------------------------------------------------

    def _begin_stretch(self, going: _Going, event: AgentEvent) -> Span:
        attributes = {
            OPERATION: "invoke_agent",
            **_whose(event),
            TURN_ID: event.turn_id,
            ROOT_TURN_ID: event.root_turn_id,
        }
        if going.resumed_by:
            attributes[RESUMED_BY] = going.resumed_by
        outside = trace.get_current_span().get_span_context()  # what the program was doing when it ran the turn
        links = [Link(context) for context in (going.before, outside) if context is not None and context.is_valid]
        name = f"invoke_agent {event.agent_id}"
        return self._begin(name, SpanKind.INTERNAL, self._above(event), event.occurred_at, attributes, links)

    def _above(self, event: AgentEvent) -> Context:
        """The parent's open stretch, or what stands for the turn."""
        parent = self._turns.get(event.parent_turn_id or "")
        if parent is not None and parent.stretch is not None:
            return trace.set_span_in_context(parent.stretch, Context())
        turn = SpanContext(
            trace_id=_number(event.root_turn_id, 16),
            span_id=_number(event.parent_turn_id or event.turn_id, 8),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        return trace.set_span_in_context(trace.NonRecordingSpan(turn), Context())

    def _end_stretch(self, going: _Going, stretch: Span, event: AgentEvent, status: AgentStatus) -> None:
        for left in [*going.tools.values(), *([going.model] if going.model else [])]:
            left.end(_nanoseconds(event.occurred_at))
        stretch.set_attributes({TURN_STATUS: status.value, **{USAGE[name]: n for name, n in going.usage.items()}})
        if status is AgentStatus.FAILED and "error" in event.data:
            _fail(stretch, event)
        elif status in _LIMITS:
            stretch.set_attribute(ERROR_TYPE, status.value)
            stretch.set_status(Status(StatusCode.ERROR))
        stretch.end(_nanoseconds(event.occurred_at))
        going.before, going.stretch, going.model, going.resumed_by = stretch.get_span_context(), None, None, ""
        for kept in (going.tools, going.usage, going.said):
            kept.clear()

    def _resumed(self, going: _Going, event: AgentEvent) -> None:
        going.resumed_by = event.data["command_type"]

    def _note(self, going: _Going, event: AgentEvent) -> None:
        """A mark in the stretch that it happened in."""
        if going.stretch is not None:
            told = {CODE: event.data.get("code"), **_which(event)}
            marks = {name: value for name, value in told.items() if value}
            going.stretch.add_event(event.type.value, marks, _nanoseconds(event.occurred_at))

    # -- the model -----------------------------------------------------------------------------------------------------

    def _asked(self, going: _Going, event: AgentEvent) -> None:
        model = event.data.get("model") or ""
        attributes = {OPERATION: "chat", **_whose(event), TURN_ID: event.turn_id}
        attributes |= {REQUEST_MODEL: model} if model else {}
        counts = {ITERATION: event.data["iteration"], ATTEMPT: event.data["attempt"]}
        name = f"chat {model}" if model else "chat"
        going.model = self._begin_inside(going, name, SpanKind.CLIENT, event, {**attributes, **counts})
        going.asked_at = event.occurred_at
        going.said.clear()

    def _said(self, going: _Going, event: AgentEvent) -> None:
        if self._content:
            going.said.append(event.data["content"])

    def _replied(self, going: _Going, event: AgentEvent) -> None:
        data = event.data
        if self._content:
            going.arguments |= {call["id"]: call["arguments"] for call in data["tool_calls"]}
        if (span := going.model) is None:
            return
        if data["finish_reason"]:
            span.set_attribute(FINISH_REASONS, [data["finish_reason"]])
        span.set_attributes({name: value for name, value in _answered(data).items() if value})
        if data["first_delta_at"] and going.asked_at:
            waited = datetime.fromisoformat(data["first_delta_at"]) - going.asked_at
            span.set_attribute(FIRST_CHUNK, waited.total_seconds())
        if self._content:
            text = data["content"] if data["content"] is not None else "".join(going.said)
            span.set_attribute(OUTPUT_MESSAGES, _output(text, data))
        self._model_ended(going, span, event)

    def _model_failed(self, going: _Going, event: AgentEvent) -> None:
        if (span := going.model) is not None:
            _fail(span, event)
            self._model_ended(going, span, event)

    def _model_ended(self, going: _Going, span: Span, event: AgentEvent) -> None:
        for name, tokens in event.data["usage"].items():
            if name in USAGE and tokens is not None:
                span.set_attribute(USAGE[name], tokens)
                going.usage[name] = going.usage.get(name, 0) + tokens
        span.end(_nanoseconds(event.occurred_at))
        going.model = None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def _tool_began(self, going: _Going, event: AgentEvent) -> None:
        name, call = event.data["tool_name"], event.data["tool_call_id"]
        attributes = {OPERATION: "execute_tool", **_which(event), TOOL_TYPE: "function", TURN_ID: event.turn_id}
        attributes |= {ATTEMPT: event.data["attempt"]}
        arguments = event.data["arguments"] or going.arguments.get(call)  # those that a person edited stand here
        if self._content and arguments is not None:
            attributes |= {CALL_ARGUMENTS: json.dumps(arguments, ensure_ascii=False)}
        span = self._begin_inside(going, f"execute_tool {name}", SpanKind.INTERNAL, event, attributes)
        going.tools[call] = span

    def _tool_ended(self, going: _Going, event: AgentEvent) -> None:
        if (span := going.tools.pop(event.data["tool_call_id"], None)) is None:
            self._note(going, event)
            return
        if self._content and "result" in event.data:
            span.set_attribute(CALL_RESULT, event.data["result"])
        if event.data.get("error"):
            _fail(span, event)
        span.end(_nanoseconds(event.occurred_at))

    def _tool_stopped(self, going: _Going, event: AgentEvent) -> None:
        """It asked for a form, and will be run again: the wait is not its time."""
        self._note(going, event)
        if (span := going.tools.pop(event.data["tool_call_id"], None)) is not None:
            span.end(_nanoseconds(event.occurred_at))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _begin_inside(
        self, going: _Going, name: str, kind: SpanKind, event: AgentEvent, attributes: Mapping[str, Any]
    ) -> Span:
        above = trace.set_span_in_context(going.stretch, Context()) if going.stretch else self._above(event)
        return self._begin(name, kind, above, event.occurred_at, attributes)

    def _begin(
        self,
        name: str,
        kind: SpanKind,
        above: Context,
        at: datetime,
        attributes: Mapping[str, Any],
        links: list[Link] | None = None,
    ) -> Span:
        begun = _nanoseconds(at)
        return self._tracer.start_span(
            name, above, kind=kind, attributes=dict(attributes), links=links, start_time=begun
        )


_E = EventType
_NOTED = (
    _E.CANCELLATION_REQUESTED, _E.TOOL_DENIED, _E.TOOL_APPROVAL_REQUESTED, _E.EXTERNAL_TOOL_REQUESTED,
    _E.EXTERNAL_TOOL_COMPLETED, _E.EXTERNAL_TOOL_FAILED, _E.EXTERNAL_TOOL_CANCEL_REQUESTED, _E.RETRY_SCHEDULED,
    _E.CHILD_STARTED, _E.PLAN_CREATED, _E.PLAN_UPDATED, _E.TASK_STARTED, _E.TASK_COMPLETED, _E.TASK_FAILED,
    _E.CONTEXT_COMPRESSION_STARTED, _E.CONTEXT_COMPRESSION_COMPLETED, _E.CONTEXT_COMPRESSION_FAILED,
)  # fmt: skip

# event -> what it does to the spans of its turn
_ACTS: Mapping[EventType, Callable[[Spans, _Going, AgentEvent], None]] = {
    **dict.fromkeys(_NOTED, Spans._note),
    _E.TURN_RESUMED: Spans._resumed,
    _E.MODEL_STARTED: Spans._asked,
    _E.MODEL_TEXT_DELTA: Spans._said,
    _E.MODEL_COMPLETED: Spans._replied,
    _E.MODEL_FAILED: Spans._model_failed,
    _E.TOOL_STARTED: Spans._tool_began,
    _E.TOOL_COMPLETED: Spans._tool_ended,
    _E.TOOL_FAILED: Spans._tool_ended,
    _E.TOOL_INTERRUPTED: Spans._tool_ended,
    _E.TOOL_INPUT_REQUESTED: Spans._tool_stopped,
}


def _whose(event: AgentEvent) -> dict[str, Any]:
    return {AGENT_ID: event.agent_id, AGENT_VERSION: event.agent_version}


def _which(event: AgentEvent) -> dict[str, Any]:
    return {TOOL_NAME: event.data.get("tool_name"), CALL_ID: event.data.get("tool_call_id")}


def _answered(data: Mapping[str, Any]) -> dict[str, Any]:
    return {RESPONSE_MODEL: data["model"], RESPONSE_ID: data["response_id"]}


def _output(text: str, data: Mapping[str, Any]) -> str:
    """The reply, in the form that the conventions have for messages."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    for call in data["tool_calls"]:
        asked = call["arguments"] if call["malformed"] is None else call["malformed"]
        parts.append({"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": asked})
    message = {"role": "assistant", "parts": parts, "finish_reason": data["finish_reason"]}
    return json.dumps([message], ensure_ascii=False)


def _fail(span: Span, event: AgentEvent) -> None:
    kind, message = event.data["error"]["kind"], event.data["error"]["message"][:_LONGEST]
    span.set_attribute(ERROR_TYPE, kind)
    told = {"exception.type": kind, "exception.message": message}
    span.add_event("exception", told, _nanoseconds(event.occurred_at))
    span.set_status(Status(StatusCode.ERROR, message))


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def _number(id: str, size: int) -> int:
    """A number of so many bytes, the same for this id in every process; never 0, which is no id."""
    return int.from_bytes(blake2b(id.encode(), digest_size=size).digest()) or 1
