"""What may leave: before an event, a message or a row is shown, exported or forwarded, a policy has its say.

Rule 1: in doubt it hides. A redactor that raises shows nothing of its text, a predicate that raises shows no turn; and
neither is logged, because the error may quote what was to be hidden.
Rule 2: what others find their way by (ids, statuses, times, schemas of forms) stays; every other text is looked at.
The record itself stays whole: nothing here writes to a store.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any

from ..core.deltas import DELTAS
from ..core.errors import InvalidValueError
from ..core.events import AgentEvent, EventType
from ..core.frozen import EMPTY, FrozenDict, freeze, well_formed
from ..core.messages import Message, Origin, ToolCall

HIDDEN = "[hidden]"
"""Stands where something may not be seen."""

ALTERED = "altered"
"""In a question: its arguments are not those of the call, and must not be sent back as if they were."""

Redactor = str | re.Pattern[str] | Callable[[str], str]
"""A pattern whose matches are hidden, or a function that returns the text as it may be seen."""

_EDGE = 200  # characters left away where a result was cut before a policy saw it: half a secret may stand there

_ALWAYS = frozenset({"status", "phase", "step_count", "max_steps", "tool_call_id"})
_PROGRESS = _ALWAYS | {"tool_name", "message"}
_PLACES = _ALWAYS | {
    "attempt", "command_type", "correlation_id", "expires_at", "first_delta_at", "form_key", "idempotency_key", "key",
    "next_runnable_at", "resolved", "resume_phase", "suspension_type", "usage",
}  # fmt: skip
# data that is a list of records -> what in them others find their way by
_RECORDS = {
    "questions": frozenset({"id", "type", "call_id", "code", "expires_at", "form_key", "schema", "when_expired"}),
    "tool_calls": frozenset({"id"}),
}
_KINDS = frozenset({"kind", "code", "type"})  # of an error: no words of anybody's
_TRACES = frozenset({"provider_code", "provider_error_code", "request_id"})  # of an error, beside its message
_TELL_OF_ERRORS = frozenset({"RETRY", "MODEL"})  # questions whose message quotes what failed


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayPolicy:
    """Who may see how much, wherever data leaves the record: the panel, a log, a trace, an export.

    A policy that redacts or bounds must see a text whole: what a model streams is then shown block by block.

    Raises:
        InvalidValueError: a pattern that cannot be read, a sample outside 0 to 1, a bound below 1.
    """

    redact: Sequence[Redactor] = ()
    """Patterns, as text or compiled, and functions of a text, in order. They see every text and every number that a
    model, a tool or a person supplied, however deep it is nested, names of fields included."""
    max_chars: int | None = None
    """How much of one text is shown."""
    sample: float = 1.0
    """The share of turns that is shown; which ones depends on their ids alone, so every place shows the same ones."""
    reasoning: bool = True
    """Whether the model's reasoning is shown."""
    errors: bool = True
    """Whether the words of errors are shown; their kind always is."""
    viewer: str = ""
    """Who looks; handed to `may_see`."""
    may_see: Callable[[str, str], bool] | None = None
    """Whether this viewer may see this turn: a function of both names, asked at each event."""

    def __post_init__(self) -> None:
        if not 0 <= self.sample <= 1:
            raise InvalidValueError("sample", self.sample, "a share from 0 to 1", f"{self.sample!r} is none")
        if self.max_chars is not None and self.max_chars < 1:
            raise InvalidValueError("max_chars", self.max_chars, "at least 1", "leave it out to show all")
        alone = isinstance(self.redact, str | re.Pattern) or callable(self.redact)
        object.__setattr__(self, "redact", (self.redact,) if alone else tuple(self.redact))
        for redactor in self.redact:
            _check(redactor)

    @property
    def holds_back(self) -> bool:
        """Whether a text must be whole before any of it may be seen: half a secret passes every pattern."""
        return bool(self.redact) or self.max_chars is not None

    def shows(self, turn_id: str) -> bool:
        """Whether anything of this turn may be seen."""
        if self.sample < 1 and _share(turn_id) >= self.sample:
            return False
        try:
            return self.may_see is None or bool(self.may_see(self.viewer, turn_id))
        except Exception:  # rule 1
            return False

    def text(self, text: str) -> str:
        """The text as it may be seen."""
        try:
            for redactor in self.redact:
                if isinstance(redactor, str | re.Pattern):
                    text = re.sub(redactor, HIDDEN, text)
                else:
                    text = well_formed(redactor(text))
        except Exception:  # rule 1
            return HIDDEN
        if self.max_chars is None or len(text) <= self.max_chars:
            return text
        return f"{text[: self.max_chars]}… ({len(text):,} characters in all)"

    def apply(self, event: AgentEvent, *, whole: bool = False) -> AgentEvent | None:
        """The event as it may be seen; None if it may not.

        A piece of streamed text may not, where texts must be `whole`: `filtered` joins the pieces.
        """
        if not self.shows(event.turn_id) or not self._shows_type(event.type, whole):
            return None
        if not self.holds_back and self.errors:
            return event
        return replace(event, data=self._event_data(event.type, event.data))

    def message(self, message: Message) -> Message:
        """A message as it may be seen, whatever its class. What a provider added to it is left out."""
        shown = {field.name: self._message_part(field.name, getattr(message, field.name)) for field in fields(message)}
        if message.origin is Origin.RUNTIME and not self.errors:
            shown["content"] = HIDDEN
        return replace(message, **shown)

    def row(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """A row of a lab's tables, as a mapping of its columns, as it may be seen; None if it may not."""
        type = row["type"] if row.get("type") in EventType.__members__ else None
        if not self.shows(str(row.get("turn_id", ""))) or (type and not self._shows_type(EventType(type), False)):
            return None
        return {name: HIDDEN if self._hides(name, row) else self._cell(name, row[name], type) for name in row}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _shows_type(self, type: EventType, whole: bool) -> bool:
        if type is EventType.MODEL_REASONING_DELTA and not self.reasoning:
            return False
        return whole or not self.holds_back or type not in DELTAS

    def _event_data(self, type: EventType, data: Mapping[str, Any]) -> FrozenDict:
        if type is EventType.TOOL_PROGRESS:  # beside what every such event has, the fields are the tool's own
            own = {name: value for name, value in data.items() if name not in _PROGRESS}
            ours = {
                name: value if name in _ALWAYS else self._own(value) for name, value in data.items() if name not in own
            }
            return FrozenDict({**self._own(own), **ours})
        shown = {name: value if name in _PLACES else self._part(name, value) for name, value in data.items()}
        if isinstance(data.get("error"), Mapping):
            shown["error"] = self._error(data["error"])
        if data.get("suspension_type") == "MODEL":
            shown["metadata"] = FrozenDict({name: self._error(failure) for name, failure in data["metadata"].items()})
        if not self.errors and data.get("suspension_type") in _TELL_OF_ERRORS:
            shown["message"] = HIDDEN
        if self.redact and data.get("result_chars", 0) > len(data.get("result", "")):
            shown["result"] = self.text(data["result"][:-_EDGE])
        return FrozenDict(shown)

    def _part(self, name: str, value: Any) -> Any:
        if name in _RECORDS and isinstance(value, Sequence):
            return tuple([self._record(record, _RECORDS[name]) for record in value])
        return self._own(value) if isinstance(value, Mapping | Sequence) else value

    def _record(self, record: Mapping[str, Any], kept: frozenset[str]) -> FrozenDict:
        shown = {name: value if name in kept else self._part(name, value) for name, value in record.items()}
        if not self.errors and record.get("type") in _TELL_OF_ERRORS:
            shown["message"] = HIDDEN
        if shown.get("arguments") != record.get("arguments"):
            shown[ALTERED] = True
        return FrozenDict(shown)

    def _error(self, error: Mapping[str, Any]) -> FrozenDict:
        shown = {
            name: self.text(value) if isinstance(value, str) and name not in _KINDS else value
            for name, value in error.items()
        }
        if not self.errors:
            shown |= dict.fromkeys(_TRACES & shown.keys(), "") | {"message": HIDDEN}
        return FrozenDict(shown)

    def _own(self, value: Any) -> Any:
        """Data of the model's, a tool's or a person's own: nothing in it is known."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return FrozenDict({self.text(name): self._own(part) for name, part in value.items()})
        if isinstance(value, Sequence):
            return tuple([self._own(part) for part in value])
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if self.text(written := str(value)) == written else self.text(written)
        return value

    def _message_part(self, name: str, value: Any) -> Any:
        if name in ("role", "origin", "tool_call_id"):
            return value
        if name == "reasoning" and not self.reasoning:
            return ""
        if name == "provider_data":
            return EMPTY
        if name == "tool_calls":
            return tuple([self._call(call) for call in value])
        return self._own(value)

    def _call(self, call: ToolCall) -> ToolCall:
        arguments: FrozenDict = self._own(call.arguments)
        malformed = None if call.malformed is None else self.text(call.malformed)
        return replace(call, name=self.text(call.name), arguments=arguments, malformed=malformed, provider_data=EMPTY)

    def _hides(self, column: str, row: Mapping[str, Any]) -> bool:
        match column:
            case _ if not isinstance(row[column], str):
                return False
            case "reasoning":
                return not self.reasoning
            case "error_message":
                return not self.errors
            case "message":
                return not self.errors and row.get("type") in _TELL_OF_ERRORS
            case "content":
                return not self.errors and row.get("origin") == Origin.RUNTIME
            case _:
                return False

    def _cell(self, name: str, value: Any, type: str | None) -> Any:
        if not isinstance(value, str) or name.endswith("_id") or name in ("type", "status", "phase", "agent_version"):
            return value
        if value[:1] in ("{", "["):
            try:
                parsed = freeze(json.loads(value))
            except (ValueError, RecursionError):
                return self.text(value)
            shown = self._event_data(EventType(type), parsed) if name == "data" and type else self._own(parsed)
            return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        return self.text(value)


def _check(redactor: object) -> None:
    if callable(redactor) or isinstance(redactor, re.Pattern):
        return
    if not isinstance(redactor, str):
        raise InvalidValueError("redact", redactor, "a pattern or a function of a text", "pass one of them")
    try:
        re.compile(redactor)
    except re.error as error:
        raise InvalidValueError("redact", redactor, f"a regular expression ({error})", "correct it") from error


def _share(turn_id: str) -> float:
    """A number from 0 to below 1, the same for this id everywhere and always."""
    return int.from_bytes(blake2b(turn_id.encode(), digest_size=7).digest()) / 2**56
