"""The calls of a turn, as a panel follows them: from the first letter of their arguments to their result."""

from dataclasses import replace

from ..core.events import AgentEvent
from .items import VALUE, Call, CallState, Progress, View, brief, fields
from .timeline import add, put, sentence

_PLAIN = frozenset({"status", "phase", "step_count", "max_steps", "tool_call_id", "tool_name", "message", "percent"})


def written(view: View, event: AgentEvent) -> View:
    """A piece of a call's arguments: shown while the model writes, replaced by the call itself when it is whole."""
    data = event.data
    label = f"draft {data['index']}"
    draft = next((call for call in _drafts(view) if call.call_id == label), None)
    if draft is None:
        draft = Call(key=view.next_key, call_id=label, name="", state=CallState.WRITING)
        view = add(view, draft, event.occurred_at)
    name = data["name"] or draft.name
    raw = draft.raw + data["content"][: VALUE - len(draft.raw)]
    return put(view, replace(draft, name=name, raw=raw))


def asked(view: View, event: AgentEvent) -> View:
    """The reply is whole: its calls stand where they were seen being written."""
    drafts = _drafts(view)
    for position, told in enumerate(event.data["tool_calls"]):
        call = Call(
            key=drafts[position].key if position < len(drafts) else view.next_key,
            call_id=told["id"],
            name=told["name"],
            state=CallState.READY,
            arguments=fields(told["arguments"]),
            raw=brief(told["malformed"] or ""),
        )
        view = put(view, call) if position < len(drafts) else add(view, call, event.occurred_at)
    return give_up(view)


def give_up(view: View) -> View:
    """What was being written will not be finished."""
    for draft in _drafts(view):
        view = put(view, replace(draft, state=CallState.UNFINISHED))
    return view


def waits(view: View, event: AgentEvent) -> View:
    """A person must say something first."""
    view, call = _call(view, event)
    return put(view, replace(call, state=CallState.WAITING))


def answered(view: View, call_id: str) -> View:
    """The person has said something about it."""
    for item in view.items:
        if isinstance(item, Call) and item.call_id == call_id and item.state is CallState.WAITING:
            view = put(view, replace(item, state=CallState.READY))
    return view


def started(view: View, event: AgentEvent) -> View:
    """It runs."""
    view, call = _call(view, event)
    edited = event.data.get("arguments")  # logs of the first version have none
    runs = replace(
        call,
        state=CallState.RUNNING,
        began=event.occurred_at,
        ended=None,
        progress=None,
        problem="",
        arguments=call.arguments if edited is None else fields(edited),
    )
    return put(view, runs)


def progressed(view: View, event: AgentEvent) -> View:
    """It says how far it is."""
    view, call = _call(view, event)
    told, percent = event.data, event.data.get("percent")
    progress = Progress(
        message=brief(told["message"], 1_000),
        percent=min(100.0, max(0.0, float(percent))) if isinstance(percent, int | float) else None,
        fields=fields({name: value for name, value in told.items() if name not in _PLAIN}, 200)[:12],
    )
    return put(view, replace(call, progress=progress))


def completed(view: View, event: AgentEvent) -> View:
    """It has a result."""
    view, call = _call(view, event)
    data = event.data
    done = replace(
        call,
        state=CallState.DONE,
        ended=event.occurred_at if call.began else None,
        result=brief(data["result"]),
        result_length=data["result_chars"],
    )
    return put(view, done)


def failed(view: View, event: AgentEvent) -> View:
    """It has an error."""
    view, call = _call(view, event)
    problem = brief(sentence(event.data["error"]))
    ended = event.occurred_at if call.began else None
    return put(view, replace(call, state=CallState.FAILED, ended=ended, problem=problem))


def denied(view: View, event: AgentEvent) -> View:
    """A policy or a person refused it."""
    view, call = _call(view, event)
    data = event.data
    problem = brief(data["reason"] or data["message"] or data["code"])
    return put(view, replace(call, state=CallState.DENIED, problem=problem))


def interrupted(view: View, event: AgentEvent) -> View:
    """It was closed by a new message."""
    view, call = _call(view, event)
    ended = event.occurred_at if call.began else None
    return put(view, replace(call, state=CallState.UNFINISHED, ended=ended))


def _call(view: View, event: AgentEvent) -> tuple[View, Call]:
    """The call that the event is about; a new one where the view has none (an older item, dropped)."""
    wanted = event.data["tool_call_id"]
    for item in reversed(view.items):
        if isinstance(item, Call) and item.call_id == wanted:
            return view, item
    call = Call(key=view.next_key, call_id=wanted, name=event.data["tool_name"], state=CallState.READY)
    return add(view, call, event.occurred_at), call


def _drafts(view: View) -> list[Call]:
    return [item for item in view.items if isinstance(item, Call) and item.state is CallState.WRITING]
