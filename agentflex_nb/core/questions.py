"""Questions and answers: what is asked of a person, which answer fits, and what an answer does to the waiting call."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from .errors import CommandRefusedError, RefusalReason
from .frozen import FrozenDict, changed, freeze
from .inputs import ApproveTool, Command, Continue, Decline, ExternalResult, RejectTool, Retry, UserInput
from .machine import SuspensionType
from .turn import Answer, PendingCall, Question, Turn
from .verdicts import ALLOWED, Strictness, Verdict

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
REJECTED = "REJECTED"
EXPIRED = "EXPIRED"


NOBODY = "; if nobody moves it, turn.run_until_blocked() does"
"""What to do about a turn that waits for nothing and does not go on."""


def question_id(call_id: str, answers: Iterable[Answer]) -> str:
    """The id of the next question about a call: the call's own, and after each answer another one.

    So an answer to what was asked before never answers what is asked now.
    """
    before = sum(answer.question_id == call_id or answer.question_id.startswith(f"{call_id}.") for answer in answers)
    return f"{call_id}.ask{before + 1}" if before else call_id


def approval_question(pending: PendingCall, id: str, verdict: Verdict, now: datetime) -> Question:
    """May this call run?"""
    call = pending.runs
    return Question(
        id=id,
        call_id=call.id,
        expires_at=None if verdict.expires_in is None else now + timedelta(seconds=verdict.expires_in),
        when_expired="" if verdict.expires_in is None else verdict.when_expired,
        type=SuspensionType.TOOL_APPROVAL,
        message=verdict.message or f"{call.name} asks for approval",
        code=verdict.code,
        reason=verdict.reason,
        tool_name=call.name,
        arguments=call.arguments,
        metadata=verdict.metadata,
    )


def outcome_question(pending: PendingCall, id: str) -> Question:
    """The call had started when the process died: what came of it?"""
    call = pending.runs
    return Question(
        id=id,
        call_id=call.id,
        type=SuspensionType.TOOL_APPROVAL,
        message=f"{call.name} had started when its process ended, and nobody knows whether it took effect",
        code=OUTCOME_UNKNOWN,
        reason="run it again (approve), supply its result (external_result), or reject it",
        tool_name=call.name,
        arguments=call.arguments,
    )


def external_question(pending: PendingCall) -> Question:
    """The work is done outside: what is its result? The attempt in the id tells a late result of another one apart."""
    call = pending.runs
    return Question(
        id=f"{call.id}.{pending.attempt}",
        call_id=call.id,
        type=SuspensionType.EXTERNAL_TOOL,
        message=f"{call.name} is carried out elsewhere",
        tool_name=call.name,
        arguments=call.arguments,
    )


def find(turn: Turn, command: Command, now: datetime) -> Question:
    """The open question that this command answers.

    Raises:
        CommandRefusedError: it was answered before, nothing is open, no such question, or another kind of answer.
    """
    for answer in reversed(turn.answers):
        if answer.question_id == command.correlation_id and not _fits_call(turn, command):
            late = answer.command_type == EXPIRED
            reason = RefusalReason.EXPIRED if late else RefusalReason.ALREADY_RESOLVED
            raise _refused(turn, command, reason, _already(answer), answer)
    if turn.status.is_terminal:
        raise _refused(turn, command, RefusalReason.FINAL, f"turn {turn.id} has ended: it is {turn.status}")
    if not turn.questions:
        met = f"turn {turn.id} is {turn.status} and waits for no answer{NOBODY}"
        raise _refused(turn, command, RefusalReason.NOT_BLOCKED, met)
    question = _open(turn, command.correlation_id) or _fits_call(turn, command)
    if question is None:
        known = ", ".join(question.id for question in turn.questions)
        met = f"turn {turn.id} has no question {command.correlation_id!r}; open: {known}"
        raise _refused(turn, command, RefusalReason.WRONG_CORRELATION, met)
    if type(command) not in fitting(question):
        takes = " or ".join(sorted(kind.__name__ for kind in fitting(question)))
        met = f"question {question.id} ({question.type}) takes {takes}, not {type(command).__name__}"
        raise _refused(turn, command, RefusalReason.WRONG_KIND, met)
    if isinstance(command, UserInput) and not isinstance(command.data, str if question.schema is None else Mapping):
        given = "text" if isinstance(command.data, str) else type(command.data).__name__
        wanted = "text" if question.schema is None else f"the data of form {question.form_key!r}, by name"
        met = f"question {question.id} is answered with {wanted}, not with {given}"
        raise _refused(turn, command, RefusalReason.INVALID, met)
    if question.expires_at is not None and now >= question.expires_at:
        met = f"question {question.id} expired at {question.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        raise _refused(turn, command, RefusalReason.EXPIRED, met)
    due_at = turn.suspension.due_at if turn.suspension else None
    if isinstance(command, Retry) and due_at is not None and now < due_at:
        met = f"turn {turn.id} is due at {due_at:%Y-%m-%d %H:%M:%S} UTC, not before; continue_ does not wait"
        raise _refused(turn, command, RefusalReason.NOT_DUE, met)
    return question


def fitting(question: Question) -> frozenset[type[Command]]:
    """The kinds of answer that a question takes."""
    if question.code == OUTCOME_UNKNOWN:
        return frozenset({ApproveTool, RejectTool, ExternalResult})
    return _FITTING[question.type]


# what is waited for -> the answers that fit
_FITTING: Mapping[SuspensionType, frozenset[type[Command]]] = {
    SuspensionType.TOOL_APPROVAL: frozenset({ApproveTool, RejectTool}),
    SuspensionType.USER_INPUT: frozenset((UserInput, Decline)),
    SuspensionType.EXTERNAL_TOOL: frozenset({ExternalResult}),
    SuspensionType.CHILD_AGENT: frozenset(),
    SuspensionType.RETRY: frozenset({Retry, Continue}),
    SuspensionType.MODEL: frozenset({Retry, Continue}),
}


def record(command: Command, question_id: str, at: datetime, command_type: str = "") -> Answer:
    """The answer as it is kept."""
    data = command.data if isinstance(command, UserInput) else None
    if isinstance(command, ApproveTool) and command.arguments is not None:
        data = command.arguments
    if isinstance(command, ExternalResult):
        data = freeze({"result": command.result, "error": command.error})
    return Answer(
        question_id=question_id,
        command_type=command_type or command.command_type,
        at=at,
        reason=command.reason if isinstance(command, RejectTool | Decline) else "",
        data=data,
        metadata=command.metadata,
    )


def answered(pending: PendingCall, command: Command) -> PendingCall:
    """The waiting call after its answer."""
    match command:
        case ApproveTool(arguments=arguments):
            edited = pending.edited if arguments is None else arguments
            return changed(pending, approved=True, started=False, cleared=False, edited=edited)
        case Decline(reason=reason):
            return changed(pending, declined=reason)
        case RejectTool(reason=reason):
            judged = pending.verdict or ALLOWED  # its metadata is the policy's, for the model; a person's is not
            no = Verdict(strictness=Strictness.DENY, code=REJECTED, reason=reason, metadata=judged.metadata)
            return changed(pending, verdict=no)
        case UserInput(data=data) if isinstance(data, FrozenDict):
            return changed(pending, form_data=data, asks=None)
        case ExternalResult(result=result, error=error):
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            return changed(pending, outcome=text if error is None else error, failed=error is not None, started=False)
        case _:
            return pending


def _open(turn: Turn, question_id: str) -> Question | None:
    return next((question for question in turn.questions if question.id == question_id), None)


def _fits_call(turn: Turn, command: Command) -> Question | None:
    """The question about a call whose result comes under the call's own id."""
    if not isinstance(command, ExternalResult):
        return None
    about = (question for question in turn.questions if question.call_id == command.correlation_id)
    return next((question for question in about if ExternalResult in fitting(question)), None)


def _already(answer: Answer) -> str:
    who = f" by {answer.by}" if answer.by else ""
    when = f"{answer.at:%Y-%m-%d %H:%M:%S} UTC"
    return f"question {answer.question_id} was already answered ({answer.command_type}){who} at {when}"


def _refused(
    turn: Turn, command: Command, reason: RefusalReason, met: str, answer: Answer | None = None
) -> CommandRefusedError:
    return CommandRefusedError(
        reason,
        f"{met}; nothing changed.",
        turn_id=turn.id,
        correlation_id=command.correlation_id,
        by=answer.by if answer else "",
        at=answer.at if answer else None,
    )
