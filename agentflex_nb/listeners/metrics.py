"""Counts, durations and tokens, by agent, version, tool and status.

Rule 1: no id is a label, nor is a name that a model made up: what is kept is bounded, however long the process lives.
Rule 2: time is the events' own. Waiting for a person, a retry or work outside is neither tool time nor model time.
"""

import threading
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..core.events import AgentEvent, EventType
from ..core.machine import AgentStatus

SECONDS = tuple(0.01 * 2**n for n in range(24))
"""Upper bounds of buckets for durations: 10 ms, twice that, and so on up to a day."""
TOKENS = tuple(float(4**n) for n in range(14))
"""Upper bounds of buckets for tokens: 1, 4, 16, up to 67 million."""

OTHER = "other"
"""Stands for the labels of what came when there was no room left for more of them."""
UNKNOWN = "unknown"
"""Stands for a tool that is not known to exist: a model may call anything."""

_MOST_TURNS = 10_000  # turns that wait or run at a time; of the oldest beyond, the durations are lost
_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")
_VOUCH = frozenset(
    {EventType.TOOL_STARTED, EventType.TOOL_APPROVAL_REQUESTED, EventType.EXTERNAL_TOOL_REQUESTED}
)  # only a tool that exists gets as far


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One series: a measure under one set of labels. A list of them makes a DataFrame."""

    name: str
    """events, turn_seconds, model_seconds, first_piece_seconds, tool_seconds, waiting_seconds, or input_tokens and
    its sisters."""
    agent_id: str
    agent_version: str
    tool: str
    """"" where no tool is concerned."""
    status: str
    """How it went; of events their type, of waiting the status in which the turn waited."""
    count: int
    total: float
    """Seconds or tokens in all; of events their number."""
    least: float
    most: float
    bounds: tuple[float, ...] = field(repr=False)
    """Upper bounds of the buckets; () for what is only counted."""
    buckets: tuple[int, ...] = field(repr=False)
    """How many fell into each, with one more for what is above the last bound."""

    @property
    def mean(self) -> float:
        """The average."""
        return self.total / self.count

    def quantile(self, share: float) -> float:
        """About the value below which this share lies: exact to the width of its bucket."""
        wanted, below = share * self.count, 0
        for n, inside in enumerate(self.buckets):
            if inside and below + inside >= wanted:
                low = max(self.least, self.bounds[n - 1] if n else self.least)
                high = min(self.most, self.bounds[n] if n < len(self.bounds) else self.most)
                return low + (high - low) * max(0.0, wanted - below) / inside
            below += inside
        return self.most


Labels = tuple[str, str, str, str, str]
"""Name, agent id, agent version, tool, status."""


class _Series:
    __slots__ = ("bounds", "buckets", "count", "least", "most", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.buckets = bounds, [0] * (len(bounds) + 1 if bounds else 0)
        self.count, self.total, self.least, self.most = 0, 0.0, float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)
        if self.bounds:
            self.buckets[bisect_left(self.bounds, value)] += 1


@dataclass(slots=True)
class _Going:
    """What goes on in a turn that has not ended."""

    runs_since: datetime | None = None
    ran: timedelta = timedelta()
    waits: tuple[str, datetime] | None = None
    """The status in which it waits, and since when."""
    model_since: datetime | None = None
    tools_since: dict[str, datetime] = field(default_factory=dict)


class MetricsListener:
    """Measures what it hears; add it to a runner or a lab, and read `snapshot()`.

    It knows only what happened while it listened: of a turn that began elsewhere, the part that it heard.

    Args:
        most_series: How many sets of labels are kept apart; what comes beyond is measured under "other".
    """

    def __init__(self, *, most_series: int = 2_000) -> None:
        self._most_series = most_series
        self._lock = threading.Lock()
        self._series: dict[Labels, _Series] = {}
        self._turns: dict[str, _Going] = {}
        self._tools: set[str] = set()

    def __call__(self, event: AgentEvent) -> None:
        """Measure the event."""
        with self._lock:
            tool = self._tool(event)
            self._add("events", event, 1, (), tool, event.type.value)
            going = self._turns.setdefault(event.turn_id, _Going())
            match event.type:
                case EventType.MODEL_STARTED:
                    going.model_since = event.occurred_at
                case EventType.MODEL_COMPLETED | EventType.MODEL_FAILED:
                    self._model_ended(going, event)
                case EventType.TOOL_STARTED:
                    going.tools_since[event.data["tool_call_id"]] = event.occurred_at
                case EventType.TOOL_COMPLETED | EventType.TOOL_FAILED | EventType.TOOL_INTERRUPTED:
                    if since := going.tools_since.pop(event.data["tool_call_id"], None):
                        self._took("tool_seconds", event, since, tool, event.type.removeprefix("TOOL_"))
                case _:
                    pass
            self._follow(going, event)

    def snapshot(self) -> list[Metric]:
        """Everything measured so far, by name and labels."""
        with self._lock:
            return [_metric(labels, series) for labels, series in sorted(self._series.items())]

    def _model_ended(self, going: _Going, event: AgentEvent) -> None:
        status = event.type.removeprefix("MODEL_")
        if since := going.model_since:
            self._took("model_seconds", event, since, "", status)
            if first := event.data.get("first_delta_at"):
                waited = datetime.fromisoformat(first) - since
                self._add("first_piece_seconds", event, waited.total_seconds(), SECONDS, "", status)
        going.model_since = None
        for name in _COUNTS:
            if (tokens := event.data["usage"].get(name)) is not None:
                self._add(name, event, tokens, TOKENS, "", status)

    def _follow(self, going: _Going, event: AgentEvent) -> None:
        """The turn's own time: how long it runs, and how long it waits for what."""
        status, now = AgentStatus(event.data["status"]), event.occurred_at
        if status is AgentStatus.RUNNING:
            going.runs_since = going.runs_since or now
        else:  # what was at work is so no more, though nobody may have said so
            going.ran += now - (going.runs_since or now)
            going.runs_since = going.model_since = None
            going.tools_since.clear()
        if going.waits and going.waits[0] != status:
            self._took("waiting_seconds", event, going.waits[1], "", going.waits[0])
            going.waits = None
        if status.is_blocked and going.waits is None:
            going.waits = status.value, now
        if status.is_terminal:
            self._add("turn_seconds", event, going.ran.total_seconds(), SECONDS, "", status.value)
            del self._turns[event.turn_id]
        elif len(self._turns) > _MOST_TURNS:
            del self._turns[next(iter(self._turns))]

    def _tool(self, event: AgentEvent) -> str:
        name: str = event.data.get("tool_name") or ""
        if not name or name in self._tools:
            return name
        if event.type not in _VOUCH:
            return UNKNOWN
        if len(self._tools) >= self._most_series:
            return OTHER
        self._tools.add(name)
        return name

    def _took(self, name: str, event: AgentEvent, since: datetime, tool: str, status: str) -> None:
        self._add(name, event, (event.occurred_at - since).total_seconds(), SECONDS, tool, status)

    def _add(
        self, name: str, event: AgentEvent, value: float, bounds: tuple[float, ...], tool: str, status: str
    ) -> None:
        labels: Labels = (name, event.agent_id, event.agent_version, tool, status)
        if labels not in self._series and len(self._series) >= self._most_series:
            labels = (name, OTHER, OTHER, OTHER if tool else "", status)
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(bounds)
        series.add(value)


def _metric(labels: Labels, series: _Series) -> Metric:
    name, agent_id, agent_version, tool, status = labels
    return Metric(
        name=name,
        agent_id=agent_id,
        agent_version=agent_version,
        tool=tool,
        status=status,
        count=series.count,
        total=series.total,
        least=series.least,
        most=series.most,
        bounds=series.bounds,
        buckets=tuple(series.buckets),
    )
