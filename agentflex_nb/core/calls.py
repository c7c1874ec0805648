"""The calls of one reply, worked off in the model's order, each to one result.

Free calls run before the first one that needs an answer; at that one the turn waits, with a question for every call
that needs one. A call is counted once and saved as started before it runs. Calls that are declared safe for it run at
the same time; their results enter the history in the model's order all the same.
"""

import json

from .agent import ToolErrorStrategy
from .asking import INVALID, ask, form_question, problem_of, question_of
from .budget import no_call_left, overspent
from .effects import CheckCalls, RunTool
from .ending import abandon, cancelled, exceeded, fail, taken_over
from .errors import ErrorSummary
from .events import EventType
from .forms import REQUEST_USER_INPUT, AgentForm
from .frozen import FrozenDict, changed
from .inputs import ToolReturned
from .messages import Origin, Role, tool_result
from .questions import OUTCOME_UNKNOWN, question_id
from .results import tell_completed, tell_failed, tell_returned, tell_supplied
from .retry import try_again
from .steps import end_step
from .story import Advance, Story
from .turn import PendingCall
from .verdicts import Strictness, Verdict

_TAKEN = frozenset({"status", "phase", "step_count", "max_steps", "tool_call_id", "tool_name", "message"})


def work(story: Story) -> Advance:
    """Go on with the waiting calls until some must be run, judged or asked about, or none is left."""
    while story.pending:
        if story.cancel:
            return cancelled(story)
        if story.interrupt:
            return taken_over(story)
        if unchecked := [pending.call for pending in story.pending if _needs_check(story, pending)]:
            return story.end(CheckCalls(tuple(unchecked)))
        pending = story.pending[0]
        if error := problem_of(story, pending):
            _fail(story, pending, error, _excuse(story, pending, error), started=False)
        if (pending := story.pending[0]).supplied is not None:
            if done := _take_result(story, pending, pending.supplied):
                return done
        elif pending.verdict and pending.verdict.strictness is Strictness.DENY:
            _deny(story, pending, pending.verdict)
        elif pending.failure:
            return exceeded(story, spent) if (spent := overspent(story)) else _retry(story, pending, pending.failure)
        elif pending.declined is not None or (_is_form(pending) and pending.form_data is not None):
            _take_form(story, pending)
        elif (spent := no_call_left(story)) and not pending.counted and not _is_form(pending):
            return exceeded(story, spent)
        elif question_of(story, pending):
            return ask(story)
        elif story.definition.judges(story.tool(pending.call.name)) and not pending.cleared:
            if story.messages[-1].role is Role.TOOL:
                story.save()  # a result just came: it must not be lost while the agent's own code runs
            return story.end(CheckCalls((pending.runs,)))
        elif spent := overspent(story):
            return exceeded(story, spent)
        else:
            return _start(story)
    return end_step(story)


def returned(story: Story, pending: PendingCall, said: ToolReturned) -> Advance:
    """A tool has given its result."""
    tell_returned(story, pending, said)
    if said.kept is not None:
        story.kept = ((said.call_id, said.kept),)
    story.put(changed(pending, started=False, content=said.content))
    return _after_result(story)


def failed(story: Story, pending: PendingCall, error: ErrorSummary, told: str) -> Advance:
    """A tool raised. It is tried again where that is safe and the policy allows it."""
    tool = story.tool(pending.call.name)
    again = error.retryable and tool is not None and tool.idempotent
    if again and pending.attempt <= story.identity.policy.retry.max_retries:
        tell_failed(story, pending, error, started=True, retries=overspent(story) is None)
        story.put(changed(pending, started=False, cleared=False, failure=error))
    else:
        _fail(story, pending, error, told, started=True)
    return _after_result(story)


def progressed(story: Story, pending: PendingCall, message: str, data: FrozenDict) -> Advance:
    """A running tool says how far it is. A field of its own that is called like one of the event's gets `tool_`."""
    call = pending.call
    own = {f"tool_{name}" if name in _TAKEN else name: part for name, part in data.items()}
    story.tell(EventType.TOOL_PROGRESS, **{**own, "tool_call_id": call.id, "tool_name": call.name, "message": message})
    return story.end()


def asked(story: Story, pending: PendingCall, form: AgentForm, message: str) -> Advance:
    """A running tool needs a form: it stops, and runs again from its start with the data."""
    if story.cancel:
        abandon(story, ErrorSummary(kind="Cancelled", message=story.cancel.reason, code="CANCELLED"))
        return cancelled(story)
    id = question_id(pending.call.id, story.answers)
    question = form_question(pending, id, form.key, message, form.description, form.schema)
    story.put(changed(pending, started=False, cleared=False, asks=question))
    return _after_result(story)


def _after_result(story: Story) -> Advance:
    if any(pending.started for pending in story.pending):
        story.save()  # the others are still at work
        return story.end()
    return work(story)


def _retry(story: Story, pending: PendingCall, failure: ErrorSummary) -> Advance:
    story.put(changed(pending, failure=None, attempt=pending.attempt + 1))
    waiting = try_again(story, failure, pending.attempt, pending.call.id, pending.call)
    assert waiting is not None  # `failed` has looked
    return waiting


def _is_form(pending: PendingCall) -> bool:
    return pending.call.name == REQUEST_USER_INPUT


def _needs_check(story: Story, pending: PendingCall) -> bool:
    known = story.tool(pending.call.name) is not None
    return known and pending.verdict is None and pending.call.malformed is None


def _excuse(story: Story, pending: PendingCall, error: ErrorSummary) -> str:
    tool = story.tool(pending.call.name)
    schema = f" Expected arguments: {json.dumps(tool.parameters, ensure_ascii=False)}" if tool else ""
    nothing = "" if pending.counted else " Nothing was run."  # now; it may have been before
    return f"Error: {error.message}.{nothing}{schema}"


def _start(story: Story) -> Advance:
    effects: list[RunTool] = []
    for pending in story.pending:
        if effects and not _may_join(story, pending):
            break
        story.tool_call_count += not pending.counted
        story.put(changed(pending, started=True, counted=True))
        story.tell(
            EventType.TOOL_STARTED,
            tool_call_id=pending.call.id,
            tool_name=pending.call.name,
            attempt=pending.attempt,
            arguments=pending.edited,
            rule=pending.rule,
        )
        effects.append(RunTool(pending.runs, pending.form_data))
        if not ((tool := story.tool(pending.call.name)) and tool.parallel):
            break
    story.save()
    return story.end(*effects)


def _may_join(story: Story, pending: PendingCall) -> bool:
    """Whether this call may start beside one that has just started."""
    tool = story.tool(pending.call.name)
    if tool is None or not tool.parallel or problem_of(story, pending) or question_of(story, pending):
        return False
    free = not story.definition.judges(tool) or pending.cleared
    denied = pending.verdict is not None and pending.verdict.strictness is Strictness.DENY
    settled = pending.supplied is not None or pending.failure is not None or pending.declined is not None
    return free and not denied and not settled and (pending.counted or no_call_left(story) is None)


def _fail(story: Story, pending: PendingCall, error: ErrorSummary, told: str, *, started: bool) -> None:
    tell_failed(story, pending, error, started=started)
    tool = story.tool(pending.call.name)
    strategy = (tool.on_error if tool else None) or story.identity.policy.tool_errors
    strict = strategy is ToolErrorStrategy.FAIL_TURN
    ends = strict and error.code != INVALID and not story.cancel  # a tool that stops because it was asked to may raise
    story.put(changed(pending, started=False, content=told, made_up=not started, fatal=error if ends else None))


def _take_result(story: Story, pending: PendingCall, result: str) -> Advance | None:
    """Put the result into the history; the end of the turn, if it is an error that ends it."""
    tell_supplied(story, pending)
    _settle(story, pending, result, Origin.RUNTIME if pending.made_up else Origin.SOURCE)
    return fail(story, pending.fatal) if pending.fatal else None


def _take_form(story: Story, pending: PendingCall) -> None:
    key = pending.call.arguments["form_key"] if _is_form(pending) else pending.asks.form_key if pending.asks else ""
    told = {"status": "SUBMITTED", "form_key": key, "data": pending.form_data}
    if pending.declined is not None:
        told = {"status": "DECLINED", "form_key": key, "reason": pending.declined}
    content = json.dumps(told, ensure_ascii=False)
    tell_completed(story, pending, content)
    _settle(story, pending, content)


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
        started=pending.counted,
    )
    # one that had started before, in a process that died or in an attempt that failed, may have taken effect: the model
    # must not rely on a no
    status = OUTCOME_UNKNOWN if pending.counted else "DENIED"
    told: dict[str, object] = {"status": status, "code": verdict.code, "reason": verdict.reason or verdict.message}
    if verdict.metadata:
        told["metadata"] = verdict.metadata
    _settle(story, pending, json.dumps(told, ensure_ascii=False))


def _settle(story: Story, pending: PendingCall, content: str, origin: Origin = Origin.SOURCE) -> None:
    story.pending = tuple([known for known in story.pending if known.call.id != pending.call.id])
    story.say(tool_result(pending.call, content, origin))
