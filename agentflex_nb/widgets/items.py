"""What a panel draws: a turn as a list of items, and what is open. Values only; `view` makes them from events.

Rule: whatever a model or a tool said is bounded here, so that a panel stays small however much they say.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ..core.errors import ErrorSummary
from ..core.frozen import FrozenDict
from ..core.machine import AgentStatus, SuspensionType
from ..core.messages import NO_USAGE, Usage

BLOCK = 60_000  # characters shown of one text
TURN = 240_000  # characters shown of all texts of a turn; those that begin later show less
LEAST = 2_000  # characters that a text shows even then
VALUE = 4_000  # characters shown of one argument
FIELDS = 60  # entries shown of one mapping
GIVEN = 20_000  # characters, as JSON, of arguments that can be changed in a panel
EXACT = 2**53  # whole numbers below it are the same in a browser
ITEMS = 400  # newest items kept

Fields = tuple[tuple[str, str], ...]
"""Names and values as text, in order: arguments, submitted data, metadata."""


class ProseKind(StrEnum):
    """Whose words they are."""

    TEXT = "text"
    REASONING = "reasoning"


class CallState(StrEnum):
    """How far a call is."""

    WRITING = "writing"
    """The model is still writing its arguments."""
    READY = "ready"
    WAITING = "waiting"
    """A person must say something first."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    UNFINISHED = "unfinished"
    """The turn ended before the call did."""


class Level(StrEnum):
    """How much a note matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step began here."""

    key: int
    number: int
    began: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A stretch of the model's text or reasoning."""

    key: int
    kind: ProseKind
    text: str
    """As much of it as is shown, from its start."""
    length: int
    """Characters in all."""
    room: int
    """Characters that may be shown."""
    began: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a running tool last reported."""

    message: str
    percent: float | None = None
    """0 to 100, where the tool says so."""
    fields: Fields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool."""

    key: int
    call_id: str
    name: str
    state: CallState
    arguments: Fields = ()
    raw: str = ""
    """The arguments as the model writes them, or as it wrote them where they are no JSON object."""
    began: datetime | None = None
    ended: datetime | None = None
    progress: Progress | None = None
    result: str = ""
    result_length: int = 0
    """Characters of the whole result."""
    problem: str = ""
    """Why it failed or was denied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question that somebody has answered."""

    key: int
    question_id: str
    about: str
    """The tool or form, or the question itself."""
    command_type: str
    at: datetime
    by: str = ""
    via: str = ""
    reason: str = ""
    outcome: str = ""
    """Of a question that nobody answered in time: REJECT or APPROVE."""
    fields: Fields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something else worth a line."""

    key: int
    level: Level
    text: str
    at: datetime


Item = Step | Prose | Call | Answered | Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An open question."""

    id: str
    type: SuspensionType
    message: str
    asked: int
    """The sequence number of the event that opened it: an answer to an earlier one of the same id is out of date."""
    code: str = ""
    reason: str = ""
    tool_name: str = ""
    call_id: str = ""
    """The call that it is about, if it is about one."""
    arguments: Fields = ()
    given: FrozenDict | None = None
    """The arguments themselves; None where a browser could not give them back as they are."""
    form_key: str = ""
    schema: FrozenDict | None = None
    metadata: Fields = ()
    expires_at: datetime | None = None
    """When it resolves by itself."""
    when_expired: str = ""
    """To what: REJECT or APPROVE."""
    due_at: datetime | None = None
    """When what failed is tried again."""
    failure: Fields = ()
    """How the model failed that is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is drawn of a turn."""

    turn_id: str
    prompt: str = ""
    agent_id: str = ""
    agent_version: str = ""
    status: AgentStatus = AgentStatus.READY
    sequence: int = 0
    """Of the newest event that is in here."""
    step_count: int = 0
    max_steps: int = 0
    items: tuple[Item, ...] = ()
    dropped: int = 0
    """Items that were left out at the front."""
    questions: tuple[Asked, ...] = ()
    usage: Usage = NO_USAGE
    shown: int = 0
    """Characters of text shown in all items."""
    cancelling: bool = False
    error: ErrorSummary | None = None
    at: datetime | None = None
    """When the newest event happened."""
    running_since: datetime | None = None
    ran: timedelta = timedelta()
    """Time spent running before `running_since`; waiting for a person does not count."""
    failing: tuple[tuple[str, int], ...] = ()
    """Listeners that raised, beside the panel, and how often; no event tells of it."""

    @property
    def next_key(self) -> int:
        """The key of the next item: keys count from 0, over what was dropped."""
        return self.dropped + len(self.items)


def brief(value: Any, most: int = VALUE) -> str:
    """JSON data as text of bounded length: text as it stands, anything else as JSON."""
    if isinstance(value, str):
        text = value
    else:
        nested = isinstance(value, Mapping | list | tuple) and len(value) > 0
        text = json.dumps(value, ensure_ascii=False, indent=2 if nested else None)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters in all)"


def fields(data: Mapping[str, Any], most: int = VALUE) -> Fields:
    """A mapping as names and texts, both bounded."""
    shown = [(brief(name, 200), brief(value, most)) for name, value in list(data.items())[:FIELDS]]
    if len(data) > FIELDS:
        shown.append(("…", f"{len(data) - FIELDS:,} more"))
    return tuple(shown)


def exact(data: FrozenDict) -> FrozenDict | None:
    """The data, if it is small enough to be changed in a browser and would come back from there as it is."""
    fits = _is_exact(data) and len(json.dumps(data, ensure_ascii=False)) <= GIVEN
    return data if fits else None


def _is_exact(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_exact, value))
    return not isinstance(value, int) or -EXACT < value < EXACT
