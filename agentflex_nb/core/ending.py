"""How turns end, and how a history is closed so that the next model call accepts it.

Rule: whatever ends a turn, every call in its history has one result, and the last word is an assistant's.
What the runtime adds for that is labelled with `Origin.RUNTIME`.
"""

from typing import Any

from .errors import ErrorSummary
from .event_data import error_data, usage_data
from .events import EventType
from .machine import AgentPhase
from .messages import NO_USAGE, Message, Origin, Role, ToolCall, Usage, assistant, tool_result, user
from .results import tell_supplied
from .story import Advance, Story
from .turn import Answer, PendingCall


def complete(story: Story, output: str) -> Advance:
    """The model has given its answer."""
    story.phase, story.output = AgentPhase.FINISHED, output
    return _end(story, EventType.TURN_COMPLETED)


def fail(story: Story, error: ErrorSummary) -> Advance:
    """The turn cannot go on."""
    story.error = error
    _close(story, f"the turn failed: {error.message}")
    return _end(story, EventType.TURN_FAILED, error=error_data(error))


def cancelled(story: Story) -> Advance:
    """A person ended the turn."""
    reason = story.cancel.reason if story.cancel else ""
    _close(story, f"the turn was cancelled: {reason}" if reason else "the turn was cancelled")
    return _end(story, EventType.TURN_CANCELLED, reason=reason)


def limited(story: Story, limit: EventType, used: int, allowed: int) -> Advance:
    """A limit of the execution policy is reached."""
    what = "model rounds" if limit is EventType.MAX_ITERATIONS_REACHED else "steps"
    message = f"{used} of {allowed} {what} are used"
    story.error = ErrorSummary(kind="LimitReached", message=message, code=str(limit))
    _close(story, f"the turn reached its limit: {message}")
    return _end(story, limit, used=used, limit=allowed)


def exceeded(story: Story, spent: tuple[str, float, float]) -> Advance:
    """The budget is used up."""
    key, used, allowed = spent
    message = f"{key} (used={used:g}, limit={allowed:g})"
    story.error = ErrorSummary(kind="BudgetExceeded", message=message, code=key)
    _close(story, f"the turn used up its budget: {message}")
    return _end(story, EventType.BUDGET_EXCEEDED, key=key, used=used, limit=allowed, reason=message)


def taken_over(story: Story) -> Advance:
    """The user interrupts: what goes on is closed, and the turn stands ready to go on with the user's message."""
    said, waited, outside = story.interrupt, story.suspension, _outside(story)
    assert said is not None
    for pending in story.pending:
        if pending.supplied is None:
            story.tell(
                EventType.TOOL_INTERRUPTED,
                tool_call_id=pending.call.id,
                tool_name=pending.call.name,
                started=pending.started,
                message=said.message,
            )
    _answer_calls(story, "the user interrupted")
    story.say(user(said.message))
    story.pending, story.suspension, story.asked, story.interrupt = (), None, None, None
    story.phase, story.attempt = AgentPhase.MODEL, 1
    if waited:
        story.answers += tuple(
            [
                Answer(
                    question_id=question.id, command_type="INTERRUPT", at=story.now, data=said.message,
                    metadata=said.metadata,
                )
                for question in waited.questions
            ]
        )  # fmt: skip
        story.tell(
            EventType.TURN_RESUMED,
            command_type="INTERRUPT",
            correlation_id=waited.correlation_id,
            resolved=tuple(question.id for question in waited.questions),
            reason="",
            data=said.message,
            metadata=said.metadata,
            remaining=0,
        )
    story.save()
    _tell_outside(story, outside)
    if story.step_open:
        story.step_open = False
        story.tell(EventType.STEP_COMPLETED, step=story.step_count)
    return story.end()


def reached_limit(story: Story) -> tuple[EventType, int, int] | None:
    """The limit that forbids another step, with what is used and allowed."""
    policy = story.identity.policy
    if story.phase is AgentPhase.MODEL and 0 < policy.max_iterations <= story.iteration_count:
        return EventType.MAX_ITERATIONS_REACHED, story.iteration_count, policy.max_iterations
    if 0 < policy.max_steps <= story.step_count:
        return EventType.MAX_STEPS_REACHED, story.step_count, policy.max_steps
    return None


def model_failed(story: Story, error: ErrorSummary, usage: Usage) -> None:
    """A call of the model is over without a reply; what it used counts."""
    story.usage += usage
    story.tell(EventType.MODEL_FAILED, attempt=story.attempt, error=error_data(error), usage=usage_data(usage))


def abandon(story: Story, why: ErrorSummary, usage: Usage = NO_USAGE) -> None:
    """Whatever is at work will not be waited for: what the log says has started is told to be over.

    `usage` is what the model has counted by then, if it is the one that is left.
    """
    if not story.step_open:
        return
    if story.phase is AgentPhase.MODEL:
        model_failed(story, why, usage)
    for pending in story.pending:
        if pending.started:
            call = pending.call
            story.tell(EventType.TOOL_INTERRUPTED, tool_call_id=call.id, tool_name=call.name, error=error_data(why))


def open_calls(messages: tuple[Message, ...]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that no tool message answers yet, in order."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id)
        elif message.role is Role.ASSISTANT:
            return tuple(call for call in message.tool_calls if call.id not in answered)
        else:
            break
    return ()


def _close(story: Story, why: str) -> None:
    _answer_calls(story, why)
    last = story.messages[-1] if story.messages else None
    if last is None or last.role is not Role.ASSISTANT or not last.content:
        text = story.identity.policy.closing.text("turn", f"{why[0].upper()}{why[1:]}")
        story.say(assistant(text, origin=Origin.RUNTIME))


def _answer_calls(story: Story, why: str) -> None:
    closing = story.identity.policy.closing
    for pending in story.pending:
        tell_supplied(story, pending)
    supplied = {pending.call.id: told for pending in story.pending if (told := pending.supplied) is not None}
    made_up = {pending.call.id for pending in story.pending if pending.made_up}
    begun = {pending.call.id for pending in story.pending if pending.counted}  # also one whose attempt failed
    for call in open_calls(story.messages):
        if call.id in supplied:
            own = call.id in made_up
            story.say(tool_result(call, supplied[call.id], Origin.RUNTIME if own else Origin.SOURCE))
        else:
            text = closing.text("started" if call.id in begun else "not_run", why)
            story.say(tool_result(call, text, Origin.RUNTIME))


def _outside(story: Story) -> list[PendingCall]:
    started = [(pending, story.tool(pending.call.name)) for pending in story.pending if pending.started]
    return [pending for pending, tool in started if tool is not None and tool.external]


def _tell_outside(story: Story, outside: list[PendingCall]) -> None:
    """Ask whoever works outside to stop, as best they can: only now that the state which says so is saved."""
    for pending in outside:
        story.tell(
            EventType.EXTERNAL_TOOL_CANCEL_REQUESTED,
            tool_call_id=pending.call.id,
            tool_name=pending.call.name,
            idempotency_key=f"{story.identity.id}:{pending.call.id}",
        )


def _end(story: Story, type: EventType, **data: Any) -> Advance:
    outside = _outside(story)
    story.phase, story.pending, story.suspension, story.asked = AgentPhase.FINISHED, (), None, None
    story.ended_at = story.now
    story.save()
    _tell_outside(story, outside)
    if story.step_open:
        story.step_open = False
        story.tell(EventType.STEP_COMPLETED, step=story.step_count)
    story.tell(type, **data)
    return story.end()
