"""A step: at most one model call, and the tool calls it led to. Here steps open, end, and turn into a wait."""

from .budget import overspent
from .effects import CallModel, OfferTools
from .ending import cancelled, exceeded, limited, reached_limit, taken_over
from .event_data import question_data
from .events import EventType
from .machine import AgentPhase, SuspensionType
from .messages import system
from .model import ModelRequest, ToolSpec
from .story import Advance, Story
from .turn import AgentSuspension, Question


def open_step(story: Story) -> None:
    """Begin the next step, unless one is open: then a process ended in the middle of it."""
    if not story.step_open:
        story.step_count += 1
        story.step_open = True
        story.tell(EventType.STEP_STARTED, step=story.step_count)


def end_step(story: Story) -> Advance:
    """The step is done: wait for what was asked, end at a limit, or stand ready for the next one."""
    story.phase = AgentPhase.MODEL
    story.save()
    story.step_open = False
    story.tell(EventType.STEP_COMPLETED, step=story.step_count)
    if story.cancel:
        return cancelled(story)
    if story.interrupt:
        return taken_over(story)
    if story.asked:
        return wait_for_text(story)
    if spent := overspent(story):
        return exceeded(story, spent)
    if limit := reached_limit(story):
        return limited(story, *limit)
    return story.end()


def tell_model_started(story: Story) -> None:
    """A call of the model begins: which round and attempt it is, and how many rounds are left after it."""
    iteration, most = story.iteration_count + 1, story.identity.policy.max_iterations
    story.tell(
        EventType.MODEL_STARTED,
        iteration=iteration,
        remaining_iterations=most - iteration if most else None,
        attempt=story.attempt,
        model=story.definition.model_name,
    )


def ask_model(story: Story) -> Advance:
    """Call the model, once the agent's code has said which tools it is offered, if that is for code to say."""
    tell_model_started(story)
    return story.end(OfferTools()) if story.definition.dynamic else call_model(story)


def call_model(story: Story, hidden: frozenset[str] = frozenset()) -> Advance:
    """Call the model with everything said so far."""
    identity, definition = story.identity, story.definition
    spoken = (system(identity.instructions), *story.messages) if identity.instructions else story.messages
    return story.end(
        CallModel(
            ModelRequest(
                turn_id=identity.id,
                conversation_id=identity.conversation_id,
                step=story.step_count,
                iteration=story.iteration_count + 1,
                attempt=story.attempt,
                messages=spoken,
                tools=_offered(story, hidden),
                options=definition.model_options,
                streaming=identity.streaming,
            )
        )
    )


def _offered(story: Story, hidden: frozenset[str]) -> tuple[ToolSpec, ...]:
    offered = story.definition.offered
    if not hidden and not story.resolved:
        return offered
    shown = [spec for spec in offered if spec.name not in hidden]
    return (*shown, *[tool.spec for tool in story.resolved])


def wait_for(story: Story, suspension: AgentSuspension) -> Advance:
    """Suspend: nothing goes on until the questions are answered."""
    story.suspension = suspension
    story.save()
    if story.step_open:
        story.step_open = False
        story.tell(EventType.STEP_COMPLETED, step=story.step_count)
    tell_suspended(story, suspension)
    return story.end()


def wait_for_text(story: Story) -> Advance:
    """Suspend for the plain question that was asked while a step ran."""
    asked, story.asked = story.asked, None
    assert asked is not None
    question = Question(
        id=asked.correlation_id, type=SuspensionType.USER_INPUT, message=asked.message, metadata=asked.metadata
    )
    story.phase = AgentPhase.MODEL
    return wait_for(story, AgentSuspension(questions=(question,), resume_phase=story.phase, metadata=asked.metadata))


def tell_suspended(story: Story, suspension: AgentSuspension) -> None:
    """Say what is waited for, with everything that is needed to answer."""
    story.tell(
        EventType.TURN_SUSPENDED,
        suspension.type,
        suspension_type=suspension.type.value,
        correlation_id=suspension.correlation_id,
        message=suspension.message,
        resume_phase=suspension.resume_phase.value,
        metadata=suspension.metadata,
        next_runnable_at=suspension.due_at.isoformat() if suspension.due_at else None,
        questions=tuple(question_data(question) for question in suspension.questions),
    )
