"""A new turn: from what a user says to a state that can be saved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.advance import open_turn
from ..core.agent import AgentExecutionPolicy
from ..core.errors import InvalidValueError
from ..core.frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from ..core.messages import Message, Role, checked_message, user
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
    if not isinstance(options, AgentTurnOptions | None):
        raise InvalidValueError("options", options, "AgentTurnOptions", "write AgentTurnOptions(...)")
    options, definition = options or AgentTurnOptions(), agent.definition
    messages = _messages(said)
    metadata: FrozenDict = freeze_strict(dict(options.metadata), "metadata") if options.metadata else EMPTY
    conversation_id = _conversation(conversation_id)
    attached = attach(store, conversation_id, definition) if conversation_id is not None else ()
    identity = TurnIdentity(
        id=id,
        root_turn_id=id,
        conversation_id=conversation_id,
        agent_id=agent.id,
        agent_version=agent.version,
        definition_hash=agent.definition_hash,
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
    entries = tuple(said) if isinstance(said, Iterable) and not isinstance(said, Mapping) else (said,)
    if not entries:
        raise InvalidValueError("input", said, "at least one message", "say something")
    messages = tuple([checked_message(entry, f"input[{n}]") for n, entry in enumerate(entries)])
    _check_calls(messages)
    return messages


def _check_calls(messages: tuple[Message, ...]) -> None:
    """A model accepts a history in which each call has its result, right after the message that asked, in order."""
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        answered = open_ids.pop(0) if open_ids and message.role is Role.TOOL else None
        if (message.role is Role.TOOL or open_ids) and message.tool_call_id != answered:
            missing = answered or (open_ids[0] if open_ids else None)
            expected = f"the result of call {missing!r}" if missing else "no result, for no call is open"
            raise InvalidValueError(f"input[{number}]", message, expected, "give each call its result, in order")
        open_ids += [call.id for call in message.tool_calls]
    if open_ids:
        met = messages[-1]
        raise InvalidValueError(f"input[{len(messages)}]", met, f"the result of call {open_ids[0]!r}", "add it")


def _conversation(id: str | None) -> str | None:
    if id is None or (isinstance(id, str) and id and well_formed(id) == id):
        return id
    raise InvalidValueError("conversation_id", id, "text that is not empty and well formed", "choose another id")
