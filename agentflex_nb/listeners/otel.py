"""Turns as OpenTelemetry traces. The library itself is optional: it is loaded when a listener is made."""

from typing import TYPE_CHECKING

from ..core.errors import MissingExtraError
from ..core.events import AgentEvent
from .passage import Passage
from .policy import DisplayPolicy

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class OpenTelemetryListener:
    """Makes spans of what it hears, under the names of OpenTelemetry's conventions for generative AI.

    A turn is one trace, whichever kernels it runs in: its id comes from the root turn's. Each stretch in which the turn
    runs is a span `invoke_agent`, with a span `chat` for each attempt at the model and a span `execute_tool` for each
    run of a tool in it; while the turn waits there is no span. All times are those of the events. The stretches hang
    under a span that stands for the turn itself and is never sent, so a sampler sees them as parts of a trace that
    was sampled elsewhere: choose the turns to be sent by a policy's `sample`.

    Args:
        tracer: Where the spans go; by default that of the provider which the program has set.
        content: Whether the model's replies, and arguments and results of tools, are part of the spans.
        policy: What may be sent; by default everything that `content` allows. The messages of errors are sent unless
            it hides them.

    Raises:
        MissingExtraError: the package opentelemetry-api is not installed.
    """

    def __init__(
        self, tracer: "Tracer | None" = None, *, content: bool = False, policy: DisplayPolicy | None = None
    ) -> None:
        try:
            from .spans import Spans
        except ImportError as error:
            raise MissingExtraError("opentelemetry-api", "otel") from error
        self._spans = Spans(tracer, content=content)
        self._passage = Passage(policy)

    def __call__(self, event: AgentEvent) -> None:
        """Begin, mark or end the spans that the event is about."""
        for shown in self._passage(event):
            self._spans.tell(shown)
