"""Conversations: which earlier messages a new turn begins with. Whole turns are kept or left out, newest first."""

from itertools import groupby

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
    said = store.conversation(conversation_id)
    turns = [tuple(message for _, message in group) for _, group in groupby(said, key=lambda entry: entry[0])]
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
