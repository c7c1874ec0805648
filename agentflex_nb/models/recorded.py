"""A model that says again what a model has said: the assistant messages of saved conversations.

Rule: nothing is counted. Where a conversation stands follows from the request's own messages, so one model serves any
number of conversations at a time, also in another process, and also when a window has left out the oldest messages.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from ..core.errors import ModelError, RecordingEndedError
from ..core.messages import Message, Origin, Role
from ..core.model import Finish, ModelDelta, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta

_SHOWN = 60  # characters of a message, or conversations, in an error


class RecordedModel:
    """Plays back the assistant messages of conversations.

    The reply is the message that follows, in the recording, the place where the request stands. To find it, what
    people and the model said must be as it was recorded; of tools only the order counts, so they may give other
    results today. Instructions, and what a runtime added to close a history, do not count.

    Args:
        conversations: The recorded messages by conversation id; or those of one conversation, for any id.
    """

    def __init__(
        self, conversations: Mapping[str, Sequence[Message]] | Sequence[Message], *, name: str = "recorded"
    ) -> None:
        self._name = name
        self._by_id: dict[str, tuple[Message, ...]] = {}
        self._only: tuple[Message, ...] | None = None
        if isinstance(conversations, Mapping):
            self._by_id = {id: _spoken(messages) for id, messages in conversations.items()}
        else:
            self._only = _spoken(conversations)

    @property
    def name(self) -> str:
        """The name under which the record shows this model."""
        return self._name

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """Yield the recorded reply.

        Raises:
            RecordingEndedError: the recording has no reply at this place.
            ModelError: the conversation was not recorded, or has no place like this.
        """
        recorded = self._recording(request)
        at = _place(recorded, _spoken(request.messages), request.conversation_id)
        if at == len(recorded) or recorded[at].role is not Role.ASSISTANT:
            raise RecordingEndedError(
                f"recording ended: conversation {request.conversation_id!r} has no reply after its message {at}, "
                "instructions not counted"
            )
        return _deltas(recorded[at])

    def __repr__(self) -> str:
        what = f"{len(self._by_id)} conversations" if self._only is None else f"{len(self._only)} messages"
        return f"RecordedModel({what}, name={self._name!r})"

    def _recording(self, request: ModelRequest) -> Sequence[Message]:
        if self._only is not None:
            return self._only
        if (known := self._by_id.get(request.conversation_id or "")) is not None:
            return known
        some = ", ".join(map(repr, list(self._by_id)[:3])) or "none"
        raise ModelError(
            f"conversation {request.conversation_id!r} is not among the {len(self._by_id)} recorded ones ({some}"
            f"{', …' if len(self._by_id) > 3 else ''}): run it with conversation_id= one of these."
        )


def _spoken(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What has a place in the recording: also a result that the runtime had to write, but not its last words."""
    return tuple([message for message in messages if _has_place(message)])


def _has_place(message: Message) -> bool:
    return message.role is Role.TOOL or (message.role is not Role.SYSTEM and message.origin is Origin.SOURCE)


def _place(recorded: Sequence[Message], said: Sequence[Message], conversation_id: str | None) -> int:
    """How many recorded messages lie behind the request: those up to the longest run that ends like the request."""
    if len(said) <= len(recorded) and all(map(_same, said, recorded)):
        return len(said)
    place, longest = 0, 0
    for at in range(1, len(recorded) + 1):
        run = 0
        while run < min(at, len(said)) and _same(said[-1 - run], recorded[at - 1 - run]):
            run += 1
        if run > longest:
            place, longest = at, run
    if not longest:
        last = said[-1]
        shown = last.content if len(last.content) <= _SHOWN else f"{last.content[:_SHOWN]}…"
        raise ModelError(
            f"the recording of conversation {conversation_id!r} has no place where a {last.role.value} says {shown!r}: "
            "play it with the messages it was made of."
        )
    return place


def _same(said: Message, recorded: Message) -> bool:
    if said.role is not recorded.role:
        return False
    if said.role is Role.TOOL:
        return True
    names = [call.name for call in said.tool_calls] == [call.name for call in recorded.tool_calls]
    return said.content == recorded.content and names


def _deltas(message: Message) -> Iterator[ModelDelta]:
    if message.reasoning:
        yield ReasoningDelta(message.reasoning)
    if message.content:
        yield TextDelta(message.content)
    for index, call in enumerate(message.tool_calls):
        written = json.dumps(call.arguments, ensure_ascii=False) if call.malformed is None else call.malformed
        yield ToolCallDelta(index, call.provider_id, call.name, written)
    yield Finish(reason="tool_calls" if message.tool_calls else "stop", provider_data=message.provider_data)
