"""A turn as plain text: for a terminal, a log, a notebook without widgets, a reader without a kernel."""

from collections.abc import Iterator
from typing import assert_never

from .code import in_code
from .items import Answered, Asked, Call, CallState, Fields, Item, Note, Prose, ProseKind, Step, View
from .words import SIGNS, deadline, duration, failing_line, figures, left_out, said


def turn_text(view: View) -> str:
    """The whole turn; ends with the status, and where it waits with the lines of Python that answer."""
    return "\n".join(
        [*opening(view), *(line for item in view.items for line in item_lines(view, item)), *closing(view)]
    )


def opening(view: View) -> list[str]:
    """The first lines: whose turn it is, and what was asked of it."""
    lines = [f"{view.agent_id or 'agent'} · turn {view.turn_id}"]
    lines += _block("> ", view.prompt) if view.prompt else []
    lines += (
        [f"({view.dropped:,} earlier items are left out: lab.events(turn={view.turn_id!r}))"] if view.dropped else []
    )
    return lines


def item_lines(view: View, item: Item) -> list[str]:
    """One item."""
    match item:
        case Step(number=number):
            return [f"step {number}"]
        case Prose():
            return _prose(view, item)
        case Call():
            return list(_call(item))
        case Answered():
            return [f"  → {said(item)}", *(f"      {line}" for line in _field_lines(item.fields))]
        case Note():
            return _block("  ! ", item.text)
        case _:
            assert_never(item)


def closing(view: View) -> list[str]:
    """The last lines: what is open and how to answer it, what went wrong, and where the turn stands."""
    lines = [line for question in view.questions for line in _question(view, question)]
    if view.error:
        lines += _block("  ! ", f"{view.error.kind}: {view.error.message}")
    if failing := failing_line(view):
        lines += _block("  ! ", failing)
    return [*lines, " · ".join([view.status.value, *figures(view)])]


def _prose(view: View, item: Prose) -> list[str]:
    lines = _block("  ~ " if item.kind is ProseKind.REASONING else "  ", item.text)
    short = left_out(item, view.turn_id)
    return [*lines, f"  {short}"] if short else lines


def _call(call: Call) -> Iterator[str]:
    took = f"  {duration(call.ended - call.began)}" if call.began and call.ended else ""
    yield f"  {SIGNS[call.state]} {call.name}({_arguments(call)}){took}"
    if call.state is CallState.RUNNING and call.progress:
        yield from _block("      ", call.progress.message)
    if call.result:
        yield from _block("      ", call.result)
        if call.result_length > len(call.result):
            yield f"      … the first {len(call.result):,} of {call.result_length:,} characters"
    if call.problem:
        yield from _block("      ", call.problem)


def _question(view: View, question: Asked) -> Iterator[str]:
    yield from _block("  ? ", question.message)
    if question.reason:
        yield from _block("      ", question.reason)
    for line in _field_lines((*question.arguments, *question.failure)):
        yield f"      {line}"
    if by_itself := deadline(question):
        yield f"      {by_itself}"
    first, *others = in_code(view, question)
    yield f"      answer it: {first}"
    yield from (f"             or: {line}" for line in others)


def _arguments(call: Call) -> str:
    return call.raw or ", ".join(f"{name}={_inline(value)}" for name, value in call.arguments)


def _inline(value: str) -> str:
    flat = " ".join(value.split())
    return flat if len(flat) <= 200 else f"{flat[:200]}…"


def _field_lines(fields: Fields) -> list[str]:
    return [line for name, value in fields for line in _block("", f"{name}: {value}" if name else value)]


def _block(lead: str, text: str) -> list[str]:
    """The text with a sign before its first line and as much space before the others."""
    first, *rest = text.splitlines() or [""]
    return [f"{lead}{first}", *(f"{' ' * len(lead)}{line}".rstrip() for line in rest)]
