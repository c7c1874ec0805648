"""Conversations: which earlier messages a new turn begins with. Whole turns are kept or left out, newest first."""

from collections.abc import Sequence

from ..core.agent import AgentDefinition
from ..core.errors import ConversationBusyError
from ..core.messages import Message, Role
from .ports import AgentTurnStore


def attach(store: AgentTurnStore, conversation_id: str, definition: AgentDefinition) -> tuple[Message, ...]:
    """The messages of earlier turns that fit into the agent's window.

    Raises:
        ConversationBusyError: a turn of it has not ended.
    """
    if active := store.active_turns(conversation_id):
        raise ConversationBusyError(conversation_id, active)
    turns = _turns(store.conversation(conversation_id))
    kept: list[tuple[Message, ...]] = []
    count = 0
    for messages in reversed(turns):
        spoken = tuple(message for message in messages if message.role is not Role.SYSTEM)
        count += len(spoken)
        if len(kept) >= definition.max_attached_turns or count > definition.max_attached_messages:
            break
        kept.append(spoken)
    window = [message for messages in reversed(kept) for message in messages]
    first = next((n for n, message in enumerate(window) if message.role is Role.USER), len(window))
    return tuple(window[first:])


def _turns(said: Sequence[tuple[str | None, Message]]) -> list[list[Message]]:
    """The messages by turn; those that came from outside a turn, by question and answer."""
    turns: list[list[Message]] = []
    before: str | None = None
    for turn_id, message in said:
        if not turns or turn_id != before or (turn_id is None and message.role is Role.USER):
            turns.append([])
        turns[-1].append(message)
        before = turn_id
    return turns
