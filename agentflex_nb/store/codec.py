"""Turns, messages and events as JSON text, and back: exact, compact, and refused as a whole where not understood.

Rule 1: text of a newer format, or with a field or a word that this version does not know, is refused, never half read.
Rule 2: a turn's messages and instructions are not in its state. They are written once, under the hash of their text.
Rule 3: a message's class is the core's, or one that was registered under a name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..core.errors import InvalidValueError, NewerFormatError, StoreDamagedError, StoreError
from ..core.events import AgentEvent
from ..core.messages import Message, system
from ..core.turn import Answer, Turn
from .shapes import Shape, microseconds, shape_of
from .upgrades import FORMAT, upgraded

_HASH_BYTES = 16
_STATE = shape_of(Turn).without("messages")


class Body(NamedTuple):
    """A message as it is kept: its text, and the hash under which it is kept once."""

    hash: str
    text: str


class EncodedTurn(NamedTuple):
    """A turn as it is kept: its state, without messages, and the instructions that the state names."""

    state: str
    instructions: Body | None


# -- turns -------------------------------------------------------------------------------------------------------------


def encode_turn(turn: Turn) -> EncodedTurn:
    """The state of a turn as text. Its messages are encoded apart (`encode_message`), and its instructions too.

    Raises:
        StoreError: something in it is not JSON.
    """
    state = _encoded(_STATE, turn, f"turn {turn.id}")
    instructions = _instructions(turn.identity.instructions) if turn.identity.instructions else None
    if instructions:
        state["identity"]["instructions"] = instructions.hash
    return EncodedTurn(_text({"format": FORMAT, **state}, f"turn {turn.id}"), instructions)


@lru_cache(maxsize=64)
def _instructions(text: str) -> Body:
    return encode_message(system(text))


def decode_turn(state: str, messages: Sequence[Message], body: Callable[[str], str | None]) -> Turn:
    """The turn of a state and its messages; `body` finds the text of the instructions by their hash.

    Raises:
        NewerFormatError: a newer version of this package wrote it.
        StoreDamagedError: it is not the state of a turn, or `body` has no instructions.
    """
    data = _parsed(state, dict, "the state of a turn")
    found = data.pop("format", None)
    if not isinstance(found, int) or found < 1:
        raise StoreDamagedError("the state of a turn", f"its format is {found!r}", _MEND)
    if found > FORMAT:
        raise NewerFormatError("the state of a turn", found, FORMAT)
    turn: Turn = _decoded(_STATE, upgraded(data, found), "the state of a turn")
    if turn.identity.instructions:
        text = body(turn.identity.instructions)
        if text is None:
            raise StoreDamagedError("the state of a turn", f"the instructions of turn {turn.id} are missing", _MEND)
        turn = replace(turn, identity=replace(turn.identity, instructions=decode_message(text).content))
    return replace(turn, messages=tuple(messages))


# -- messages ----------------------------------------------------------------------------------------------------------

_kinds: dict[str, type[Message]] = {}


def register_message(kind: str, cls: type[Message]) -> type[Message]:
    """Make a subclass of Message survive saving, under a name that must stay the same from now on.

    The class is a frozen dataclass. Its fields are text, numbers, flags, times, enums, `FrozenDict`, or tuples of them.
    Registering the same class again, as a cell that runs twice does, replaces it.

    Raises:
        InvalidValueError: the name belongs to another class, or a field has a type that cannot be kept.
    """
    known = _kinds.get(kind)
    if not kind or (known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)):
        raise InvalidValueError(f"message kind {kind!r}", known, "a name of its own", "choose another name")
    if not (isinstance(cls, type) and issubclass(cls, Message) and cls is not Message):
        raise InvalidValueError(f"message kind {kind!r}", cls, "a subclass of Message", "derive it from Message")
    shape_of(cls)
    _kinds[kind] = cls
    return cls


def encode_message(message: Message) -> Body:
    """A message as text, and the hash of that text. Equal texts are one message to the store.

    Raises:
        StoreError: a subclass that is not registered, or something in it that is not JSON.
    """
    cls = type(message)
    data = _encoded(shape_of(cls), message, "a message")
    if cls is not Message:
        kind = next((kind for kind, known in _kinds.items() if known is cls), None)
        if kind is None:
            raise StoreError(f"a {cls.__name__} cannot be saved: register_message(name, {cls.__name__}) first.")
        data = {"kind": kind, **data}
    text = _text(data, "a message")
    return Body(blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest(), text)


def decode_message(text: str) -> Message:
    """The message of a text.

    Raises:
        StoreError: a subclass that is not registered.
        StoreDamagedError: it is not a message.
    """
    data = _parsed(text, dict, "a message")
    kind = data.pop("kind", None)
    cls = Message if kind is None else _kinds.get(kind)
    if cls is None:
        raise StoreError(f"a message of kind {kind!r} cannot be read: register_message({kind!r}, its class) first.")
    message: Message = _decoded(shape_of(cls), data, "a message")
    return message


# -- answers -----------------------------------------------------------------------------------------------------------

_ANSWER = shape_of(Answer)


def encode_answer(answer: Answer) -> str:
    """An answer as text.

    Raises:
        StoreError: something in it is not JSON.
    """
    return _text(_encoded(_ANSWER, answer, "an answer"), "an answer")


def decode_answer(text: str) -> Answer:
    """The answer of a text.

    Raises:
        StoreDamagedError: it is not an answer.
    """
    answer: Answer = _decoded(_ANSWER, _parsed(text, dict, "an answer"), "an answer")
    return answer


# -- events ------------------------------------------------------------------------------------------------------------

# What the events of one turn share is written in the first event of a list; the others have it from the one before.
_SHARED = ("turn_id", "root_turn_id", "parent_turn_id", "agent_id", "agent_version")
_EVENT = shape_of(AgentEvent)


def encode_events(events: Sequence[AgentEvent]) -> str:
    """Events of one turn as a JSON array, in order.

    Raises:
        StoreError: something in them is not JSON.
    """
    rows: list[dict[str, Any]] = []
    before: tuple[Any, ...] = ()
    for event in events:
        shared = (event.turn_id, event.root_turn_id, event.parent_turn_id, event.agent_id, event.agent_version)
        row: dict[str, Any] = dict(zip(_SHARED, shared, strict=True)) if shared != before else {}
        row["sequence"] = event.sequence
        row["type"] = event.type._value_
        row["occurred_at"] = microseconds(event.occurred_at)
        row["data"] = {**event.data}  # a plain dict is written twice as fast
        rows.append(row)
        before = shared
    return _text(rows, f"events of turn {before[0]}" if before else "events")


def event_rows(text: str) -> list[dict[str, Any]]:
    """The events of a text as plain rows with all fields of `AgentEvent`: type as text, occurred_at in microseconds.

    Raises:
        StoreDamagedError: it is not a list of events.
    """
    rows = _parsed(text, list, "events")
    try:
        shared = {name: rows[0][name] for name in _SHARED} if rows else {}
        return [(shared := {name: row.get(name, shared[name]) for name in _SHARED}) | row for row in rows]
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreDamagedError("events", f"no list of events: {error!r}", _MEND) from error


def decode_events(text: str) -> list[AgentEvent]:
    """The events of a text, in order.

    Raises:
        StoreDamagedError: it is not a list of events.
    """
    return [_decoded(_EVENT, row, "an event") for row in event_rows(text)]


# -- text --------------------------------------------------------------------------------------------------------------

_Container = TypeVar("_Container", dict[str, Any], list[Any])

_MEND = "restore the file from a copy, or take it out of the way and keep it for a report"


def _encoded(shape: Shape, value: Any, what: str) -> dict[str, Any]:
    try:
        return shape.encode(value)
    except (TypeError, AttributeError) as error:
        raise StoreError(f"{what} cannot be saved, it holds a value of another type than it says: {error}.") from error


def _text(data: Any, what: str) -> str:
    try:
        return to_json(data).decode()
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise StoreError(f"{what} cannot be saved: {error}; freeze() makes any data fit.") from error


def _parsed(text: str, kind: type[_Container], what: str) -> _Container:
    try:
        data = from_json(text)
    except ValueError as error:
        raise StoreDamagedError(what, f"no JSON: {error}", _MEND) from error
    if not isinstance(data, kind):
        raise StoreDamagedError(what, f"a JSON {type(data).__name__} instead of a {kind.__name__}", _MEND)
    return data


def _decoded(shape: Shape, data: Any, what: str) -> Any:
    try:
        return shape.decode(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StoreDamagedError(what, f"not understood: {error}", _MEND) from error
