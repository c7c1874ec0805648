"""The calls of one reply, worked off in the model's order, each to one result.

Free calls run before the first one that needs an answer; at that one the turn waits, with a question for every call
that needs one. A call is counted once and saved as started before it runs.
"""

import json
from dataclasses import replace

from .agent import ToolErrorStrategy
from .effects import CheckCalls, RunTool
from .ending import abandon, cancelled, fail
from .errors import ErrorSummary
from .event_data import error_data
from .events import EventType
from .forms import REQUEST_USER_INPUT
from .frozen import FrozenDict
from .machine import AgentPhase, SuspensionType
from .messages import Role, tool_result
from .questions import OUTCOME_UNKNOWN, approval_question, outcome_question
from .steps import end_step, wait_for
from .story import Advance, Story
from .turn import AgentSuspension, PendingCall, Question
from .verdicts import Strictness, Verdict

_SHOWN = 2_000  # characters of a result that its event carries; the whole stands in the message
_INVALID = "INVALID_ARGUMENTS"  # the model's own fault, and its to mend: never the end of a turn
_TAKEN = frozenset({"status", "phase", "step_count", "max_steps", "tool_call_id", "tool_name", "message"})


def work(story: Story) -> Advance:
    """Go on with the waiting calls until one must be run, judged or asked about, or none is left."""
    while story.pending:
        if story.cancel:
            return cancelled(story)
        if unchecked := [pending.call for pending in story.pending if _needs_check(story, pending)]:
            return story.end(CheckCalls(tuple(unchecked)))
        pending = story.pending[0]
        if error := _problem(story, pending):
            if done := failed(story, pending, error, _excuse(story, pending, error), started=False):
                return done
        elif pending.supplied is not None:
            _take_outcome(story, pending, pending.supplied)
        elif pending.verdict and pending.verdict.strictness is Strictness.DENY:
            _deny(story, pending, pending.verdict)
        elif _question(story, pending):
            return _ask(story)
        elif pending.call.name == REQUEST_USER_INPUT:
            _take_form(story, pending)
        elif story.definition.judges(pending.call.name) and not pending.cleared:
            if story.messages[-1].role is Role.TOOL:
                story.save()  # a result just came: it must not be lost while the agent's own code runs
            return story.end(CheckCalls((pending.call,)))
        else:
            return _start(story, pending)
    return end_step(story)


def returned(story: Story, pending: PendingCall, content: str) -> Advance:
    """A tool has given its result."""
    _complete(story, pending, content)
    return work(story)


def failed(
    story: Story, pending: PendingCall, error: ErrorSummary, told: str, *, started: bool = True
) -> Advance | None:
    """A call failed. The end of the turn, if the policy says so; else None, and the model is told."""
    _tell_failed(story, pending, error, started)
    _settle(story, pending, told)
    strict = story.identity.policy.tool_errors is ToolErrorStrategy.FAIL_TURN
    if strict and error.code != _INVALID and not story.cancel:  # a tool that stops because it was asked to may raise
        return fail(story, error)
    return None


def progressed(story: Story, pending: PendingCall, message: str, data: FrozenDict) -> Advance:
    """A running tool says how far it is. A field of its own that is called like one of the event's gets `tool_`."""
    call = pending.call
    own = {f"tool_{name}" if name in _TAKEN else name: part for name, part in data.items()}
    story.tell(EventType.TOOL_PROGRESS, **{**own, "tool_call_id": call.id, "tool_name": call.name, "message": message})
    return story.end()


def asked(story: Story, pending: PendingCall, question: Question) -> Advance:
    """A running tool needs a form: it stops, and runs again from its start with the data."""
    if story.cancel:
        abandon(story, ErrorSummary(kind="Cancelled", message=story.cancel.reason, code="CANCELLED"))
        return cancelled(story)
    story.put(replace(pending, started=False, cleared=False, asks=question))
    return _ask(story)


def form_question(pending: PendingCall, key: str, message: str, description: str, schema: FrozenDict) -> Question:
    """Fill in this form."""
    call = pending.call
    return Question(
        id=call.id,
        type=SuspensionType.USER_INPUT,
        message=message or description,
        tool_name=call.name,
        arguments=call.arguments,
        form_key=key,
        schema=schema,
    )


def _needs_check(story: Story, pending: PendingCall) -> bool:
    return (
        pending.verdict is None
        and pending.call.malformed is None
        and pending.call.name in story.definition.tool_by_name
    )


def _problem(story: Story, pending: PendingCall) -> ErrorSummary | None:
    call, definition = pending.call, story.definition
    asks_for_form = call.name == REQUEST_USER_INPUT and bool(definition.forms)
    if call.name not in definition.tool_by_name and not asks_for_form:
        known = ", ".join(spec.name for spec in definition.offered) or "none"
        agent = f"agent {definition.id!r} version {definition.version!r}"
        return ErrorSummary(
            kind="UnknownTool", message=f"{agent} has no tool {call.name!r}; it has: {known}", code="UNKNOWN_TOOL"
        )
    if call.malformed is not None:
        shown = call.malformed if len(call.malformed) <= 200 else f"{call.malformed[:200]}…"
        message = f"the arguments of {call.name} are no JSON object: {shown!r}"
        return ErrorSummary(kind="MalformedArguments", message=message, code=_INVALID)
    if asks_for_form and call.arguments.get("form_key") not in definition.form_by_key:
        met, known = call.arguments.get("form_key"), ", ".join(definition.form_by_key)
        message = f"there is no form {met!r}; choose one of: {known}"
        return ErrorSummary(kind="UnknownForm", message=message, code=_INVALID)
    if pending.verdict and pending.verdict.strictness is Strictness.INVALID:
        return ErrorSummary(kind="InvalidArguments", message=pending.verdict.message, code=_INVALID)
    return None


def _excuse(story: Story, pending: PendingCall, error: ErrorSummary) -> str:
    tool = story.definition.tool_by_name.get(pending.call.name)
    schema = f" Expected arguments: {json.dumps(tool.parameters, ensure_ascii=False)}" if tool else ""
    return f"Error: {error.message}. Nothing was run.{schema}"


def _question(story: Story, pending: PendingCall) -> Question | None:
    tool = story.definition.tool_by_name.get(pending.call.name)
    verdict = pending.verdict
    if pending.outcome is not None or (verdict and verdict.strictness is Strictness.DENY) or _problem(story, pending):
        return None
    if pending.started and not (tool and tool.idempotent):
        return outcome_question(pending)
    if verdict and verdict.strictness is Strictness.ASK and not pending.approved:
        return approval_question(pending, verdict)
    if pending.form_data is not None:
        return None
    if pending.call.name == REQUEST_USER_INPUT:
        form = story.definition.form_by_key[str(pending.call.arguments["form_key"])]
        told = str(pending.call.arguments.get("message") or "")
        return form_question(pending, form.key, told, form.description, form.schema)
    return pending.asks


def _ask(story: Story) -> Advance:
    questions = tuple(question for pending in story.pending if (question := _question(story, pending)))
    for question in questions:
        told = {"tool_call_id": question.id, "tool_name": question.tool_name, "message": question.message}
        if question.type is SuspensionType.TOOL_APPROVAL:
            story.tell(
                EventType.TOOL_APPROVAL_REQUESTED,
                **told,
                code=question.code,
                reason=question.reason,
                arguments=question.arguments,
                metadata=question.metadata,
            )
        else:
            story.tell(EventType.TOOL_INPUT_REQUESTED, **told, form_key=question.form_key)
    return wait_for(story, AgentSuspension(questions=questions, resume_phase=AgentPhase.TOOLS))


def _start(story: Story, pending: PendingCall) -> Advance:
    call = pending.call
    if not pending.counted:
        story.tool_call_count += 1
    story.put(replace(pending, started=True, counted=True))
    story.tell(EventType.TOOL_STARTED, tool_call_id=call.id, tool_name=call.name)
    story.save()
    return story.end(RunTool(call, pending.form_data))


def _take_outcome(story: Story, pending: PendingCall, supplied: str) -> None:
    if pending.failed:
        error = ErrorSummary(kind="ReportedError", message=pending.outcome or "", code="REPORTED")
        _tell_failed(story, pending, error, started=True)
        _settle(story, pending, supplied)
    else:
        _complete(story, pending, supplied)


def _take_form(story: Story, pending: PendingCall) -> None:
    key = pending.call.arguments["form_key"]
    result = {"status": "SUBMITTED", "form_key": key, "data": pending.form_data}
    _complete(story, pending, json.dumps(result, ensure_ascii=False))


def _deny(story: Story, pending: PendingCall, verdict: Verdict) -> None:
    call = pending.call
    story.tell(
        EventType.TOOL_DENIED,
        tool_call_id=call.id,
        tool_name=call.name,
        code=verdict.code,
        message=verdict.message,
        reason=verdict.reason,
        metadata=verdict.metadata,
        started=pending.started,
    )
    # one that a person rejected because its outcome was unknown may have taken effect: the model must not rely on a no
    status = OUTCOME_UNKNOWN if pending.started else "DENIED"
    told: dict[str, object] = {"status": status, "code": verdict.code, "reason": verdict.reason or verdict.message}
    if verdict.metadata:
        told["metadata"] = verdict.metadata
    _settle(story, pending, json.dumps(told, ensure_ascii=False))


def _tell_failed(story: Story, pending: PendingCall, error: ErrorSummary, started: bool) -> None:
    call = pending.call
    story.tell(
        EventType.TOOL_FAILED, tool_call_id=call.id, tool_name=call.name, error=error_data(error), started=started
    )


def _complete(story: Story, pending: PendingCall, content: str) -> None:
    call = pending.call
    story.tell(
        EventType.TOOL_COMPLETED,
        tool_call_id=call.id,
        tool_name=call.name,
        result=content if len(content) <= _SHOWN else content[:_SHOWN],
        result_chars=len(content),
    )
    _settle(story, pending, content)


def _settle(story: Story, pending: PendingCall, content: str) -> None:
    story.pending = tuple([known for known in story.pending if known.call.id != pending.call.id])
    story.say(tool_result(pending.call, content))
