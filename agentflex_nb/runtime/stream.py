"""From the pieces in which a model answers to one reply.

Rule 1: a reply is assembled here and nowhere else, the same way whether it came streamed or whole.
Rule 2: what is shown piece by piece is, put together, exactly the text of the reply.
Rule 3: nothing is repaired. Arguments are one JSON object, or they are kept as the model wrote them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from ..core.errors import EmptyReplyError, InvalidValueError, ModelError, TruncatedStreamError
from ..core.frozen import EMPTY, FrozenDict, freeze, freeze_strict, well_formed
from ..core.inputs import DeltaKind, ModelReplied, Streamed
from ..core.messages import NO_USAGE, ToolCall, Usage, assistant
from ..core.model import Finish, ModelDelta, ReasoningDelta, TextDelta, ToolCallDelta, UsageDelta

_NOTHING: tuple[Streamed, ...] = ()
_MOST = 2**63  # a count beyond this fits no integer column, and no model


class ReplyAssembler:
    """Folds the deltas of one model call into its reply.

    It belongs to the thread that reads the stream. After the first `Finish` only usage is heard: some providers count
    the tokens after they have finished, and nothing that follows an end belongs to the answer.
    """

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._text, self._reasoning, self._calls = _Text(), _Text(), _Calls()
        self._finish: Finish | None = None
        self._counts: dict[str, int] = {}
        self.first_delta_at: datetime | None = None
        """When the first text, reasoning or piece of a call came."""

    @property
    def usage(self) -> Usage:
        """The tokens known so far; also of a call that fails."""
        return Usage(**self._counts) if self._counts else NO_USAGE

    def feed(self, delta: ModelDelta) -> tuple[Streamed, ...]:
        """Take one delta; what can be shown of it now.

        Raises:
            ModelError: this is no delta.
        """
        if self._finish is not None and not isinstance(delta, UsageDelta):
            return _NOTHING
        if isinstance(delta, TextDelta):
            return self._said(DeltaKind.TEXT, self._text, delta.text)
        if isinstance(delta, ReasoningDelta):
            return self._said(DeltaKind.REASONING, self._reasoning, delta.text)
        if isinstance(delta, ToolCallDelta):
            self.first_delta_at = self.first_delta_at or self._now()
            return (self._calls.add(delta),)
        if isinstance(delta, UsageDelta):
            self._count(delta.usage)
        elif isinstance(delta, Finish):
            self._finish = delta
        else:
            raise ModelError(
                f"the model yielded {type(delta).__name__}: expected TextDelta, ReasoningDelta, ToolCallDelta, "
                "UsageDelta or Finish; wrap what it says in one of these."
            )
        return _NOTHING

    def rest(self) -> tuple[Streamed, ...]:
        """When the stream has ended: what can be shown yet, the half of an emoji whose other half never came."""
        tails = ((DeltaKind.REASONING, self._reasoning.end()), (DeltaKind.TEXT, self._text.end()))
        return (*[Streamed(kind, tail) for kind, tail in tails if tail], *self._calls.end())

    def finish(self) -> ModelReplied:
        """The reply, when the stream has ended.

        Raises:
            EmptyReplyError: nothing came at all.
            TruncatedStreamError: something came, but no `Finish`.
        """
        end = self._finish
        if end is None and self.first_delta_at is None:
            raise EmptyReplyError("the model returned nothing: no text, no call, no finish. Ask again.")
        if end is None:
            raise TruncatedStreamError(
                f"the model's stream ended without a finish, after {self._text.length} characters of text and "
                f"{len(self._calls)} tool calls: the connection was cut, ask again."
            )
        message = assistant(
            self._text.whole,
            reasoning=self._reasoning.whole,
            tool_calls=self._calls.whole(),
            provider_data=freeze(end.provider_data) if isinstance(end.provider_data, Mapping) else EMPTY,
        )
        return ModelReplied(
            message=message,
            usage=self.usage,
            finish_reason=_word(end.reason),
            model=_word(end.model),
            response_id=_word(end.response_id),
            first_delta_at=self.first_delta_at,
        )

    def _said(self, kind: DeltaKind, text: "_Text", piece: str | None) -> tuple[Streamed, ...]:
        if not piece:
            return _NOTHING
        if self.first_delta_at is None:
            self.first_delta_at = self._now()
        shown = text.add(piece)
        return (Streamed(kind, shown),) if shown else _NOTHING

    def _count(self, usage: Usage) -> None:
        for name in _COUNTS:
            count = _known(getattr(usage, name))
            if count is not None:
                self._counts[name] = count


_COUNTS = tuple(field.name for field in fields(Usage))


def _known(count: Any) -> int | None:
    """A number of tokens, or None for what cannot be one: absent, negative, no number. Unknown is not zero."""
    if isinstance(count, bool) or count is None:
        return None
    try:
        number = int(count)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < _MOST else None


def _word(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


class _Text:
    """Text that arrives in pieces, well formed as far as it is shown.

    Half an emoji at the end of a piece (a high surrogate) waits for its other half.
    """

    __slots__ = ("_half", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._half = ""

    def add(self, text: str) -> str:
        """The part of the text that can be shown now."""
        if text and (self._half or not text.isascii()):
            text, self._half = self._half + text, ""
            if "\ud800" <= text[-1] <= "\udbff":
                text, self._half = text[:-1], text[-1]
            text = well_formed(text)
        self._parts.append(text)
        return text

    def end(self) -> str:
        """What still waited for its other half."""
        half, self._half = well_formed(self._half), ""
        if half:
            self._parts.append(half)
        return half

    @property
    def whole(self) -> str:
        return "".join(self._parts) + well_formed(self._half)

    @property
    def length(self) -> int:
        return sum(map(len, self._parts))


# -- tool calls --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """A call of which pieces have come. `place` is unique in the reply and orders the calls."""

    place: int
    id: str = ""
    name: str = ""
    arguments: _Text = field(default_factory=_Text)

    def take_name(self, piece: str) -> None:
        """A name may come whole, whole again with every piece, grown by and by ("get_", "get_weather"), or cut in two
        ("get_", "weather"): what begins with the name so far replaces it, anything else is appended."""
        self.name = piece if piece.startswith(self.name) else self.name + piece

    def take_id(self, piece: str) -> None:
        """The first id stands: some servers invent another one for every piece."""
        self.id = self.id or piece

    @property
    def is_nothing(self) -> bool:
        return not self.name and not self.arguments.whole.strip()


class _Calls:
    """The calls of one reply, by index where the provider gives one, in any order and with gaps."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._last: _Call | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, delta: ToolCallDelta) -> Streamed:
        call = self._last = self._belongs_to(delta)
        if delta.id:
            call.take_id(delta.id)
        if delta.name:
            call.take_name(delta.name)
        return _shown(call, call.arguments.add(delta.arguments or ""))

    def end(self) -> list[Streamed]:
        return [_shown(call, tail) for call in self._calls if (tail := call.arguments.end())]

    def whole(self) -> tuple[ToolCall, ...]:
        ordered = sorted(self._calls, key=lambda call: call.place)
        return tuple([_tool_call(call) for call in ordered if not call.is_nothing])

    def _belongs_to(self, delta: ToolCallDelta) -> _Call:
        known = self._last if delta.index is None else self._at.get(delta.index)
        if known is None or _opens_another(known, delta):
            return self._open(delta.index)
        return known

    def _open(self, index: int | None) -> _Call:
        taken = {call.place for call in self._calls}
        free = index is not None and index not in taken
        call = _Call(index if free and index is not None else max(taken, default=-1) + 1)
        self._calls.append(call)
        self._at[call.place if index is None else index] = call
        return call


def _opens_another(call: _Call, delta: ToolCallDelta) -> bool:
    """Whether a piece in the place of this call begins the next one: there are servers that give no index, and
    servers that give index 0 to every call. It does when this call is complete and the piece has another id, or a
    name and no index; or when it has another id and another name before any arguments came."""
    arguments = call.arguments.whole
    if delta.id and call.id and delta.id != call.id:
        if arguments.strip():
            return parse_arguments(arguments)[1] is None
        return bool(delta.name) and delta.name != call.name
    if delta.index is None and delta.name:
        return bool(arguments.strip()) and parse_arguments(arguments)[1] is None
    return False


def _shown(call: _Call, piece: str) -> Streamed:
    """A piece of a call as it is shown: the arguments' text, with the place and the name as far as they are known."""
    return Streamed(DeltaKind.TOOL_CALL, piece, FrozenDict(index=call.place, name=well_formed(call.name)))


def _tool_call(call: _Call) -> ToolCall:
    arguments, malformed = parse_arguments(call.arguments.whole)
    return ToolCall(
        id="",  # the turn mints it
        name=well_formed(call.name),
        arguments=arguments,
        malformed=malformed,
        provider_id=well_formed(call.id),
    )


def parse_arguments(raw: str | None) -> tuple[FrozenDict, str | None]:
    """The arguments of a call, and None; or nothing, and the text as it was written when it is not one JSON object.

    No text, or only space, is a call without arguments. Refused, because two readers could understand them in two
    ways: keys that come twice, NaN and Infinity, anything before or after the object (a byte order mark, a code
    fence, a second object), line breaks within a text.
    """
    if raw is None or not raw or raw.isspace():
        return EMPTY, None
    try:
        parsed = json.loads(raw, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        if isinstance(parsed, dict):
            return freeze_strict(parsed, "arguments"), None
    except (ValueError, RecursionError, InvalidValueError):  # ValueError: also a whole number of thousands of digits
        pass
    return EMPTY, well_formed(raw)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        raise ValueError("a key comes twice")
    return parsed


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


# -- the text beat -----------------------------------------------------------------------------------------------------


class TextBeat:
    """Joins pieces of one kind that arrive within a beat, so that a fast model makes no more events than an eye sees.

    A piece of another kind (or of another tool call) lets go of what is held, and so does the end of the beat. A beat
    of 0 lets every piece through. Times are seconds of a monotonic clock and come from the caller, who also sees to it
    that only one thread at a time is in here.
    """

    def __init__(self, seconds: float = 0.04) -> None:
        self._seconds = seconds
        self._held: list[Streamed] = []
        self.ends_at: float | None = None
        """When what is held must go; None while nothing is held."""

    def add(self, piece: Streamed, now: float) -> tuple[Streamed, ...]:
        """Take a piece; what must be shown now, in order."""
        if self._seconds <= 0:
            return (piece,)
        held = self._held
        if held and self.ends_at is not None and now < self.ends_at and _go_together(held[-1], piece):
            held.append(piece)
            return _NOTHING
        gone = self.flush()
        self._held.append(piece)
        self.ends_at = now + self._seconds
        return gone

    def due(self, now: float) -> tuple[Streamed, ...]:
        """What is held, if its beat is over: for a timer, while the model is silent."""
        return self.flush() if self.ends_at is not None and now >= self.ends_at else _NOTHING

    def flush(self) -> tuple[Streamed, ...]:
        """What is held, joined, whatever the time."""
        held = self._held
        if not held:
            return _NOTHING
        self._held, self.ends_at = [], None
        if len(held) == 1:
            return (held[0],)
        return (Streamed(held[0].kind, "".join([piece.content for piece in held]), held[0].data),)


def _go_together(a: Streamed, b: Streamed) -> bool:
    return a.kind is b.kind and (a.data is b.data or a.data == b.data)
