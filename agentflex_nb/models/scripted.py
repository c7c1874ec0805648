"""A model that says what it is told to say: for tests and notebooks, without a key, a network or a surprise.

Rule: nothing is counted. Which reply is played follows from the request alone (its iteration), so one model serves any
number of turns at a time, and a turn that is resumed in another process goes on at the right place.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import InvalidValueError, ModelError
from ..core.frozen import FrozenDict, freeze_strict
from ..core.messages import Message, Usage
from ..core.model import Finish, ModelDelta, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageDelta

_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, UsageDelta, Finish)
_WORDS = re.compile(r"\S+\s*|\s+")
_SHOWN = 60  # characters of a reply in the model's repr


@dataclass(frozen=True, slots=True)
class Say:
    """Text, streamed word by word."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, streamed word by word."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One whole tool call."""

    name: str
    arguments: FrozenDict


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a stream without a finish."""


Raised = BaseException | type[BaseException]
Piece = str | Say | Think | Call | Pause | Cut | Raised | ModelDelta
Reply = Piece | Sequence[Piece]
Function = Callable[[ModelRequest], Reply]


class ScriptedModel:
    """Plays one reply a model call: the first in the first round of a turn, the second in the second, and so on.

    A reply is a text; a piece made with `say`, `think`, `call`, `pause` or `cut`; a delta; an exception, which is
    raised; a list of these, in which several calls are parallel calls; or a function that is given the `ModelRequest`
    and returns one of these. A function that stands last answers every later round too. A finish is added to a reply
    that has none; an empty list says nothing at all, not even that it has finished.

        model = ScriptedModel(
            [ScriptedModel.think("Which order?"), ScriptedModel.call("lookup", order="O-1001")],
            "It was shipped on Monday.",
        )

    Args:
        delay: Seconds between two pieces.
        usage: True reports tokens, a word a token and the same on every run; False reports none; a `Usage` is
            reported as it is. A reply with a `UsageDelta` of its own reports that.

    Raises:
        InvalidValueError: a reply is none of the above.
    """

    def __init__(
        self, *replies: Reply | Function, name: str = "scripted", delay: float = 0.0, usage: bool | Usage = True
    ) -> None:
        self._given = replies
        self._script = tuple([_prepared(reply, f"reply {number}") for number, reply in enumerate(replies, 1)])
        self._name, self._delay, self._usage = name, delay, usage
        self._requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        """The name under which the record shows this model."""
        return self._name

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """Every request so far, in the order in which they came."""
        return tuple(self._requests)

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """Yield the reply that belongs to this round of the turn.

        Raises:
            ModelError: the script has no reply for this round.
        """
        self._requests.append(request)
        reply = self._reply(request)
        for number, piece in enumerate(reply.pieces):
            if self._delay and number:
                time.sleep(self._delay)
            if self._usage is not False and isinstance(piece, Finish) and not reply.counted:
                yield UsageDelta(self._usage if isinstance(self._usage, Usage) else _count(request, reply))
            if isinstance(piece, _DELTAS):
                yield piece
            elif isinstance(piece, Pause):
                time.sleep(piece.seconds)
            elif isinstance(piece, BaseException):
                raise piece.with_traceback(None)  # the script's own instance, without the frames of earlier turns
            else:
                raise piece

    @staticmethod
    def say(text: str) -> Say:
        """Say this."""
        return Say(text)

    @staticmethod
    def think(text: str) -> Think:
        """Think this, before, between or after the rest."""
        return Think(text)

    @staticmethod
    def call(name: str, /, **arguments: Any) -> Call:
        """Ask for a tool.

        Raises:
            InvalidValueError: an argument is no JSON.
        """
        return Call(name, freeze_strict(arguments, f"arguments of {name}"))

    @staticmethod
    def pause(seconds: float) -> Pause:
        """Say nothing for so long."""
        return Pause(seconds)

    @staticmethod
    def cut() -> Cut:
        """End the stream here without a finish, as a lost connection does."""
        return Cut()

    def __repr__(self) -> str:
        shown = [_shortened(repr(reply)) for reply in self._given]
        return f"ScriptedModel({', '.join([*shown, f'name={self._name!r}'])})"

    def _reply(self, request: ModelRequest) -> "_Written":
        rounds, asked = len(self._script), request.iteration
        if not rounds or (asked > rounds and isinstance(self._script[-1], _Written)):
            raise ModelError(
                f"the script of model {self._name!r} has {rounds} replies, and turn {request.turn_id} asks for number "
                f"{asked}: add a reply, or end the script with a text, which ends the turn."
            )
        reply = self._script[min(asked, rounds) - 1]
        return reply if isinstance(reply, _Written) else _written(reply(request), f"what reply {asked} returned")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A reply as it is played."""

    pieces: tuple[ModelDelta | Pause | Raised, ...]
    words: int
    counted: bool
    """Whether it reports its own usage."""


def _prepared(reply: Reply | Function, what: str) -> _Written | Function:
    if callable(reply) and not isinstance(reply, type):
        return reply
    return _written(reply, what)


def _written(reply: Reply, what: str) -> _Written:
    pieces: list[ModelDelta | Pause | Raised] = []
    calls = 0
    for piece in reply if isinstance(reply, list | tuple) else (reply,):
        match piece:
            case str(text) | Say(text):
                pieces += [TextDelta(word) for word in _WORDS.findall(text)]
            case Think(text):
                pieces += [ReasoningDelta(word) for word in _WORDS.findall(text)]
            case Call(name, arguments):
                # The same ids in every round, as some servers give them: they are labels, and must be no more.
                wire = json.dumps(arguments, ensure_ascii=False)
                pieces.append(ToolCallDelta(calls, f"call_{calls}", name, wire))
            case Cut():
                return _closed(pieces)
            case Pause() | BaseException() | TextDelta() | ReasoningDelta() | ToolCallDelta() | UsageDelta() | Finish():
                pieces.append(piece)
            case type() if issubclass(piece, BaseException):
                pieces.append(piece)
            case _:
                expected = "a text, a piece of ScriptedModel, a delta, an exception, or a list of these"
                raise InvalidValueError(what, piece, expected, "write it as one of them")
        calls += isinstance(piece, Call | ToolCallDelta)
    reply_says_nothing = isinstance(reply, list | tuple) and not reply
    if not reply_says_nothing and not any(isinstance(piece, Finish) for piece in pieces):
        pieces.append(Finish(reason="tool_calls" if calls else "stop"))
    return _closed(pieces)


def _closed(pieces: list[ModelDelta | Pause | Raised]) -> _Written:
    said = [piece.text for piece in pieces if isinstance(piece, TextDelta | ReasoningDelta)]
    asked = [piece.arguments or "" for piece in pieces if isinstance(piece, ToolCallDelta)]
    return _Written(
        pieces=tuple(pieces),
        words=_words("".join(said)) + sum(map(_words, asked)),
        counted=any(isinstance(piece, UsageDelta) for piece in pieces),
    )


def _count(request: ModelRequest, reply: _Written) -> Usage:
    return Usage(input_tokens=sum(map(_words_of, request.messages)), output_tokens=reply.words)


def _words_of(message: Message) -> int:
    return _words(message.content) + len(message.tool_calls)


def _words(text: str) -> int:
    return text.count(" ") + 1 if text else 0  # a count, not a split: it is made over the whole history, every round


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
