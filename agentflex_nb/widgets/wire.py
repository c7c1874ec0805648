"""A view as JSON for the browser: whole (`snapshot`), or as what changed since another one (`patch`).

Rule: both are numbered. A patch follows the number before it or is not applied; a snapshot replaces what is older.
Rule: no top-level key is called "id": ipykernel 7.4 keeps such messages for ever.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, assert_never

from ..core.frozen import FrozenDict
from .answers import VERSION, is_editable, offers
from .code import in_code
from .items import Answered, Asked, Call, Fields, Item, Note, Prose, Step, View
from .words import SIGNS, STATUS, answer_word, failing_line, foot_line, is_no, left_out

Json = dict[str, Any]


Parameters = Callable[[Asked], Mapping[str, Any] | None]
"""The JSON Schema of the arguments that a question is about, where it is known."""


def unknown(question: Asked) -> None:
    """Where no schemas are at hand."""


def snapshot(view: View, number: int, answering: Mapping[str, Any], parameters: Parameters = unknown) -> Json:
    """Everything, as of message `number`."""
    items = [_item(item, view.turn_id) for item in view.items]
    return {"v": VERSION, "kind": "snapshot", "n": number, "state": state(view, answering, parameters), "items": items}


def patch(old: View, new: View, number: int, answering: Mapping[str, Any], parameters: Parameters = unknown) -> Json:
    """What leads from one view to a later one of the same turn; `answering` is what became of presses."""
    put: list[Json] = []
    grown: list[Json] = []
    for position, item in enumerate(new.items):
        before = _at(old, new.dropped + position)
        if before is item:
            continue
        if isinstance(item, Prose) and isinstance(before, Prose):
            grown.append(_growth(before, item, new.turn_id))
        else:
            put.append(_item(item, new.turn_id))
    return {
        "v": VERSION,
        "kind": "patch",
        "n": number,
        "state": state(new, answering, parameters),
        "put": put,
        "grown": grown,
    }


def is_durable(old: View, new: View) -> bool:
    """Whether the change is worth a snapshot: a state, a question or the end of an item; not text that grows."""
    if _stands(old) != _stands(new):
        return True
    return any(
        _mark(_at(old, new.dropped + position)) != _mark(item)
        for position, item in enumerate(new.items)
        if _at(old, new.dropped + position) is not item
    )


def state(view: View, answering: Mapping[str, Any], parameters: Parameters = unknown) -> Json:
    """All of a turn that is not an item."""
    usage, (word, tone) = view.usage, STATUS[view.status]
    return {
        "turn": view.turn_id,
        "prompt": view.prompt,
        "agent": view.agent_id,
        "foot": foot_line(view),
        "status": view.status.value,
        "word": word,
        "tone": tone.value,
        "terminal": view.status.is_terminal,
        "blocked": view.status.is_blocked,
        "step": view.step_count,
        "max_steps": view.max_steps,
        "tokens": {"input": usage.input_tokens, "output": usage.output_tokens, "total": usage.total_tokens},
        "dropped": view.dropped,
        "cancelling": view.cancelling,
        "failing": failing_line(view),
        "error": {"kind": view.error.kind, "message": view.error.message} if view.error else None,
        "at": _iso(view.at),
        "running_since": _iso(view.running_since),
        "ran": view.ran.total_seconds(),
        "questions": [_question(view, question, parameters) for question in view.questions],
        "answering": dict(answering),
    }


def _question(view: View, question: Asked, parameters: Parameters) -> Json:
    editable = is_editable(question)
    return {
        "question": question.id,
        "type": question.type.value,
        "asked": question.asked,
        "message": question.message,
        "code": question.code,
        "reason": question.reason,
        "tool": question.tool_name,
        "arguments": _pairs(question.arguments),
        "form": question.form_key,
        "schema": thaw(question.schema),
        "metadata": _pairs(question.metadata),
        "given": thaw(question.given) if editable else None,
        "parameters": thaw(parameters(question)) if editable else None,
        "expires_at": _iso(question.expires_at),
        "when_expired": question.when_expired,
        "due_at": _iso(question.due_at),
        "failure": _pairs(question.failure),
        "offers": list(offers(question)),
        "in_code": "\n".join(in_code(view, question)),
    }


def _item(item: Item, turn_id: str) -> Json:
    match item:
        case Step():
            return {"key": item.key, "is": "step", "number": item.number, **_span(item)}
        case Prose():
            said = {"text": item.text, "rest": left_out(item, turn_id)}
            return {"key": item.key, "is": item.kind.value, **said, **_span(item)}
        case Call():
            progress = item.progress
            told = progress and {
                "message": progress.message,
                "percent": progress.percent,
                "fields": _pairs(progress.fields),
            }
            return {
                "key": item.key,
                "is": "call",
                "call": item.call_id,
                "name": item.name,
                "state": item.state.value,
                "sign": SIGNS[item.state],
                "arguments": _pairs(item.arguments),
                "raw": item.raw,
                "progress": told,
                "result": item.result,
                "result_length": item.result_length,
                "problem": item.problem,
                **_span(item),
            }
        case Answered():
            return {
                "key": item.key,
                "is": "answered",
                "question": item.question_id,
                "about": item.about,
                "word": answer_word(item),
                "no": is_no(item),
                "at": _iso(item.at),
                "by": item.by,
                "via": item.via,
                "reason": item.reason,
                "fields": _pairs(item.fields),
            }
        case Note():
            return {"key": item.key, "is": "note", "level": item.level.value, "text": item.text, "at": _iso(item.at)}
        case _:
            assert_never(item)


def _growth(before: Prose, after: Prose, turn_id: str) -> Json:
    """What was added, and where: the browser counts in UTF-16 units."""
    return {
        "key": after.key,
        "at": len(before.text.encode("utf-16-le")) // 2,
        "piece": after.text[len(before.text) :],
        "rest": left_out(after, turn_id),
        "ended": _iso(after.ended),
    }


def _at(view: View, key: int) -> Item | None:
    position = key - view.dropped
    return view.items[position] if 0 <= position < len(view.items) else None


def _stands(view: View) -> tuple[object, ...]:
    """What of a view, beside its items, is durable."""
    return view.status, view.questions, view.cancelling, view.failing


def _mark(item: Item | None) -> object:
    """What of an item is durable."""
    match item:
        case Prose():
            return item.ended
        case Call():
            return item.state
        case _:
            return item


def _span(item: Step | Prose | Call) -> Json:
    return {"began": _iso(item.began), "ended": _iso(item.ended)}


def _pairs(pairs: Fields) -> list[list[str]]:
    return [list(pair) for pair in pairs]


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def thaw(value: Any) -> Any:
    """Frozen data as plain dicts and lists, which every serialiser knows."""
    if isinstance(value, FrozenDict):
        return {name: thaw(item) for name, item in value.items()}
    return [thaw(item) for item in value] if isinstance(value, tuple) else value
