"""What the log says when a call has its result: from a tool here, from outside, or from a person."""

from .errors import ErrorSummary
from .event_data import error_data
from .events import EventType
from .story import Story
from .turn import PendingCall

_SHOWN = 2_000  # characters of a result that its event carries; the whole stands in the message


def tell_completed(
    story: Story, pending: PendingCall, content: str, type: EventType = EventType.TOOL_COMPLETED
) -> None:
    """The call has a result."""
    story.tell(
        type,
        tool_call_id=pending.call.id,
        tool_name=pending.call.name,
        result=content[:_SHOWN],
        result_chars=len(content),
    )


def tell_failed(
    story: Story,
    pending: PendingCall,
    error: ErrorSummary,
    *,
    started: bool,
    retries: bool = False,
    type: EventType = EventType.TOOL_FAILED,
) -> None:
    """The call has failed; with `retries` it will be tried again."""
    call = pending.call
    story.tell(
        type, tool_call_id=call.id, tool_name=call.name, error=error_data(error), started=started, retries=retries
    )


def tell_supplied(story: Story, pending: PendingCall) -> None:
    """The result came from a person or from outside, and was not told before; does nothing for another call."""
    if pending.outcome is None or pending.content is not None:
        return
    tool = story.definition.tool_by_name.get(pending.call.name)
    outside = tool is not None and tool.external
    if pending.failed:
        error = ErrorSummary(kind="ReportedError", message=pending.outcome, code="REPORTED")
        type = EventType.EXTERNAL_TOOL_FAILED if outside else EventType.TOOL_FAILED
        tell_failed(story, pending, error, started=True, type=type)
    else:
        type = EventType.EXTERNAL_TOOL_COMPLETED if outside else EventType.TOOL_COMPLETED
        tell_completed(story, pending, pending.outcome, type)
