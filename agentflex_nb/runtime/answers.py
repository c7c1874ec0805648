"""Answers in words that a user types, turned into commands; and responders, which answer where nobody sits."""

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import CommandRefusedError, RefusalReason, UnansweredError
from ..core.inputs import AgentResumeCommand, ApproveTool, Command, Decline
from ..core.machine import SuspensionType
from ..core.questions import EXPIRED, NOBODY
from ..core.turn import Question, Turn
from .forms import faults
from .tools import InvalidArgumentsError, Tool, to_text

Responder = Callable[[Question], Any] | Mapping[str, Any]


def fail_if_asked(question: Question) -> Any:
    """A responder for places where no question may come up: raises UnansweredError."""
    raise UnansweredError(question.id.partition(".")[0], [question], "and fail_if_asked forbids questions here")


def pick(turn: Turn, call_id: str | Question | None) -> Question:
    """The open question meant: the named one, that about the named call, or the only one.

    Raises:
        CommandRefusedError: none is open, or several are and none was named.
    """
    if isinstance(call_id, Question):
        call_id = call_id.id
    if call_id is not None:
        for question in turn.questions:
            if call_id in (question.id, question.call_id):
                return question
    if len(turn.questions) == 1 and call_id is None:
        return turn.questions[0]
    raise _no_pick(turn, call_id)


def respond(turn: Turn, question: Question, responder: Responder) -> Command:
    """What the responder says to this question, as a command.

    A function of the question, or a table from question id, call id, form key, tool name or type of question to the
    answer. An answer is a command, or what fits the question: True or False for an approval (approve, reject), or text
    (the reason to reject); a mapping for a form; text for a plain question; any value but None for work done outside
    (its result); True for a model that failed (try again).

    Raises:
        UnansweredError: it has no answer to this question.
    """
    answer = _table(question, responder) if isinstance(responder, Mapping) else responder(question)
    by: dict[str, Any] = {"by": "responder"}
    if isinstance(answer, AgentResumeCommand):
        return answer  # type: ignore[return-value]
    match question.type:
        case SuspensionType.TOOL_APPROVAL if answer is True:
            return AgentResumeCommand.approve_tool(question.id, **by)
        case SuspensionType.TOOL_APPROVAL if answer is False or isinstance(answer, str):
            return AgentResumeCommand.reject_tool(question.id, answer or "", **by)
        case SuspensionType.USER_INPUT if isinstance(answer, Mapping | str):
            return AgentResumeCommand.user_input(question.id, answer, **by)
        case SuspensionType.EXTERNAL_TOOL if answer is not None:
            return AgentResumeCommand.external_result(question.id, to_text(answer), **by)
        case SuspensionType.MODEL if answer is True:
            return AgentResumeCommand.retry(question.id, **by)
    raise UnansweredError(turn.id, turn.questions, f"and the responder said {answer!r} to {question.id}")


def check(turn: Turn, question: Question, command: Command, tools: Mapping[str, Tool]) -> None:
    """Hold submitted data against the schema that the question froze, and edited arguments against their tool.

    Raises:
        CommandRefusedError: reason INVALID, with one entry a fault; the turn goes on waiting.
    """
    if isinstance(command, ApproveTool) and command.arguments is not None:
        try:
            tools[question.tool_name].check(command.arguments)
        except InvalidArgumentsError as error:
            met = f"the arguments do not fit {question.tool_name}: {error}"
            raise _invalid(turn, question, met, error.faults) from None
    if question.type is not SuspensionType.USER_INPUT or isinstance(command, Decline):
        return
    data = getattr(command, "data", None)
    if question.schema is None:
        return
    if found := faults(data, question.schema):
        listed = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in found)
        raise _invalid(turn, question, f"the data does not fit form {question.form_key!r}: {listed}", found)


def _table(question: Question, table: Mapping[str, Any]) -> Any:
    for key in (question.id, question.call_id, question.form_key, question.tool_name, question.type.value):
        if key and key in table:
            return table[key]
    return None


def _no_pick(turn: Turn, call_id: str | None) -> CommandRefusedError:
    for answer in reversed(turn.answers):
        if call_id == answer.question_id or (call_id is None and not turn.questions):
            who = f" by {answer.by}" if answer.by else ""
            when = f"{answer.at:%Y-%m-%d %H:%M:%S} UTC"
            met = f"question {answer.question_id} was already answered ({answer.command_type}){who} at {when}"
            late = answer.command_type == EXPIRED
            return CommandRefusedError(
                RefusalReason.EXPIRED if late else RefusalReason.ALREADY_RESOLVED, f"{met}; nothing changed.",
                turn_id=turn.id, correlation_id=answer.question_id, by=answer.by, at=answer.at,
            )  # fmt: skip
    if turn.questions:
        listed = "; ".join(str(question) for question in turn.questions)
        several = "has several questions: name one by its id"
        what = several if call_id is None else f"has no question {call_id!r}"
        return CommandRefusedError(
            RefusalReason.WRONG_CORRELATION, f"turn {turn.id} {what}. Open: {listed}.", turn_id=turn.id
        )
    final = turn.status.is_terminal
    reason = RefusalReason.FINAL if final else RefusalReason.NOT_BLOCKED
    return CommandRefusedError(
        reason,
        f"turn {turn.id} is {turn.status} and waits for no answer{'' if final else NOBODY}; nothing changed.",
        turn_id=turn.id,
    )


def _invalid(turn: Turn, question: Question, met: str, errors: Any = ()) -> CommandRefusedError:
    return CommandRefusedError(
        RefusalReason.INVALID,
        f"{met}. The turn goes on waiting.",
        turn_id=turn.id,
        correlation_id=question.id,
        errors=errors,
    )
