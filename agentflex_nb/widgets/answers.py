"""What can be said in a panel, and what it means: a message from the browser becomes a command, or a sentence why not.

Rule: nothing is decided here. A message is read, never trusted; whether an answer fits is the turn's business.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import CommandRefusedError, InvalidValueError, RefusalReason
from ..core.frozen import FrozenDict
from ..core.inputs import AgentResumeCommand, Cancel
from ..core.inputs import Command as ResumeCommand
from ..core.machine import SuspensionType
from ..core.questions import OUTCOME_UNKNOWN
from .items import Asked, View

VERSION = 1  # of the messages between kernel and browser

Command = ResumeCommand | Cancel


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A press of a button, read: the command, and the question that it answers ("" for a cancellation)."""

    command: Command
    question_id: str
    verb: str
    press: str
    """A mark of the browser's own: what is said back about this press carries it."""


# what a question offers -> its buttons, in order; the first is the one that goes on
_OFFERS: Mapping[SuspensionType, tuple[str, ...]] = {
    SuspensionType.TOOL_APPROVAL: ("approve", "reject"),
    SuspensionType.USER_INPUT: ("submit",),
    SuspensionType.EXTERNAL_TOOL: ("supply",),
    SuspensionType.CHILD_AGENT: (),
    SuspensionType.RETRY: ("continue",),
    SuspensionType.MODEL: ("retry",),
}


def offers(question: Asked) -> tuple[str, ...]:
    """The verbs that answer this question."""
    return ("approve", "reject", "supply") if question.code == OUTCOME_UNKNOWN else _OFFERS[question.type]


def read(message: Mapping[str, Any], view: View, by: str) -> Answer:
    """A message as an answer to what the view shows.

    Raises:
        CommandRefusedError: INVALID, it cannot be understood; ALREADY_RESOLVED, it answers a question that was asked
            before the one that is open now.
    """
    verb, question_id, press = str(message.get("verb")), str(message.get("question") or ""), str(message.get("press"))
    who = FrozenDict({"by": by, "via": "panel"} if by else {"via": "panel"})
    if verb == "cancel":
        return Answer(command=Cancel(metadata=who), question_id="", verb=verb, press=press)
    make = _COMMANDS.get(verb)
    if make is None:
        known = ", ".join([*_COMMANDS, "cancel"])
        raise _refused(view, question_id, RefusalReason.INVALID, f"a panel knows {known}; it was told {verb[:40]!r}")
    asked = message.get("asked")
    for question in view.questions:
        if question.id == question_id and asked is not None and asked != question.asked:
            met = f"question {question_id} has been asked anew since this answer was given: look at it again"
            raise _refused(view, question_id, RefusalReason.ALREADY_RESOLVED, met)
    try:
        command = make(question_id, message, who)
    except (InvalidValueError, TypeError) as error:
        raise _refused(view, question_id, RefusalReason.INVALID, str(error)) from error
    return Answer(command=command, question_id=question_id, verb=verb, press=press)


def only_question(view: View) -> str:
    """The id of the one open question.

    Raises:
        CommandRefusedError: none is open, or several are.
    """
    if len(view.questions) == 1:
        return view.questions[0].id
    if not view.questions:
        met = f"turn {view.turn_id} is {view.status} and asks nothing"
        raise _refused(view, "", RefusalReason.NOT_BLOCKED, met)
    known = ", ".join(question.id for question in view.questions)
    raise _refused(view, "", RefusalReason.WRONG_CORRELATION, f"several questions are open, name one of {known}")


def in_code(view: View, question: Asked) -> str:
    """The line of Python that answers the question, in any kernel that has the lab open."""
    if not (verbs := offers(question)):
        return f"lab.restore({view.turn_id!r})"
    which = f"call_id={question.id!r}" if len(view.questions) > 1 else ""
    said = {"submit": _example(question), "supply": "..."}.get(verbs[0], "")
    method = "continue_" if verbs[0] == "continue" else verbs[0]
    return f"lab.restore({view.turn_id!r}).{method}({', '.join(filter(None, [said, which]))})"


def _example(question: Asked) -> str:
    if question.schema is None:
        return '"your answer"'
    names = list(question.schema.get("properties", {}))[:4]
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: ..." for name in names) + "}"


def _submit(question_id: str, message: Mapping[str, Any], who: FrozenDict) -> Command:
    data = message.get("data")
    if not isinstance(data, str | Mapping):
        raise TypeError(f"a submission holds text or named values, not {type(data).__name__}")
    return AgentResumeCommand.user_input(question_id, data, **who)


_Make = Callable[[str, Mapping[str, Any], FrozenDict], Command]

# verb -> the command it becomes
_COMMANDS: Mapping[str, _Make] = {
    "approve": lambda id, message, who: AgentResumeCommand.approve_tool(id, **who),
    "reject": lambda id, message, who: AgentResumeCommand.reject_tool(id, str(message.get("reason") or ""), **who),
    "submit": _submit,
    "supply": lambda id, message, who: AgentResumeCommand.external_result(id, message.get("data"), **who),
    "retry": lambda id, message, who: AgentResumeCommand.retry(id, **who),
    "continue": lambda id, message, who: AgentResumeCommand.continue_(id, **who),
}


def _refused(view: View, question_id: str, reason: RefusalReason, met: str) -> CommandRefusedError:
    return CommandRefusedError(reason, f"{met}; nothing changed.", turn_id=view.turn_id, correlation_id=question_id)
