"""What the log says when a call has its result: from a tool here, from outside, or from a person."""

from collections.abc import Mapping

from .errors import ErrorSummary
from .event_data import error_data
from .events import EventType
from .frozen import EMPTY
from .inputs import ToolReturned
from .story import Story
from .turn import PendingCall

_SHOWN = 2_000  # characters of a result that its event carries; the whole stands in the message


def tell_completed(
    story: Story,
    pending: PendingCall,
    content: str,
    type: EventType = EventType.TOOL_COMPLETED,
    more: Mapping[str, str | int] = EMPTY,
) -> None:
    """The call has a result; `more` is what else there is to say of it."""
    story.tell(
        type,
        tool_call_id=pending.call.id,
        tool_name=pending.call.name,
        result=content[:_SHOWN],
        result_chars=len(content),
        **more,
    )


def tell_returned(story: Story, pending: PendingCall, said: ToolReturned) -> None:
    """A tool that ran here has given the result."""
    told: dict[str, str | int] = {"value_type": said.value_type} if said.value_type else {}
    if said.kept is not None:
        told |= {"kept": said.kept.media_type, "kept_bytes": len(said.kept.data)}
    tell_completed(story, pending, said.content, more=told)


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
    tool = story.tool(pending.call.name)
    outside = tool is not None and tool.external
    if pending.failed:
        error = ErrorSummary(kind="ReportedError", message=pending.outcome, code="REPORTED")
        type = EventType.EXTERNAL_TOOL_FAILED if outside else EventType.TOOL_FAILED
        tell_failed(story, pending, error, started=True, type=type)
    else:
        type = EventType.EXTERNAL_TOOL_COMPLETED if outside else EventType.TOOL_COMPLETED
        tell_completed(story, pending, pending.outcome, type)
