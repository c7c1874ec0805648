"""A new turn: from what a user says to a state that can be saved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..core.advance import open_turn
from ..core.agent import AgentExecutionPolicy
from ..core.errors import InvalidValueError
from ..core.frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from ..core.messages import Message, user
from ..core.story import Advance
from ..core.turn import TurnIdentity
from .agent import Agent
from .conversations import attach
from .ports import AgentTurnStore

Said = str | Message | Iterable[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnOptions:
    """What one turn does differently: its limits as a whole, streaming, metadata. Never tools or approvals."""

    execution_policy: AgentExecutionPolicy | None = None
    streaming: bool = True
    metadata: Mapping[str, Any] | None = None


def opened(
    store: AgentTurnStore,
    agent: Agent,
    said: Said,
    *,
    id: str,
    now: datetime,
    conversation_id: str | None,
    options: AgentTurnOptions | None,
) -> Advance:
    """The turn, ready, with the earlier messages of its conversation. Nothing is saved yet.

    Raises:
        ConversationBusyError: the conversation has a turn that has not ended.
        InvalidValueError: an input that is no message, or metadata that is no JSON.
    """
    options, definition = options or AgentTurnOptions(), agent.definition
    messages = _messages(said)
    metadata: FrozenDict = freeze_strict(dict(options.metadata), "metadata") if options.metadata else EMPTY
    attached = attach(store, conversation_id, definition) if conversation_id is not None else ()
    identity = TurnIdentity(
        id=id,
        root_turn_id=id,
        conversation_id=conversation_id,
        agent_id=agent.id,
        agent_version=agent.version,
        created_at=now,
        instructions=definition.instructions,
        policy=options.execution_policy or definition.execution_policy,
        streaming=options.streaming,
        metadata=metadata,
        attached=len(attached),
    )
    return open_turn(definition, identity, (*attached, *messages), now)


def _messages(said: Said) -> tuple[Message, ...]:
    if isinstance(said, str):
        return (user(well_formed(said)),)
    entries = tuple(said) if isinstance(said, Iterable) else (said,)
    return tuple([_message(entry, n) for n, entry in enumerate(entries)])


def _message(entry: Any, number: int) -> Message:
    if not hasattr(entry, "role") or not isinstance(getattr(entry, "content", None), str):
        mend = "pass text, a Message, or a list of Messages"
        raise InvalidValueError(f"input[{number}]", entry, "a Message", mend)
    message: Message = entry
    text = well_formed(message.content)
    return message if text is message.content else replace(message, content=text)
