"""Ready listeners: what happens in turns, as log records, as metrics, as traces; and what of it may be seen."""

from .log import JsonLines, LogListener
from .metrics import Metric, MetricsListener
from .otel import OpenTelemetryListener
from .passage import Passage, filtered
from .policy import HIDDEN, DisplayPolicy

__all__ = [
    "HIDDEN",
    "DisplayPolicy",
    "JsonLines",
    "LogListener",
    "Metric",
    "MetricsListener",
    "OpenTelemetryListener",
    "Passage",
    "filtered",
]
