"""What can be said in a panel, and what it means: a message from the browser becomes a command, or a sentence why not.

Rule: nothing is decided here. A message is read, never trusted; whether an answer fits is the turn's business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import CommandRefusedError, InvalidValueError, RefusalReason
from ..core.frozen import FrozenDict, well_formed
from ..core.inputs import AgentResumeCommand, Cancel, Interrupt
from ..core.inputs import Command as ResumeCommand
from ..core.machine import SuspensionType
from ..core.questions import OUTCOME_UNKNOWN
from .items import Asked, View

VERSION = 2  # of the messages between kernel and browser

CANCEL, INTERRUPT = "", "interrupt"
"""What a cancellation and an interruption go by where an answer has the id of its question."""

Command = ResumeCommand | Cancel | Interrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A press of a button, read: the command, and the question that it answers, or CANCEL or INTERRUPT."""

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
    if question.code == OUTCOME_UNKNOWN:
        return "approve", "reject", "supply"
    if question.type is SuspensionType.USER_INPUT and question.schema is not None:
        return "submit", "decline"
    return _OFFERS[question.type]


def is_editable(question: Asked) -> bool:
    """Whether the call can be approved with other arguments here."""
    asks = question.type is SuspensionType.TOOL_APPROVAL and question.code != OUTCOME_UNKNOWN
    return asks and question.given is not None


def read(message: Mapping[str, Any], view: View, by: str) -> Answer:
    """A message as an answer to what the view shows.

    Raises:
        CommandRefusedError: INVALID, it cannot be understood; ALREADY_RESOLVED, it answers a question that was asked
            before the one that is open now.
    """
    verb, question_id, press = str(message.get("verb")), str(message.get("question") or ""), str(message.get("press"))
    who = FrozenDict({"by": by, "via": "panel"} if by else {"via": "panel"})
    if verb == "cancel":
        return Answer(command=Cancel(metadata=who), question_id=CANCEL, verb=verb, press=press)
    if verb == "interrupt":
        instead = Interrupt(message=_message(message, view), metadata=who)
        return Answer(command=instead, question_id=INTERRUPT, verb=verb, press=press)
    make = _COMMANDS.get(verb)
    if make is None:
        known = ", ".join([*_COMMANDS, "cancel", "interrupt"])
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


def about(command: Command) -> str:
    """The id of the question that a command answers, or CANCEL or INTERRUPT."""
    match command:
        case Cancel():
            return CANCEL
        case Interrupt():
            return INTERRUPT
        case _:
            return command.correlation_id


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


def _message(message: Mapping[str, Any], view: View) -> str:
    text = message.get("message")
    if not isinstance(text, str) or not text.strip():
        raise _refused(view, INTERRUPT, RefusalReason.INVALID, "an interruption says what to do instead")
    return well_formed(text)


def _approve(question_id: str, message: Mapping[str, Any], who: FrozenDict) -> Command:
    arguments = message.get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments are named values, not {type(arguments).__name__}")
    return AgentResumeCommand.approve_tool(question_id, arguments=arguments, **who)


def _supply(question_id: str, message: Mapping[str, Any], who: FrozenDict) -> Command:
    error = message.get("error")
    told = None if error is None else str(error)
    return AgentResumeCommand.external_result(question_id, message.get("data"), error=told, **who)


def _submit(question_id: str, message: Mapping[str, Any], who: FrozenDict) -> Command:
    data = message.get("data")
    if not isinstance(data, str | Mapping):
        raise TypeError(f"a submission holds text or named values, not {type(data).__name__}")
    return AgentResumeCommand.user_input(question_id, data, **who)


def _reason(message: Mapping[str, Any]) -> str:
    return well_formed(str(message.get("reason") or ""))


_Make = Callable[[str, Mapping[str, Any], FrozenDict], Command]

# verb -> the command it becomes
_COMMANDS: Mapping[str, _Make] = {
    "approve": _approve,
    "reject": lambda id, message, who: AgentResumeCommand.reject_tool(id, _reason(message), **who),
    "submit": _submit,
    "decline": lambda id, message, who: AgentResumeCommand.decline(id, _reason(message), **who),
    "supply": _supply,
    "retry": lambda id, message, who: AgentResumeCommand.retry(id, **who),
    "continue": lambda id, message, who: AgentResumeCommand.continue_(id, **who),
}


def _refused(view: View, question_id: str, reason: RefusalReason, met: str) -> CommandRefusedError:
    return CommandRefusedError(reason, f"{met}; nothing changed.", turn_id=view.turn_id, correlation_id=question_id)
