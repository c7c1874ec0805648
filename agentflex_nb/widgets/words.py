"""How the states of a turn are said to people, in the panel, in saved HTML and in plain text."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from ..core.machine import AgentStatus
from ..core.questions import EXPIRED
from .items import Answered, Asked, CallState, Prose, View, brief
from .timeline import clock
from .view import ran_for


class Tone(StrEnum):
    """The colour of a status."""

    ACTIVE = "active"
    WAITING = "waiting"
    GOOD = "good"
    BAD = "bad"
    QUIET = "quiet"


_S = AgentStatus

STATUS: Mapping[AgentStatus, tuple[str, Tone]] = {
    _S.READY: ("Ready", Tone.QUIET),
    _S.RUNNING: ("Running", Tone.ACTIVE),
    _S.WAITING_FOR_USER: ("Waiting for you", Tone.WAITING),
    _S.WAITING_FOR_APPROVAL: ("Waiting for approval", Tone.WAITING),
    _S.WAITING_FOR_CHILD: ("Waiting for a child turn", Tone.ACTIVE),
    _S.WAITING_FOR_EXTERNAL_TOOL: ("Waiting for an outside result", Tone.WAITING),
    _S.WAITING_FOR_MODEL: ("Waiting: the model failed", Tone.WAITING),
    _S.RETRY_SCHEDULED: ("Trying again soon", Tone.ACTIVE),
    _S.COMPLETED: ("Completed", Tone.GOOD),
    _S.FAILED: ("Failed", Tone.BAD),
    _S.CANCELLED: ("Cancelled", Tone.QUIET),
    _S.MAX_ITERATIONS_REACHED: ("Stopped: no model rounds left", Tone.BAD),
    _S.MAX_STEPS_REACHED: ("Stopped: no steps left", Tone.BAD),
    _S.BUDGET_EXCEEDED: ("Stopped: budget used up", Tone.BAD),
}
"""A status in words, and its colour."""

SAID: Mapping[str, str] = {
    "APPROVE_TOOL": "Approved",
    "REJECT_TOOL": "Rejected",
    "USER_INPUT": "Answered",
    "DECLINE": "Declined",
    "EXTERNAL_RESULT": "Result supplied",
    "RETRY": "Retried",
    "CONTINUE": "Went on at once",
    "INTERRUPT": "Interrupted",
    EXPIRED: "Nobody answered in time",
}
"""An answer in a word."""

_OUTCOMES: Mapping[str, str] = {"REJECT": "rejected", "APPROVE": "approved"}

SIGNS: Mapping[CallState, str] = {
    CallState.WRITING: "…",
    CallState.READY: "·",
    CallState.WAITING: "?",
    CallState.RUNNING: "…",
    CallState.DONE: "✓",
    CallState.FAILED: "✗",
    CallState.DENIED: "⊘",
    CallState.UNFINISHED: "-",
}
"""A call's state as one character."""


def figures(view: View) -> list[str]:
    """Steps, tokens and running time, as far as they are known."""
    known = [f"{view.step_count} step{'' if view.step_count == 1 else 's'}"]
    if view.usage.total_tokens is not None:
        known.append(f"{view.usage.total_tokens:,} tokens")
    return [*known, duration(ran_for(view))]


def foot_line(view: View) -> str:
    """Which turn this is, and what it was made with."""
    version = view.agent_version if len(view.agent_version) <= 12 else f"{view.agent_version[:12]}…"
    return f"turn {view.turn_id} · {view.agent_id} {version}"


def answer_word(answer: Answered) -> str:
    """What the answer was, in a word or a few."""
    word = SAID.get(answer.command_type, answer.command_type)
    if answer.outcome:
        return f"{word}: {_OUTCOMES.get(answer.outcome, answer.outcome)}"
    return f"{word} with changed arguments" if answer.command_type == "APPROVE_TOOL" and answer.fields else word


def is_no(answer: Answered) -> bool:
    """Whether it keeps something from happening."""
    return answer.command_type in ("REJECT_TOOL", "DECLINE") or answer.outcome == "REJECT"


def failing_line(view: View) -> str:
    """Which listeners raised; "" for none. The run went on without them."""
    if not view.failing:
        return ""
    told = ", ".join([f"{brief(name, 80)} ({times:,} time{'' if times == 1 else 's'})" for name, times in view.failing])
    return f"Not everybody heard all of this. Listeners that raised: {told}"


def said(answer: Answered) -> str:
    """Who answered what, when and why."""
    who = f" by {answer.by}" if answer.by else ""
    why = f": {answer.reason}" if answer.reason else ""
    return f"{answer_word(answer)}{who} {clock(answer.at)} ({answer.about}){why}"


def deadline(question: Asked) -> str:
    """What happens by itself, and when; "" where nothing does."""
    if question.due_at:
        return f"It is tried again on {question.due_at:%Y-%m-%d} {clock(question.due_at)}."
    if question.expires_at:
        then = _OUTCOMES.get(question.when_expired, question.when_expired)
        return f"If nobody answers, it is {then} on {question.expires_at:%Y-%m-%d} {clock(question.expires_at)}."
    return ""


def duration(span: timedelta) -> str:
    """A time span as people write it.

    >>> duration(timedelta(seconds=3.21)), duration(timedelta(seconds=75)), duration(timedelta(milliseconds=42))
    ('3.2 s', '1 min 15 s', '42 ms')
    """
    seconds = span.total_seconds()
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def left_out(item: Prose, turn_id: str) -> str:
    """What a shortened text says at its end; "" for one that is shown whole."""
    if item.length <= len(item.text):
        return ""
    return (
        f"… the first {len(item.text):,} of {item.length:,} characters; the whole text: lab.messages(turn={turn_id!r})"
    )
