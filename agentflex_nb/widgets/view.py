"""What the panel shows, computed from events alone: no widget is needed to test it.

Rule: `show(view, event)` is pure, and an event that is already in the view changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..core.errors import ErrorSummary
from ..core.events import AgentEvent, EventType
from ..core.machine import AgentStatus, SuspensionType
from ..core.messages import Usage
from ..core.questions import EXPIRED
from ..listeners.policy import ALTERED
from . import calls
from .items import (
    Answered,
    Asked,
    Call,
    CallState,
    Fields,
    Level,
    ProseKind,
    Step,
    View,
    brief,
    exact,
    fields,
)
from .timeline import add, clock, end_prose, note, put, say, sentence

_OPEN = frozenset({CallState.WRITING, CallState.READY, CallState.WAITING, CallState.RUNNING})
LIMITS = {
    "MAX_STEPS_REACHED": "steps",
    "MAX_ITERATIONS_REACHED": "model rounds",
    "max_seconds": "seconds of work",
    "max_total_tokens": "tokens",
    "max_input_tokens": "input tokens",
    "max_output_tokens": "output tokens",
    "max_tool_calls": "tool calls",
}
"""What is counted under a limit."""
_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")


def show(view: View, event: AgentEvent) -> View:
    """The view after one more event."""
    if event.sequence <= view.sequence:
        return view
    if (view.agent_id, view.agent_version) != (event.agent_id, event.agent_version):
        view = replace(view, agent_id=event.agent_id, agent_version=event.agent_version)
    view = _clocked(view, event)
    change = _CHANGES.get(event.type)
    if change is not None:
        view = change(view, event)
    if view.status.is_terminal:
        view = _closed(view, event.occurred_at)
    return view


def show_all(view: View, events: Iterable[AgentEvent]) -> View:
    """The view after many events."""
    for event in events:
        view = show(view, event)
    return view


def ran_for(view: View) -> timedelta:
    """How long the turn has run so far, by the clock of its events; waiting for a person does not count."""
    if view.running_since is None or view.at is None:
        return view.ran
    return view.ran + (view.at - view.running_since)


def _clocked(view: View, event: AgentEvent) -> View:
    status, since, ran = AgentStatus(event.data["status"]), view.running_since, view.ran
    if status is AgentStatus.RUNNING:
        since = since or event.occurred_at
    elif since:
        ran += event.occurred_at - since
        since = None
    return replace(
        view,
        status=status,
        sequence=event.sequence,
        step_count=event.data["step_count"],
        max_steps=event.data["max_steps"],
        at=event.occurred_at,
        running_since=since,
        ran=ran,
    )


def _closed(view: View, at: datetime) -> View:
    """The turn has ended: nothing in it is open any more."""
    view = replace(end_prose(view, at), questions=(), cancelling=False)
    for item in view.items:
        if isinstance(item, Call) and item.state in _OPEN:
            view = put(view, replace(item, state=CallState.UNFINISHED, ended=at if item.began else None))
        elif isinstance(item, Step) and item.ended is None:
            view = put(view, replace(item, ended=at))
    return view


# -- steps and text ----------------------------------------------------------------------------------------------------


def _step_started(view: View, event: AgentEvent) -> View:
    return add(view, Step(key=view.next_key, number=event.data["step"], began=event.occurred_at), event.occurred_at)


def _step_completed(view: View, event: AgentEvent) -> View:
    for item in reversed(view.items):
        if isinstance(item, Step) and item.number == event.data["step"]:
            return put(view, replace(item, ended=event.occurred_at))
    return view


def _said(kind: ProseKind) -> Callable[[View, AgentEvent], View]:
    return lambda view, event: say(view, kind, event.data["content"], event.occurred_at)


# -- the model ---------------------------------------------------------------------------------------------------------


def _replied(view: View, event: AgentEvent) -> View:
    if content := event.data["content"]:  # the model did not stream: its text comes with the reply
        view = say(view, ProseKind.TEXT, content, event.occurred_at)
    return calls.asked(_spent(end_prose(view, event.occurred_at), event), event)


def _model_failed(view: View, event: AgentEvent) -> View:
    view = calls.give_up(_spent(end_prose(view, event.occurred_at), event))
    error, attempt = event.data["error"], event.data["attempt"]
    if error["code"] in _LEFT:
        return note(view, event, f"The model call was left: {error['message']}")
    return note(view, event, f"The model call failed (attempt {attempt}): {sentence(error)}", Level.ERROR)


_LEFT = frozenset({"LEFT", "INTERRUPTED", "CANCELLED"})  # codes of an end that somebody wanted


def _spent(view: View, event: AgentEvent) -> View:
    counts = event.data["usage"]
    return replace(view, usage=view.usage + Usage(**{name: counts.get(name) for name in _COUNTS}))


# -- questions and ends ------------------------------------------------------------------------------------------------


def _suspended(view: View, event: AgentEvent) -> View:
    before = {(asked.id, asked.code): asked for asked in view.questions}
    told = [_asked(question, event) for question in event.data["questions"]]
    # what was open stays the same question when a part of the others was answered
    return replace(view, questions=tuple([before.get((asked.id, asked.code), asked) for asked in told]))


def _asked(told: Mapping[str, Any], event: AgentEvent) -> Asked:
    failure = event.data["metadata"].get("model_failure", {})
    about = told["id"] if told["tool_name"] else ""  # so it was in logs of the first version, which say no more of it
    return Asked(
        id=told["id"],
        type=SuspensionType(told["type"]),
        message=brief(told["message"]),
        asked=event.sequence,
        code=told["code"],
        reason=brief(told["reason"]),
        tool_name=told["tool_name"],
        call_id=told.get("call_id", about),
        arguments=fields(told["arguments"]),
        given=None if told.get(ALTERED) else exact(told["arguments"]),
        form_key=told["form_key"],
        schema=told["schema"],
        metadata=fields(told["metadata"], 1_000),
        expires_at=_moment(told.get("expires_at")),
        when_expired=told.get("when_expired", ""),
        due_at=_moment(event.data.get("next_runnable_at")),
        failure=fields({word: failure[name] for name, word in _FAILURE.items() if failure.get(name)}, 1_000),
    )


# what is told of a model that failed -> how it is said
_FAILURE = {
    "type": "error",
    "http_status": "HTTP status",
    "provider_error_code": "provider's code",
    "request_id": "request",
    "attempts": "attempts",
}


def _moment(iso: str | None) -> datetime | None:
    return datetime.fromisoformat(iso) if iso else None


def _resumed(view: View, event: AgentEvent) -> View:
    data, found = event.data, event.data["correlation_id"]
    question = next((asked for asked in view.questions if asked.id == found), None)
    left = tuple(asked for asked in view.questions if asked.id != found) if data["remaining"] else ()
    metadata, expired = data["metadata"], data["command_type"] == EXPIRED
    answer = Answered(
        key=view.next_key,
        question_id=found,
        about=_about(question) if question else found,
        command_type=data["command_type"],
        at=event.occurred_at,
        by="" if expired else brief(metadata.get("by") or "", 200),
        via=brief(metadata.get("via") or "", 200),
        reason="" if expired else brief(data["reason"]),
        outcome=metadata.get("outcome", "") if expired else "",
        fields=_said_with(data["command_type"], data["data"]),
    )
    view = add(replace(view, questions=left), answer, event.occurred_at)
    return calls.answered(view, question.call_id) if question else view


def _about(question: Asked) -> str:
    return question.form_key or question.tool_name or question.message


def _said_with(command_type: str, data: Any) -> Fields:
    if data is None:
        return ()
    if command_type == "EXTERNAL_RESULT":
        data = {name: value for name, value in data.items() if value is not None}
    return fields(data) if isinstance(data, Mapping) else (("", brief(data)),)


def _cancelling(view: View, event: AgentEvent) -> View:
    by, reason = event.data["metadata"].get("by"), event.data["reason"]
    who = f" by {by}" if by else ""
    view = note(view, event, f"Cancellation requested{who}{f': {reason}' if reason else ''}", Level.WARNING)
    return replace(view, cancelling=True)


def _failed(view: View, event: AgentEvent) -> View:
    error = event.data["error"]
    known = ErrorSummary(kind=error["kind"], message=brief(error["message"]), code=error["code"])
    return replace(view, error=known)


def _limited(view: View, event: AgentEvent) -> View:
    key = event.data.get("key", event.type)
    said = f"{event.data['used']:,} of {event.data['limit']:,} {LIMITS[key]} are used ({key})"
    return replace(view, error=ErrorSummary(kind="LimitReached", message=said, code=key))


def _retrying(view: View, event: AgentEvent) -> View:
    due_at = datetime.fromisoformat(event.data["next_runnable_at"])
    what = event.data["tool_name"] or "The model"
    return note(view, event, f"{what} is tried again {clock(due_at)}")


def _told_outside(view: View, event: AgentEvent) -> View:
    return note(view, event, f"{event.data['tool_name']} was asked to stop, outside")


# event -> what it changes beyond status, steps and clock
_CHANGES: Mapping[EventType, Callable[[View, AgentEvent], View]] = {
    EventType.STEP_STARTED: _step_started,
    EventType.STEP_COMPLETED: _step_completed,
    EventType.MODEL_TEXT_DELTA: _said(ProseKind.TEXT),
    EventType.MODEL_REASONING_DELTA: _said(ProseKind.REASONING),
    EventType.MODEL_TOOL_CALL_DELTA: calls.written,
    EventType.MODEL_COMPLETED: _replied,
    EventType.MODEL_FAILED: _model_failed,
    EventType.TOOL_STARTED: calls.started,
    EventType.TOOL_PROGRESS: calls.progressed,
    EventType.TOOL_COMPLETED: calls.completed,
    EventType.TOOL_FAILED: calls.failed,
    EventType.TOOL_DENIED: calls.denied,
    EventType.TOOL_INTERRUPTED: calls.interrupted,
    EventType.TOOL_APPROVAL_REQUESTED: calls.waits,
    EventType.TOOL_INPUT_REQUESTED: calls.waits,
    EventType.EXTERNAL_TOOL_REQUESTED: calls.waits,
    EventType.EXTERNAL_TOOL_COMPLETED: calls.completed,
    EventType.EXTERNAL_TOOL_FAILED: calls.failed,
    EventType.EXTERNAL_TOOL_CANCEL_REQUESTED: _told_outside,
    EventType.TURN_SUSPENDED: _suspended,
    EventType.TURN_RESUMED: _resumed,
    EventType.CANCELLATION_REQUESTED: _cancelling,
    EventType.TURN_FAILED: _failed,
    EventType.MAX_STEPS_REACHED: _limited,
    EventType.MAX_ITERATIONS_REACHED: _limited,
    EventType.BUDGET_EXCEEDED: _limited,
    EventType.RETRY_SCHEDULED: _retrying,
}
