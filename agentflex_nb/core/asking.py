"""Which waiting calls need an answer from outside, and how each is asked for."""

from .errors import ErrorSummary
from .events import EventType
from .forms import REQUEST_USER_INPUT
from .frozen import FrozenDict, changed
from .machine import AgentPhase, SuspensionType
from .questions import approval_question, external_question, outcome_question, question_id
from .steps import wait_for
from .story import Advance, Story
from .turn import AgentSuspension, PendingCall, Question
from .verdicts import Strictness

INVALID = "INVALID_ARGUMENTS"
"""The code of what is the model's own fault, and its to mend: never the end of a turn."""


def question_of(story: Story, pending: PendingCall) -> Question | None:
    """What must be answered before this call can go on; None if it can."""
    tool, verdict = story.tool(pending.call.name), pending.verdict
    denied = verdict is not None and verdict.strictness is Strictness.DENY
    if denied or pending.supplied is not None or pending.failure or problem_of(story, pending):
        return None
    if pending.started and tool and tool.external:
        return external_question(pending)
    id = question_id(pending.call.id, story.answers)
    if pending.started and not (tool and tool.idempotent):
        return outcome_question(pending, id)
    if verdict and verdict.strictness is Strictness.ASK and not pending.approved:
        return approval_question(pending, id, verdict, story.now)
    if tool and tool.external and (pending.cleared or not story.definition.judges(tool)):
        return external_question(pending)
    if pending.form_data is not None or pending.declined is not None:
        return None
    if pending.call.name == REQUEST_USER_INPUT:
        form = story.definition.form_by_key[str(pending.call.arguments["form_key"])]
        told = str(pending.call.arguments.get("message") or "")
        return form_question(pending, id, form.key, told, form.description, form.schema)
    return pending.asks


def problem_of(story: Story, pending: PendingCall) -> ErrorSummary | None:
    """Why this call cannot be made at all; None if it can."""
    call, definition = pending.call, story.definition
    if call.name == REQUEST_USER_INPUT and (pending.form_data is not None or pending.declined is not None):
        return None  # it was asked and answered, whatever has become of the form since
    asks_for_form = call.name == REQUEST_USER_INPUT and bool(definition.forms)
    if story.tool(call.name) is None and not asks_for_form:
        names = [spec.name for spec in (*definition.offered, *[tool.spec for tool in story.resolved])]
        known = ", ".join(names) or "none"
        agent = f"agent {definition.id!r} version {definition.version!r}"
        return ErrorSummary(
            kind="UnknownTool", message=f"{agent} has no tool {call.name!r}; it has: {known}", code="UNKNOWN_TOOL"
        )
    if call.malformed is not None:
        shown = call.malformed if len(call.malformed) <= 200 else f"{call.malformed[:200]}…"
        message = f"the arguments of {call.name} are no JSON object: {shown!r}"
        return ErrorSummary(kind="MalformedArguments", message=message, code=INVALID)
    if asks_for_form and call.arguments.get("form_key") not in definition.form_by_key:
        met, known = call.arguments.get("form_key"), ", ".join(definition.form_by_key)
        message = f"there is no form {met!r}; choose one of: {known}"
        return ErrorSummary(kind="UnknownForm", message=message, code=INVALID)
    if pending.verdict and pending.verdict.strictness is Strictness.INVALID:
        return ErrorSummary(kind="InvalidArguments", message=pending.verdict.message, code=INVALID)
    return None


def form_question(
    pending: PendingCall, id: str, key: str, message: str, description: str, schema: FrozenDict
) -> Question:
    """Fill in this form."""
    call = pending.runs
    return Question(
        id=id,
        call_id=call.id,
        type=SuspensionType.USER_INPUT,
        message=message or description,
        tool_name=call.name,
        arguments=call.arguments,
        form_key=key,
        schema=schema,
    )


def ask(story: Story) -> Advance:
    """Suspend the turn for every call that needs an answer, in the order of the calls."""
    questions = tuple(question for pending in story.pending if (question := question_of(story, pending)))
    for question in questions:
        _tell(story, question)
    return wait_for(story, AgentSuspension(questions=questions, resume_phase=AgentPhase.TOOLS))


def _tell(story: Story, question: Question) -> None:
    told = {"tool_call_id": question.call_id, "tool_name": question.tool_name, "message": question.message}
    match question.type:
        case SuspensionType.TOOL_APPROVAL:
            story.tell(
                EventType.TOOL_APPROVAL_REQUESTED,
                **told,
                code=question.code,
                reason=question.reason,
                arguments=question.arguments,
                metadata=question.metadata,
                expires_at=question.expires_at.isoformat() if question.expires_at else None,
            )
        case SuspensionType.EXTERNAL_TOOL:
            pending = next(pending for pending in story.pending if pending.call.id == question.call_id)
            if not pending.started:
                story.tool_call_count += not pending.counted
                story.put(changed(pending, started=True, counted=True))
                key = f"{story.identity.id}:{question.call_id}"
                story.tell(
                    EventType.EXTERNAL_TOOL_REQUESTED,
                    **told,
                    arguments=question.arguments,
                    correlation_id=question.id,
                    idempotency_key=key,
                    rule=pending.rule,
                )
        case _:
            story.tell(EventType.TOOL_INPUT_REQUESTED, **told, form_key=question.form_key)
