"""What must be done in the world before a turn can go on. The runner performs it, and says what came back."""

from dataclasses import dataclass

from .frozen import FrozenDict
from .messages import ToolCall
from .model import ModelRequest


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. Answered by `Streamed` pieces, then `ModelReplied` or `ModelFailed`."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class OfferTools:
    """Ask the agent's own code which tools the model is offered now. Answered by `ToolsOffered` or `ModelFailed`."""


@dataclass(frozen=True, slots=True)
class CheckCalls:
    """Ask the agent's own code about these calls. Answered by `CallsChecked` or `CheckFailed`."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a tool. Answered by `ToolReturned`, `ToolFailed` or `ToolAsked`, with `ToolProgressed` between.

    `form_data` is what a person submitted for a form that this call asked for; None when it asked for none.
    """

    call: ToolCall
    form_data: FrozenDict | None = None


Effect = OfferTools | CallModel | CheckCalls | RunTool
