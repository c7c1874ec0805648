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
from .budget import overspent
from .errors import ErrorSummary, IllegalTransitionError
from .event_data import call_data, usage_data
from .events import EventType
from .frozen import FrozenDict, changed
from .inputs import (
    AgentResumeCommand,
    ApproveTool,
    CallsChecked,
    Cancel,
    CheckFailed,
    Command,
    DeltaKind,
    Expired,
    Input,
    Interrupt,
    Interrupted,
    Migrate,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Proceed,
    RejectTool,
    StepFailed,
    Streamed,
    Suspend,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
    ToolsOffered,
    UserInput,
)
from .machine import HEARS, AgentPhase, AgentStatus, hear
from .messages import NO_USAGE, Message, ToolCall, user
from .migration import migrate
from .retry import ask_about_model, try_again
from .story import Advance, Story, event_of
from .turn import PendingCall, Question, Turn, TurnIdentity
from .verdicts import stricter

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
    newest = turn.numbered(max(reserved, logged, turn.sequence))
    if turn.status not in (AgentStatus.READY, AgentStatus.RUNNING) or turn.step_open or logged <= turn.sequence:
        return newest
    # Between two steps the next thing that happens is that one begins: its beginning was logged, and never saved. With
    # the first step the turn itself began; when exactly, the log tells.
    return replace(
        newest,
        status=AgentStatus.RUNNING,
        step_count=turn.step_count + 1,
        step_open=True,
        started_at=turn.started_at or turn.identity.created_at,
    )


def advance(definition: AgentDefinition, turn: Turn, said: Input, now: datetime) -> Advance:
    """The turn after one more input.

    Raises:
        CommandRefusedError: an answer that does not fit; nothing changed.
        IllegalTransitionError: an input that a turn in this state does not listen to; nothing changed.
    """
    if isinstance(said, Streamed):  # first, and without a story: there are thousands
        hear(turn.status, Streamed, turn.phase if turn.step_open else None)
        return _streamed(turn, said, now)
    if isinstance(said, AgentResumeCommand):
        questions.find(turn, said, now)
    hear(turn.status, type(said), turn.phase if turn.step_open else None)
    story = Story(definition, turn, now)
    match said:
        case Proceed():
            return _proceed(story)
        case ToolsOffered():
            return _offered(story, said)
        case ModelReplied():
            return _replied(story, said)
        case ModelFailed(error=error, usage=usage):
            ending.model_failed(story, error, usage)
            return _model_failed(story, error)
        case ModelRetried(error=error, usage=usage):
            ending.model_failed(story, error, usage)
            story.attempt += 1
            steps.tell_model_started(story)
            return story.end()
        case CallsChecked():
            return _checked(story, said)
        case CheckFailed(error) | StepFailed(error):
            _begin(story)
            ending.abandon(story, error)
            return ending.fail(story, error)
        case ToolReturned():
            return calls.returned(story, _running(story, said, said.call_id), said)
        case ToolFailed(call_id, error, content):
            return calls.failed(story, _running(story, said, call_id), error, content)
        case ToolProgressed(call_id, message, data):
            return calls.progressed(story, _running(story, said, call_id), message, data)
        case ToolAsked():
            return _tool_asked(story, said)
        case Interrupted(reason, usage):
            _begin(story)
            if not story.cancel:
                _request_cancel(story, Cancel(reason=reason))
            ending.abandon(story, ErrorSummary(kind="Interrupted", message=reason, code="INTERRUPTED"), usage)
            return ending.cancelled(story)
        case Cancel():
            asked_before = turn.cancel is not None and turn.step_open
            return Advance(turn) if asked_before else _cancel(story, said)
        case Suspend():
            return _suspend(story, said)
        case Interrupt():
            return _interrupt(story, said)
        case Migrate():
            return migrate(story, said)
        case Expired(question_id):
            return _expire(story, question_id)
        case AgentResumeCommand():
            return _answer(story, said, questions.find(turn, said, now))
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
        if story.asked and story.phase is AgentPhase.MODEL:
            return steps.wait_for_text(story)
        if spent := overspent(story):
            return ending.exceeded(story, spent)
        if limit := ending.reached_limit(story):
            return ending.limited(story, *limit)
    elif story.phase is AgentPhase.MODEL:
        story.attempt += 1  # the process that asked the model is gone, and its attempt with it
    steps.open_step(story)
    return calls.work(story) if story.phase is AgentPhase.TOOLS else steps.ask_model(story)


def _streamed(turn: Turn, said: Streamed, now: datetime) -> Advance:
    sequence = turn.sequence + 1
    data = {**said.data, "content": said.content, "attempt": turn.attempt}
    return Advance(turn.numbered(sequence), (event_of(turn, _DELTAS[said.kind], sequence, now, data),))


def _offered(story: Story, said: ToolsOffered) -> Advance:
    if not story.definition.dynamic:
        raise IllegalTransitionError(story.status, "ToolsOffered, of an agent whose tools are fixed", ["ModelReplied"])
    if story.cancel or story.interrupt:
        left = ErrorSummary(kind="NotAsked", message="somebody wants the turn to do something else", code="LEFT")
        ending.model_failed(story, left, NO_USAGE)
        return _model_failed(story, left)
    story.resolved = said.resolved
    return steps.call_model(story, said.hidden)


def _replied(story: Story, said: ModelReplied) -> Advance:
    minted = _minted(story, said.message.tool_calls)
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
        usage=usage_data(said.usage),
        message_position=len(story.messages) - 1,
        first_delta_at=said.first_delta_at.isoformat() if said.first_delta_at else None,
        content=None if story.identity.streaming else message.content,
        tool_calls=tuple([call_data(call) for call in minted]),
    )
    story.attempt = 1
    story.pending = tuple([PendingCall(call=call) for call in minted])
    if story.resolved and all(
        story.tool(call.name) for call in minted
    ):  # else all are listed, for a model that has invented one
        story.forget_uncalled()
    if story.cancel:
        return ending.cancelled(story)
    if minted and (spent := overspent(story)):
        return ending.exceeded(story, spent)
    if minted:
        story.phase = AgentPhase.TOOLS
        return calls.work(story)
    if story.interrupt:
        return ending.taken_over(story)
    return steps.end_step(story) if story.asked else ending.complete(story, message.content)


def _minted(story: Story, asked: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls of a reply under ids that no other call of any turn has.

    A reply that was lost in a crash may stand in the log under this very step, with calls of its own. What tells a
    later attempt's calls from those is the number of its event, which is never used twice.
    """
    place = f"{story.identity.id}.{story.step_count}"
    if story.attempt > 1:
        place += f"-{story.sequence + 1}"
    return tuple([replace(call, id=f"{place}.{position}") for position, call in enumerate(asked)])


def _checked(story: Story, said: CallsChecked) -> Advance:
    waiting = {pending.call.id for pending in story.pending if not pending.started}
    if len(waiting) < len(story.pending) or not said.verdicts.keys() <= waiting:
        raise IllegalTransitionError(story.status, f"verdicts on {', '.join(said.verdicts)}", sorted(waiting))
    for pending in story.pending:
        if pending.call.id in said.verdicts:
            before, verdict = pending.verdict, said.verdicts[pending.call.id]
            verdict = verdict if before is None else stricter(before, verdict)
            story.put(changed(pending, verdict=verdict, cleared=before is not None))
    return calls.work(story)


def _tool_asked(story: Story, said: ToolAsked) -> Advance:
    pending = _running(story, said, said.call_id)
    if pending.form_data is not None:
        met = f"{pending.call.name} asked for form {said.form.key!r} although it had been given one"
        error = ErrorSummary(kind="FormProtocolError", message=met, code="FORM_ASKED_TWICE")
        return calls.failed(story, pending, error, f"Error: {met}.")
    return calls.asked(story, pending, said.form, said.message)


def _model_failed(story: Story, error: ErrorSummary) -> Advance:
    if story.cancel:
        return ending.cancelled(story)
    if story.interrupt:
        return ending.taken_over(story)
    if spent := overspent(story):
        return ending.exceeded(story, spent)
    failed, story.attempt = story.attempt, story.attempt + 1
    if waiting := try_again(story, error, failed, f"{story.identity.id}.model"):
        return waiting
    story.attempt = failed
    return ask_about_model(story, error) or ending.fail(story, error)


def _request_cancel(story: Story, said: Cancel) -> None:
    story.cancel = said
    story.tell(EventType.CANCELLATION_REQUESTED, reason=said.reason, metadata=said.metadata)


def _cancel(story: Story, said: Cancel) -> Advance:
    if not story.cancel:
        _request_cancel(story, said)
    if not story.step_open:
        return ending.cancelled(story)
    story.save()  # the step goes on to its next safe point; who asked, and why, must not be lost meanwhile
    return story.end()


def _suspend(story: Story, said: Suspend) -> Advance:
    if story.asked:
        heard = [kind.__name__ for kind in HEARS[story.status] if kind is not Suspend]
        raise IllegalTransitionError(story.status, "a second Suspend before the first question was put", heard)
    story.asked = said
    if not story.step_open and story.phase is AgentPhase.MODEL:
        return steps.wait_for_text(story)
    story.save()  # calls come first; the question must not be lost with the process that works on them
    return story.end()


def _interrupt(story: Story, said: Interrupt) -> Advance:
    _begin(story)
    if story.interrupt:  # the one before has not been heard yet, and must not be lost
        said = replace(said, message=f"{story.interrupt.message}\n\n{said.message}")
    story.interrupt = said
    if not story.step_open:
        return ending.taken_over(story)
    story.save()  # the step goes on to its next safe point, but the message must not be lost with its process
    return story.end()


def _expire(story: Story, question_id: str) -> Advance:
    for question in story.suspension.questions if story.suspension else ():
        if question.id == question_id and question.expires_at is not None and story.now >= question.expires_at:
            by = FrozenDict(by="expiry", outcome=question.when_expired)
            said: Command = (
                ApproveTool(correlation_id=question_id, metadata=by)
                if question.when_expired == "APPROVE"
                else RejectTool(correlation_id=question_id, reason="nobody answered in time", metadata=by)
            )
            return _answer(story, said, question, questions.EXPIRED)
    raise IllegalTransitionError(story.status, f"the expiry of {question_id}", [])


def _answer(story: Story, said: Command, question: Question, command_type: str = "") -> Advance:
    waiting = story.suspension
    assert waiting is not None
    answer = questions.record(said, question.id, story.now, command_type)
    story.answers = (*story.answers, answer)
    for pending in story.pending:
        if pending.call.id == question.call_id:
            story.put(questions.answered(pending, said))
    if isinstance(said, UserInput) and isinstance(said.data, str):
        story.say(user(said.data))
    rest = tuple(other for other in waiting.questions if other.id != question.id)
    story.suspension = None
    story.tell(
        EventType.TURN_RESUMED,
        command_type=answer.command_type,
        correlation_id=question.id,
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
