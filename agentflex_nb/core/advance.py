"""The one rule of this package:

    advance(definition, turn, input, now) -> the next turn, what happened, what to do next

A turn changes only here, and this is a function of its arguments: time comes in as `now`, ids come in with the inputs,
and what must be done in the world goes out as effects.
"""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from . import calls, ending, questions, steps
from .agent import AgentDefinition
from .errors import ErrorSummary, IllegalTransitionError
from .events import AgentEvent, EventType
from .frozen import FrozenDict
from .inputs import (
    AgentResumeCommand,
    CallsChecked,
    Cancel,
    CheckFailed,
    Command,
    DeltaKind,
    Input,
    Interrupted,
    ModelFailed,
    ModelReplied,
    Proceed,
    StepFailed,
    Streamed,
    Suspend,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
    UserInput,
)
from .machine import AgentPhase, AgentStatus, hear
from .messages import Message, Usage, user
from .story import Advance, Story
from .turn import AgentSuspension, PendingCall, Turn, TurnIdentity
from .verdicts import ALLOWED, stricter

_DELTAS = {
    DeltaKind.TEXT: EventType.MODEL_TEXT_DELTA,
    DeltaKind.REASONING: EventType.MODEL_REASONING_DELTA,
    DeltaKind.TOOL_CALL: EventType.MODEL_TOOL_CALL_DELTA,
}


def open_turn(
    definition: AgentDefinition, identity: TurnIdentity, messages: tuple[Message, ...], now: datetime
) -> Advance:
    """A new turn, ready and to be saved; nothing of it has run."""
    story = Story(definition, Turn(identity=identity, messages=messages), now)
    story.save()
    return story.end()


def save_turn(definition: AgentDefinition, turn: Turn, now: datetime) -> Advance:
    """The same turn under a new version."""
    story = Story(definition, turn, now)
    story.save()
    return story.end()


def pick_up(turn: Turn, reserved: int, logged: int) -> Turn:
    """The turn as another process may go on with it: no number that may have been used is used again.

    `reserved` is the highest sequence number that was set aside for it, `logged` the highest one in its log.
    """
    lost_step = logged > turn.sequence and not turn.step_open and not turn.status.is_blocked
    return replace(
        turn,
        sequence=max(reserved, logged, turn.sequence),
        step_count=turn.step_count + lost_step,
        started_at=turn.started_at or (turn.identity.created_at if lost_step else None),  # its log says so already
    )


def advance(definition: AgentDefinition, turn: Turn, said: Input, now: datetime) -> Advance:
    """The turn after one more input.

    Raises:
        CommandRefusedError: an answer that does not fit; nothing changed.
        IllegalTransitionError: an input that a turn in this state does not listen to; nothing changed.
    """
    if isinstance(said, AgentResumeCommand):
        questions.find(turn, said)
    hear(turn.status, type(said))
    if isinstance(said, Streamed):
        return _streamed(turn, said, now)
    story = Story(definition, turn, now)
    match said:
        case Proceed():
            return _proceed(story)
        case ModelReplied():
            return _replied(story, said)
        case ModelFailed(error=error, usage=usage):
            story.usage += usage
            story.tell(
                EventType.MODEL_FAILED, attempt=story.attempt, error=ending.describe(error), usage=_counts(usage)
            )
            return ending.cancelled(story) if story.cancel else ending.fail(story, error)
        case CallsChecked(verdicts):
            for pending in story.pending:
                if pending.call.id in verdicts:
                    again = pending.verdict is not None
                    verdict = stricter(pending.verdict or ALLOWED, verdicts[pending.call.id])
                    story.put(replace(pending, verdict=verdict, cleared=again))
            return calls.work(story)
        case CheckFailed(error) | StepFailed(error):
            _begin(story)
            return ending.fail(story, error)
        case ToolReturned(call_id, content):
            return calls.returned(story, _running(story, said, call_id), content)
        case ToolFailed(call_id, error, content, fails_turn):
            pending = _running(story, said, call_id)
            return calls.failed(story, pending, error, content, fatal=fails_turn) or calls.work(story)
        case ToolProgressed(call_id, message, data):
            name = _running(story, said, call_id).call.name
            told = FrozenDict({**data, "tool_call_id": call_id, "tool_name": name, "message": message})
            story.tell(EventType.TOOL_PROGRESS, **told)
            return story.end()
        case ToolAsked():
            return _tool_asked(story, said)
        case Interrupted(reason):
            _begin(story)
            if not story.cancel:
                _request_cancel(story, Cancel(reason=reason))
            return ending.cancelled(story)
        case Cancel():
            return _cancel(story, said)
        case Suspend():
            story.asked = said
            if not story.step_open:
                return steps.wait_for_text(story)
            story.save()  # the step goes on, but the question must not be lost with its process
            return story.end()
        case AgentResumeCommand():
            return _answer(story, said)
        case _:
            assert_never(said)


def _begin(story: Story) -> None:
    if story.started_at is None:
        story.started_at = story.now
        story.tell(EventType.TURN_STARTED)


def _proceed(story: Story) -> Advance:
    _begin(story)
    if story.cancel:
        return ending.cancelled(story)
    if not story.step_open:
        if story.asked:
            return steps.wait_for_text(story)
        if limit := ending.reached_limit(story):
            return ending.limited(story, *limit)
    steps.open_step(story)
    return calls.work(story) if story.phase is AgentPhase.TOOLS else steps.ask_model(story)


def _streamed(turn: Turn, said: Streamed, now: datetime) -> Advance:
    identity, sequence = turn.identity, turn.sequence + 1
    data = FrozenDict(
        status=turn.status.value,
        phase=turn.phase.value,
        step_count=turn.step_count,
        max_steps=identity.policy.max_steps,
        content=said.content,
        attempt=turn.attempt,
        **said.data,
    )
    event = AgentEvent(
        turn_id=identity.id,
        root_turn_id=identity.root_turn_id,
        parent_turn_id=identity.parent_turn_id,
        agent_id=identity.agent_id,
        agent_version=identity.agent_version,
        sequence=sequence,
        type=_DELTAS[said.kind],
        occurred_at=now,
        data=data,
    )
    return Advance(replace(turn, sequence=sequence), (event,))


def _replied(story: Story, said: ModelReplied) -> Advance:
    minted = tuple(
        replace(call, id=f"{story.identity.id}.{story.step_count}.{position}")
        for position, call in enumerate(said.message.tool_calls)
    )
    message = replace(said.message, tool_calls=minted)
    story.say(message)
    story.iteration_count += 1
    story.usage += said.usage
    story.finish_reason = said.finish_reason
    story.tell(
        EventType.MODEL_COMPLETED,
        iteration=story.iteration_count,
        attempt=story.attempt,
        finish_reason=said.finish_reason,
        model=said.model,
        response_id=said.response_id,
        usage=_counts(said.usage),
        message_position=len(story.messages) - 1,
        first_delta_at=said.first_delta_at.isoformat() if said.first_delta_at else None,
        content=None if story.identity.streaming else message.content,
        tool_calls=tuple(
            FrozenDict(
                id=call.id,
                name=call.name,
                arguments=call.arguments,
                malformed=call.malformed,
                provider_id=call.provider_id,
            )
            for call in minted
        ),
    )
    story.attempt = 1
    story.pending = tuple([PendingCall(call=call) for call in minted])
    if story.cancel:
        return ending.cancelled(story)
    if minted:
        story.phase = AgentPhase.TOOLS
        return calls.work(story)
    story.output = message.content
    return steps.end_step(story) if story.asked else ending.complete(story, message.content)


def _tool_asked(story: Story, said: ToolAsked) -> Advance:
    pending = _running(story, said, said.call_id)
    if pending.form_data is not None:
        met = f"{pending.call.name} asked for form {said.form.key!r} although it had been given one"
        error = ErrorSummary(kind="FormProtocolError", message=met, code="FORM_ASKED_TWICE")
        return calls.failed(story, pending, error, f"Error: {met}.") or calls.work(story)
    form = said.form
    return calls.asked(
        story, pending, calls.form_question(pending, form.key, said.message, form.description, form.schema)
    )


def _request_cancel(story: Story, said: Cancel) -> None:
    story.cancel = said
    story.tell(EventType.CANCELLATION_REQUESTED, reason=said.reason, metadata=said.metadata)


def _cancel(story: Story, said: Cancel) -> Advance:
    if not story.cancel:
        _request_cancel(story, said)
    busy = story.status is AgentStatus.RUNNING and story.step_open
    return story.end() if busy else ending.cancelled(story)


def _answer(story: Story, said: Command) -> Advance:
    waiting = story.suspension
    assert waiting is not None
    answer = questions.record(said, story.now)
    story.answers = (*story.answers, answer)
    for pending in story.pending:
        if pending.call.id == said.correlation_id:
            story.put(questions.answered(pending, said))
    if isinstance(said, UserInput) and isinstance(said.data, str):
        story.say(user(said.data))
    rest = tuple(question for question in waiting.questions if question.id != said.correlation_id)
    story.suspension = None
    story.tell(
        EventType.TURN_RESUMED,
        command_type=said.command_type,
        correlation_id=said.correlation_id,
        reason=answer.reason,
        data=answer.data,
        metadata=said.metadata,
        remaining=len(rest),
    )
    if rest:
        return steps.wait_for(story, replace(waiting, questions=rest))
    story.save()
    return story.end()


def _running(story: Story, said: Input, call_id: str) -> PendingCall:
    for pending in story.pending:
        if pending.call.id == call_id and pending.started:
            return pending
    running = [pending.call.id for pending in story.pending if pending.started]
    raise IllegalTransitionError(story.status, f"{type(said).__name__} of call {call_id}", running)


def _counts(usage: Usage) -> FrozenDict:
    return FrozenDict(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
