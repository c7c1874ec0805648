"""Recorded conversations, played again through the runner: the model says what it said, the tools answer as they did.

Rule 1: a user's message that an assistant answered is a turn; every other message stands in its conversation without
        one, in its place. So all that was recorded stands again, in order.
Rule 2: a turn ends where its recording does: at a reply without calls, or FAILED where a result or the next reply is
        missing. What the runtime adds to close such a history is labelled (`Origin.RUNTIME`).
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from ..core.agent import AgentExecutionPolicy
from ..core.errors import AgentFlexError, RecordingEndedError
from ..core.machine import AgentStatus
from ..core.messages import Message, Origin, Role, ToolCall
from ..models.recorded import RecordedModel
from ..runtime.agent import Agent
from ..runtime.context import AgentToolContext
from ..runtime.runner import AgentRunner, AgentTurnOptions
from ..runtime.tools import Tool
from .recordings import Recording

_UNLIMITED = 1_000_000  # turns and messages of a window that leaves nothing out


class ConversationExistsError(AgentFlexError):
    """A conversation that is to be played stands in the store already, or comes twice; nothing was played."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} stands in this lab already: play the recordings into another lab, "
            "or give them other ids."
        )
        self.conversation_id = conversation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What was played, and whether it stands as it was recorded."""

    conversations: int
    turns: Mapping[AgentStatus, int]
    tool_calls: int
    messages: int
    """Recorded messages."""
    unchanged: int
    """Recorded messages that stand in their conversation, in order, as they were recorded."""
    unanswered: int
    """Users' messages that nobody answered: they have no turn."""
    seconds: float


def play(
    recordings: Sequence[Recording], runner: AgentRunner, *, name: str = "recorded", progress: bool = True
) -> Replay:
    """Play conversations, one after the other, into the runner's store.

    The agent is `name`; its instructions are the system messages with which a conversation begins, so recordings with
    several of them make several versions of it. A turn keeps the facts that its recording holds as metadata.

    Raises:
        ConversationExistsError: one of them stands in the store already; nothing was played.
        InvalidAgentError: a recorded tool has a name that no tool can have; nothing was played.
    """
    seen: set[str] = set()
    for recording in recordings:
        if recording.id in seen or runner.store.conversation(recording.id):
            raise ConversationExistsError(recording.id)
        seen.add(recording.id)
    player, begun = _Player(recordings, runner, name), time.perf_counter()
    plan = [(recording, list(parts_of(recording.messages))) for recording in recordings]
    spoken = [part for _, parts in plan for part in parts if isinstance(part, Spoken)]
    silent = [message for _, parts in plan for part in parts if isinstance(part, list) for message in part]
    turns: Counter[AgentStatus] = Counter()
    unchanged = 0
    with tqdm(total=len(spoken), unit="turn", disable=not progress) as bar:
        for recording, parts in plan:
            for part in parts:
                if isinstance(part, Spoken):
                    turns[player.play(recording, part)] += 1
                    bar.update()
                else:
                    runner.store.remember(recording.id, part)
            unchanged += _unchanged(recording.messages, [said for _, said in runner.store.conversation(recording.id)])
    return Replay(
        conversations=len(recordings),
        turns=dict(turns),
        tool_calls=sum(len(part.calls) for part in spoken),
        messages=sum(len(recording.messages) for recording in recordings),
        unchanged=unchanged,
        unanswered=sum(message.role is Role.USER for message in silent),
        seconds=time.perf_counter() - begun,
    )


def _unchanged(recorded: Sequence[Message], stands: Sequence[Message]) -> int:
    """How many of the recorded messages stand in their place. Results that the recording lacks are passed over."""
    kept = [message for message in stands if message.origin is Origin.SOURCE or message.role is Role.TOOL]
    at, count = 0, 0
    for message in recorded:
        while at < len(kept) and kept[at].role is Role.TOOL and message.role is not Role.TOOL:
            at += 1
        count += at < len(kept) and _content(kept[at]) == _content(message)
        at += 1
    return count


def _content(message: Message) -> tuple[Any, ...]:
    calls = [(call.name, call.arguments, call.malformed, call.provider_id) for call in message.tool_calls]
    return message.role, message.content, message.reasoning, message.tool_name, message.provider_data, calls


# -- where the turns are -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn: a user's message, and the calls that followed, each with its result; None where that is missing."""

    message: Message
    calls: tuple[tuple[ToolCall, Message | None], ...]


def parts_of(messages: Sequence[Message]) -> Iterator[Spoken | list[Message]]:
    """The conversation as turns and, between them, the messages that have none."""
    silent: list[Message] = []
    at = 0
    while at < len(messages):
        message, at = messages[at], at + 1
        if message.role is Role.USER and at < len(messages) and messages[at].role is Role.ASSISTANT:
            if silent:
                yield silent
                silent = []
            at, calls = _replies(messages, at)
            yield Spoken(message, tuple(calls))
        else:
            silent.append(message)
    if silent:
        yield silent


def _replies(messages: Sequence[Message], at: int) -> tuple[int, list[tuple[ToolCall, Message | None]]]:
    """Where the turn ends whose first reply stands here, and its calls."""
    calls: list[tuple[ToolCall, Message | None]] = []
    while at < len(messages) and messages[at].role is Role.ASSISTANT:
        reply, at = messages[at], at + 1
        results: dict[str, Message] = {}
        while at < len(messages) and messages[at].role is Role.TOOL:
            results[messages[at].tool_call_id] = messages[at]
            at += 1
        calls += [(call, results.get(call.id)) for call in reply.tool_calls]
        if not reply.tool_calls or len(results) < len(reply.tool_calls):
            break
    return at, calls


# -- playing -----------------------------------------------------------------------------------------------------------


class _Player:
    """The agents of a replay, and the results that the running turn's tools will give."""

    def __init__(self, recordings: Sequence[Recording], runner: AgentRunner, name: str) -> None:
        self._runner, self._name = runner, name
        self._model = RecordedModel({recording.id: recording.messages for recording in recordings})
        called = {
            call.name for recording in recordings for message in recording.messages for call in message.tool_calls
        }
        self._tools = [self._tool(name) for name in sorted(called)]
        self._results: dict[str, deque[Message | None]] = {}
        self._agents: dict[str, Agent] = {}
        for recording in recordings:
            self._agent(recording)

    def play(self, recording: Recording, spoken: Spoken) -> AgentStatus:
        """Run one turn; how it ended."""
        # A call whose arguments are no JSON object runs no tool: the runtime answers it.
        self._results[recording.id] = deque(result for call, result in spoken.calls if call.malformed is None)
        turn = self._runner.run(
            self._agent(recording),
            spoken.message,
            conversation_id=recording.id,
            options=AgentTurnOptions(streaming=False, metadata=recording.metadata),
        )
        return turn.status

    def _agent(self, recording: Recording) -> Agent:
        instructions = _instructions(recording.messages)
        if instructions not in self._agents:
            self._agents[instructions] = Agent(
                self._name,
                instructions=instructions,
                model=self._model,
                tools=self._tools,
                execution_policy=AgentExecutionPolicy(max_iterations=0, max_steps=0),
                max_attached_turns=_UNLIMITED,
                max_attached_messages=_UNLIMITED,
            )
        return self._agents[instructions]

    def _tool(self, name: str) -> Tool:
        return Tool(
            name=name,
            description="Answers as it was recorded.",
            parameters={"type": "object"},
            function=self._answer,
            idempotent=True,
            version="recorded",
        )

    def _answer(self, **_: Any) -> str:
        context = AgentToolContext.current()
        waiting = self._results[context.conversation_id or ""]
        result = waiting.popleft() if waiting else None  # tools run one at a time, in the calls' order
        if result is None:
            raise RecordingEndedError(f"recording ended: it has no result of this call of {context.tool_name}")
        return result.content


def _instructions(messages: Sequence[Message]) -> str:
    first = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    return "\n\n".join([message.content for message in messages[:first]])
