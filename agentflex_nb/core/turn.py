"""A turn: one input on its way to one result. A value; only `advance` makes the next one."""

from dataclasses import dataclass, replace
from datetime import datetime

from .agent import AgentExecutionPolicy, ToolDefinition
from .errors import ErrorSummary
from .frozen import EMPTY, FrozenDict
from .inputs import Cancel, Interrupt, Suspend
from .machine import AgentPhase, AgentStatus, SuspensionType
from .messages import NO_USAGE, Message, ToolCall, Usage
from .verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnIdentity:
    """What never changes about a turn, unless it is migrated to another version of its agent."""

    id: str
    root_turn_id: str
    parent_turn_id: str | None = None
    conversation_id: str | None = None
    agent_id: str
    agent_version: str
    """Which one it goes on with: the one it began with, unless it was migrated."""
    definition_hash: str = ""
    """Of that version's definition; "" where it is not known."""
    created_at: datetime
    instructions: str = ""
    """As rendered when the turn was made."""
    policy: AgentExecutionPolicy
    """The effective one: the agent's, or the turn's own."""
    streaming: bool = True
    metadata: FrozenDict = EMPTY
    attached: int = 0
    """How many of the first messages come from earlier turns of the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that a person must decide, and all that is needed to decide it."""

    id: str
    """The id of the call that it is about, with the attempt behind it for work outside; else an id of its own."""
    type: SuspensionType
    message: str
    code: str = ""
    reason: str = ""
    tool_name: str = ""
    arguments: FrozenDict = EMPTY
    form_key: str = ""
    call_id: str = ""
    """The call that it is about, if it is about one."""
    expires_at: datetime | None = None
    """When it is answered by itself, as `when_expired` says."""
    when_expired: str = ""
    """REJECT or APPROVE."""
    schema: FrozenDict | None = None
    """The form's JSON Schema as it was when the question was asked; None for a question without a form."""
    metadata: FrozenDict = EMPTY

    def __str__(self) -> str:
        return f"{self.id} ({self.type}) {self._about}{self.message}"

    @property
    def _about(self) -> str:
        """The call in short: what tells two questions about one tool apart."""
        if not self.tool_name:
            return ""
        given = ", ".join([f"{name}={value!r}" for name, value in self.arguments.items()])
        return f"{self.tool_name}({given if len(given) <= 120 else given[:120] + '…'}): "


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSuspension:
    """Why a turn waits: open questions in the order of their calls. Its type is that of the first one."""

    questions: tuple[Question, ...]
    resume_phase: AgentPhase
    due_at: datetime | None = None
    """When a retry may begin."""
    metadata: FrozenDict = EMPTY

    @property
    def type(self) -> SuspensionType:
        """What is waited for first."""
        return self.questions[0].type

    @property
    def correlation_id(self) -> str:
        """The id of the first open question."""
        return self.questions[0].id

    @property
    def message(self) -> str:
        """The first open question in words."""
        return self.questions[0].message


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that was given; kept for good, whatever follows."""

    question_id: str
    command_type: str
    at: datetime
    reason: str = ""
    data: FrozenDict | str | None = None
    metadata: FrozenDict = EMPTY
    """Who answered (`by`), where, why."""

    @property
    def by(self) -> str:
        """Who answered, as far as the answer says."""
        return str(self.metadata.get("by", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A change to another version of the agent, made by somebody; kept for good."""

    at: datetime
    from_version: str
    to_version: str
    metadata: FrozenDict = EMPTY
    """Who made it (`by`), where, why."""


@dataclass(frozen=True, kw_only=True)  # no slots: it is `changed` a few times a call
class PendingCall:
    """A call of the last reply that has no result in the history yet."""

    call: ToolCall
    verdict: Verdict | None = None
    """What the agent's code said; None while it has not been asked."""
    cleared: bool = False
    """The code was asked again, just before the call would run."""
    approved: bool = False
    """A person said yes."""
    started: bool = False
    """It was started, and its end is not known."""
    counted: bool = False
    """It was started at least once; a further start counts no further call."""
    asks: Question | None = None
    """The form that it needs filled in before it can run, or run again."""
    form_data: FrozenDict | None = None
    """What was submitted; None when nothing was, which {} is not."""
    outcome: str | None = None
    """A result that a person or the outside supplied, as text for the model."""
    failed: bool = False
    """Whether the supplied outcome is an error."""
    content: str | None = None
    """Its result, told already, which waits for its place in the history."""
    made_up: bool = False
    """Whether that result is the runtime's own text, because nothing was run."""
    fatal: ErrorSummary | None = None
    """The error with which the turn fails once this call's result is in the history."""
    failure: ErrorSummary | None = None
    """Why the last attempt failed, while another one is to follow."""
    declined: str | None = None
    """Why a person did not fill in the form; None while nobody declined."""
    edited: FrozenDict | None = None
    """The arguments as a person changed them; the model's own stay in the history."""
    attempt: int = 1

    @property
    def runs(self) -> ToolCall:
        """The call as it is run: with the arguments that a person may have changed."""
        return self.call if self.edited is None else replace(self.call, arguments=self.edited)

    @property
    def rule(self) -> str | None:
        """The name of the approval rule that decided about it, if one did."""
        return self.verdict.metadata.get("rule") if self.verdict else None

    @property
    def supplied(self) -> str | None:
        """The result that is known already, as the model is told it."""
        if self.content is not None:
            return self.content
        return f"Error: {self.outcome}" if self.failed else self.outcome


@dataclass(frozen=True, kw_only=True)  # no slots: it is copied for every piece of text
class Turn:
    """The state of a turn. What enters the snapshot is exactly this."""

    identity: TurnIdentity
    status: AgentStatus = AgentStatus.READY
    phase: AgentPhase = AgentPhase.MODEL
    version: int = -1
    """Of the last snapshot; -1 before the first."""
    sequence: int = 0
    """The number of the newest event."""
    step_count: int = 0
    step_open: bool = False
    iteration_count: int = 0
    tool_call_count: int = 0
    attempt: int = 1
    """Of the operation that runs now."""
    started_at: datetime | None = None
    messages: tuple[Message, ...] = ()
    pending: tuple[PendingCall, ...] = ()
    resolved: tuple[ToolDefinition, ...] = ()
    """Tools that are no part of the agent: those offered to the model beside its own, then those of them it called."""
    suspension: AgentSuspension | None = None
    asked: Suspend | None = None
    """A plain question that waits for the end of the step."""
    answers: tuple[Answer, ...] = ()
    migrations: tuple[Migration, ...] = ()
    usage: Usage = NO_USAGE
    cancel: Cancel | None = None
    """A cancellation that waits for the next safe point."""
    interrupt: Interrupt | None = None
    """A message of the user that waits for the next safe point, to interrupt what goes on."""
    active_seconds: float = 0.0
    """Time spent at work; waiting is not work."""
    seen_at: datetime | None = None
    """Up to when `active_seconds` counts, for a turn that runs."""
    output: str | None = None
    finish_reason: str | None = None
    error: ErrorSummary | None = None
    ended_at: datetime | None = None

    def numbered(self, sequence: int) -> "Turn":
        """The turn after an event that changed nothing but the number of its newest event."""
        turn = object.__new__(Turn)
        fields = turn.__dict__
        fields.update(self.__dict__)
        fields["sequence"] = sequence
        return turn

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.identity.id

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is open, in order; empty for a turn that waits for nobody."""
        return self.suspension.questions if self.suspension else ()

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """The messages of this turn, without those attached from earlier ones."""
        return self.messages[self.identity.attached :]
