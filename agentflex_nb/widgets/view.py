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
from .items import (
    BLOCK,
    ITEMS,
    LEAST,
    TURN,
    VALUE,
    Answered,
    Asked,
    Call,
    CallState,
    Fields,
    Item,
    Level,
    Note,
    Progress,
    Prose,
    ProseKind,
    Step,
    View,
    brief,
    fields,
)

_OPEN = frozenset({CallState.WRITING, CallState.READY, CallState.WAITING, CallState.RUNNING})
_PLAIN = frozenset({"status", "phase", "step_count", "max_steps", "tool_call_id", "tool_name", "message", "percent"})
_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")


def show(view: View, event: AgentEvent) -> View:
    """The view after one more event."""
    if event.sequence <= view.sequence:
        return view
    if not view.agent_id:
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


# -- items -------------------------------------------------------------------------------------------------------------


def _add(view: View, item: Item, at: datetime) -> View:
    items = (*_prose_ended(view, at).items, item)
    surplus = max(0, len(items) - ITEMS)
    return replace(view, items=items[surplus:], dropped=view.dropped + surplus)


def _put(view: View, item: Item) -> View:
    at = item.key - view.dropped
    return replace(view, items=(*view.items[:at], item, *view.items[at + 1 :])) if at >= 0 else view


def _note(view: View, event: AgentEvent, text: str, level: Level = Level.INFO) -> View:
    return _add(view, Note(key=view.next_key, level=level, text=brief(text), at=event.occurred_at), event.occurred_at)


def _closed(view: View, at: datetime) -> View:
    """The turn has ended: nothing in it is open any more."""
    view = replace(_prose_ended(view, at), questions=(), cancelling=False)
    for item in view.items:
        if isinstance(item, Call) and item.state in _OPEN:
            view = _put(view, replace(item, state=CallState.UNFINISHED, ended=at if item.began else None))
        elif isinstance(item, Step) and item.ended is None:
            view = _put(view, replace(item, ended=at))
    return view


# -- steps and text ----------------------------------------------------------------------------------------------------


def _step_started(view: View, event: AgentEvent) -> View:
    return _add(view, Step(key=view.next_key, number=event.data["step"], began=event.occurred_at), event.occurred_at)


def _step_completed(view: View, event: AgentEvent) -> View:
    for item in reversed(view.items):
        if isinstance(item, Step) and item.number == event.data["step"]:
            return _put(view, replace(item, ended=event.occurred_at))
    return view


def _said(kind: ProseKind) -> Callable[[View, AgentEvent], View]:
    return lambda view, event: _say(view, kind, event.data["content"], event.occurred_at)


def _say(view: View, kind: ProseKind, piece: str, at: datetime) -> View:
    if not piece:
        return view
    last = view.items[-1] if view.items else None
    if not (isinstance(last, Prose) and last.kind is kind and last.ended is None):
        room = min(BLOCK, max(LEAST, TURN - view.shown))
        last = Prose(key=view.next_key, kind=kind, text="", length=0, room=room, began=at)
        view = _add(view, last, at)
    more = piece[: last.room - len(last.text)]
    view = _put(view, replace(last, text=last.text + more, length=last.length + len(piece)))
    return replace(view, shown=view.shown + len(more))


def _prose_ended(view: View, at: datetime) -> View:
    last = view.items[-1] if view.items else None
    return _put(view, replace(last, ended=at)) if isinstance(last, Prose) and last.ended is None else view


# -- the model ---------------------------------------------------------------------------------------------------------


def _call_written(view: View, event: AgentEvent) -> View:
    """A piece of a call's arguments: shown while the model writes, replaced by the call itself when it is whole."""
    data = event.data
    label = f"draft {data['index']}"
    draft = next((call for call in _drafts(view) if call.call_id == label), None)
    if draft is None:
        draft = Call(key=view.next_key, call_id=label, name="", state=CallState.WRITING)
        view = _add(view, draft, event.occurred_at)
    name = data["name"] or draft.name
    raw = draft.raw + data["content"][: VALUE - len(draft.raw)]
    return _put(view, replace(draft, name=name, raw=raw))


def _replied(view: View, event: AgentEvent) -> View:
    data = event.data
    if data["content"]:  # the model did not stream: its text comes with the reply
        view = _say(view, ProseKind.TEXT, data["content"], event.occurred_at)
    view = _spent(_prose_ended(view, event.occurred_at), event)
    drafts = _drafts(view)
    for position, asked in enumerate(data["tool_calls"]):
        call = Call(
            key=drafts[position].key if position < len(drafts) else view.next_key,
            call_id=asked["id"],
            name=asked["name"],
            state=CallState.READY,
            arguments=fields(asked["arguments"]),
            raw=brief(asked["malformed"] or ""),
        )
        view = _put(view, call) if position < len(drafts) else _add(view, call, event.occurred_at)
    return _given_up(view)


def _model_failed(view: View, event: AgentEvent) -> View:
    view = _given_up(_spent(_prose_ended(view, event.occurred_at), event))
    said, attempt = _sentence(event.data["error"]), event.data["attempt"]
    return _note(view, event, f"The model call failed (attempt {attempt}): {said}", Level.ERROR)


def _spent(view: View, event: AgentEvent) -> View:
    counts = event.data["usage"]
    return replace(view, usage=view.usage + Usage(**{name: counts.get(name) for name in _COUNTS}))


def _drafts(view: View) -> list[Call]:
    return [item for item in view.items if isinstance(item, Call) and item.state is CallState.WRITING]


def _given_up(view: View) -> View:
    for draft in _drafts(view):
        view = _put(view, replace(draft, state=CallState.UNFINISHED))
    return view


# -- tools -------------------------------------------------------------------------------------------------------------


def _call(view: View, event: AgentEvent) -> tuple[View, Call]:
    """The call that the event is about; a new one where the view has none (an older item, dropped)."""
    wanted = event.data["tool_call_id"]
    for item in reversed(view.items):
        if isinstance(item, Call) and item.call_id == wanted:
            return view, item
    call = Call(key=view.next_key, call_id=wanted, name=event.data["tool_name"], state=CallState.READY)
    return _add(view, call, event.occurred_at), call


def _tool_started(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    return _put(
        view, replace(call, state=CallState.RUNNING, began=event.occurred_at, ended=None, progress=None, problem="")
    )


def _tool_progressed(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    told, percent = event.data, event.data.get("percent")
    progress = Progress(
        message=brief(told["message"], 1_000),
        percent=min(100.0, max(0.0, float(percent))) if isinstance(percent, int | float) else None,
        fields=fields({name: value for name, value in told.items() if name not in _PLAIN}, 200)[:12],
    )
    return _put(view, replace(call, progress=progress))


def _tool_completed(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    data = event.data
    done = replace(
        call,
        state=CallState.DONE,
        ended=event.occurred_at if call.began else None,
        result=brief(data["result"]),
        result_length=data["result_chars"],
    )
    return _put(view, done)


def _tool_failed(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    problem = brief(_sentence(event.data["error"]))
    ended = event.occurred_at if call.began else None
    return _put(view, replace(call, state=CallState.FAILED, ended=ended, problem=problem))


def _tool_denied(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    data = event.data
    problem = brief(data["reason"] or data["message"] or data["code"])
    return _put(view, replace(call, state=CallState.DENIED, problem=problem))


def _tool_interrupted(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    ended = event.occurred_at if call.began else None
    return _put(view, replace(call, state=CallState.UNFINISHED, ended=ended))


def _tool_waits(view: View, event: AgentEvent) -> View:
    view, call = _call(view, event)
    return _put(view, replace(call, state=CallState.WAITING))


# -- questions and ends ------------------------------------------------------------------------------------------------


def _suspended(view: View, event: AgentEvent) -> View:
    before = {(asked.id, asked.code): asked for asked in view.questions}
    told = [_asked(question, event.sequence) for question in event.data["questions"]]
    # what was open stays the same question when a part of the others was answered
    return replace(view, questions=tuple([before.get((asked.id, asked.code), asked) for asked in told]))


def _asked(told: Mapping[str, Any], sequence: int) -> Asked:
    return Asked(
        id=told["id"],
        type=SuspensionType(told["type"]),
        message=brief(told["message"]),
        asked=sequence,
        code=told["code"],
        reason=brief(told["reason"]),
        tool_name=told["tool_name"],
        arguments=fields(told["arguments"]),
        form_key=told["form_key"],
        schema=told["schema"],
        metadata=fields(told["metadata"], 1_000),
    )


def _resumed(view: View, event: AgentEvent) -> View:
    data, found = event.data, event.data["correlation_id"]
    question = next((asked for asked in view.questions if asked.id == found), None)
    left = tuple(asked for asked in view.questions if asked.id != found) if data["remaining"] else ()
    metadata = data["metadata"]
    answer = Answered(
        key=view.next_key,
        question_id=found,
        about=_about(question) if question else found,
        command_type=data["command_type"],
        at=event.occurred_at,
        by=brief(metadata.get("by") or "", 200),
        via=brief(metadata.get("via") or "", 200),
        reason=brief(data["reason"]),
        fields=_submitted(data["data"]),
    )
    view = _add(replace(view, questions=left), answer, event.occurred_at)
    waiting = [item for item in view.items if isinstance(item, Call) and item.call_id == found]
    for call in waiting:
        view = _put(view, replace(call, state=CallState.READY))
    return view


def _about(question: Asked) -> str:
    return question.form_key or question.tool_name or question.message


def _submitted(data: Any) -> Fields:
    if data is None:
        return ()
    return fields(data) if isinstance(data, Mapping) else (("", brief(data)),)


def _cancelling(view: View, event: AgentEvent) -> View:
    by, reason = event.data["metadata"].get("by"), event.data["reason"]
    who = f" by {by}" if by else ""
    view = _note(view, event, f"Cancellation requested{who}{f': {reason}' if reason else ''}", Level.WARNING)
    return replace(view, cancelling=True)


def _failed(view: View, event: AgentEvent) -> View:
    error = event.data["error"]
    known = ErrorSummary(kind=error["kind"], message=brief(error["message"]), code=error["code"])
    return replace(view, error=known)


def _limited(view: View, event: AgentEvent) -> View:
    words = {EventType.MAX_STEPS_REACHED: "steps", EventType.MAX_ITERATIONS_REACHED: "model rounds"}
    what = words.get(event.type, "of the budget")
    said = f"{event.data.get('used')} of {event.data.get('limit')} {what} are used"
    return replace(view, error=ErrorSummary(kind="LimitReached", message=said, code=str(event.type)))


def _retrying(view: View, event: AgentEvent) -> View:
    said = _sentence(event.data["error"]) if event.data.get("error") else "a failed call"
    return _note(view, event, f"Trying again at {event.data['next_runnable_at']}: {said}", Level.WARNING)


def _sentence(error: Mapping[str, Any]) -> str:
    return f"{error['kind']}: {error['message']}"


# event -> what it changes beyond status, steps and clock
_CHANGES: Mapping[EventType, Callable[[View, AgentEvent], View]] = {
    EventType.STEP_STARTED: _step_started,
    EventType.STEP_COMPLETED: _step_completed,
    EventType.MODEL_TEXT_DELTA: _said(ProseKind.TEXT),
    EventType.MODEL_REASONING_DELTA: _said(ProseKind.REASONING),
    EventType.MODEL_TOOL_CALL_DELTA: _call_written,
    EventType.MODEL_COMPLETED: _replied,
    EventType.MODEL_FAILED: _model_failed,
    EventType.TOOL_STARTED: _tool_started,
    EventType.TOOL_PROGRESS: _tool_progressed,
    EventType.TOOL_COMPLETED: _tool_completed,
    EventType.TOOL_FAILED: _tool_failed,
    EventType.TOOL_DENIED: _tool_denied,
    EventType.TOOL_INTERRUPTED: _tool_interrupted,
    EventType.TOOL_APPROVAL_REQUESTED: _tool_waits,
    EventType.TOOL_INPUT_REQUESTED: _tool_waits,
    EventType.TURN_SUSPENDED: _suspended,
    EventType.TURN_RESUMED: _resumed,
    EventType.CANCELLATION_REQUESTED: _cancelling,
    EventType.TURN_FAILED: _failed,
    EventType.MAX_STEPS_REACHED: _limited,
    EventType.MAX_ITERATIONS_REACHED: _limited,
    EventType.BUDGET_EXCEEDED: _limited,
    EventType.RETRY_SCHEDULED: _retrying,
}
