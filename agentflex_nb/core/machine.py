"""The state machine of a turn: two tables.

Rule 1: everything that decides which status may follow which stands in this file.
Rule 2: a status changes only because an event happened, so the log alone tells the status of every turn (`replay`).
Rule 3: `HEARS` says what a turn in a status listens to; what it does not listen to changes nothing. What comes back
        from the world is heard only while the step that asked for it is open (`ASKED_IN`).

The diagram in docs/how-it-works.md is drawn from TRANSITIONS: python -m agentflex_nb.core.machine
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from .errors import IllegalTransitionError
from .events import AgentEvent, EventType
from .inputs import (
    ApproveTool,
    CallsChecked,
    Cancel,
    CheckFailed,
    Continue,
    Decline,
    Expired,
    ExternalResult,
    Input,
    Interrupt,
    Interrupted,
    Migrate,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Proceed,
    RejectTool,
    Retry,
    StepFailed,
    Streamed,
    Suspend,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
    ToolsOffered,
    UserInput,
)


class AgentStatus(StrEnum):
    """Where a turn stands."""

    READY = "READY"
    RUNNING = "RUNNING"
    WAITING_FOR_USER = "WAITING_FOR_USER"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    WAITING_FOR_CHILD = "WAITING_FOR_CHILD"
    WAITING_FOR_EXTERNAL_TOOL = "WAITING_FOR_EXTERNAL_TOOL"
    WAITING_FOR_MODEL = "WAITING_FOR_MODEL"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    MAX_ITERATIONS_REACHED = "MAX_ITERATIONS_REACHED"
    MAX_STEPS_REACHED = "MAX_STEPS_REACHED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"

    @property
    def is_blocked(self) -> bool:
        """Whether the turn waits for something outside: an answer, a child, a time."""
        return self in _BLOCKED

    @property
    def is_terminal(self) -> bool:
        """Whether the turn has ended, for good."""
        return self in _TERMINAL


class AgentPhase(StrEnum):
    """Where a turn that goes on, goes on."""

    MODEL = "MODEL"
    TOOLS = "TOOLS"
    FINISHED = "FINISHED"


class SuspensionType(StrEnum):
    """What a suspended turn waits for."""

    USER_INPUT = "USER_INPUT"
    TOOL_APPROVAL = "TOOL_APPROVAL"
    EXTERNAL_TOOL = "EXTERNAL_TOOL"
    CHILD_AGENT = "CHILD_AGENT"
    RETRY = "RETRY"
    MODEL = "MODEL"


_S, _E, _W = AgentStatus, EventType, SuspensionType

# what a turn waits for -> the status in which it waits
_WAITS: Mapping[tuple[EventType, str], AgentStatus] = {
    (_E.TURN_SUSPENDED, _W.USER_INPUT): _S.WAITING_FOR_USER,
    (_E.TURN_SUSPENDED, _W.TOOL_APPROVAL): _S.WAITING_FOR_APPROVAL,
    (_E.TURN_SUSPENDED, _W.CHILD_AGENT): _S.WAITING_FOR_CHILD,
    (_E.TURN_SUSPENDED, _W.EXTERNAL_TOOL): _S.WAITING_FOR_EXTERNAL_TOOL,
    (_E.TURN_SUSPENDED, _W.MODEL): _S.WAITING_FOR_MODEL,
    (_E.TURN_SUSPENDED, _W.RETRY): _S.RETRY_SCHEDULED,
}
_ENDS: Mapping[tuple[EventType, str], AgentStatus] = {
    (_E.TURN_FAILED, ""): _S.FAILED,
    (_E.TURN_CANCELLED, ""): _S.CANCELLED,
    (_E.MAX_ITERATIONS_REACHED, ""): _S.MAX_ITERATIONS_REACHED,
    (_E.MAX_STEPS_REACHED, ""): _S.MAX_STEPS_REACHED,
    (_E.BUDGET_EXCEEDED, ""): _S.BUDGET_EXCEEDED,
}
_RESUMABLE: Mapping[tuple[EventType, str], AgentStatus] = {
    (_E.TURN_RESUMED, ""): _S.READY,
    (_E.TURN_FAILED, ""): _S.FAILED,
    (_E.TURN_CANCELLED, ""): _S.CANCELLED,
    (_E.BUDGET_EXCEEDED, ""): _S.BUDGET_EXCEEDED,
}

# status -> (event type, what it waits for) -> next status. Types that no row names leave the status alone.
TRANSITIONS: Mapping[AgentStatus, Mapping[tuple[EventType, str], AgentStatus]] = {
    _S.READY: {(_E.TURN_STARTED, ""): _S.RUNNING, (_E.STEP_STARTED, ""): _S.RUNNING, **_WAITS, **_ENDS},
    _S.RUNNING: {(_E.STEP_STARTED, ""): _S.RUNNING, (_E.TURN_COMPLETED, ""): _S.COMPLETED, **_WAITS, **_ENDS},
    _S.WAITING_FOR_USER: _RESUMABLE,
    _S.WAITING_FOR_APPROVAL: _RESUMABLE,
    _S.WAITING_FOR_CHILD: _RESUMABLE,
    _S.WAITING_FOR_EXTERNAL_TOOL: _RESUMABLE,
    _S.WAITING_FOR_MODEL: _RESUMABLE,
    _S.RETRY_SCHEDULED: _RESUMABLE,
    _S.COMPLETED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
    _S.MAX_ITERATIONS_REACHED: {},
    _S.MAX_STEPS_REACHED: {},
    _S.BUDGET_EXCEEDED: {},
}

# Questions of several kinds may stand in one suspension, so a person's answers are heard wherever a person is awaited;
# whether an answer fits its question is decided by the question.
_ANSWERS: frozenset[type[Input]] = frozenset(
    {ApproveTool, RejectTool, UserInput, Decline, ExternalResult, Expired, Interrupt, Migrate, Cancel}
)
_GOES_ON: frozenset[type[Input]] = frozenset((Retry, Continue, Interrupt, Migrate, Cancel))

# status -> what may be said to a turn that stands there
HEARS: Mapping[AgentStatus, frozenset[type[Input]]] = {
    _S.READY: frozenset({Proceed, Suspend, StepFailed, Interrupted, Interrupt, Migrate, Cancel}),
    _S.RUNNING: frozenset(
        {
            Proceed, ToolsOffered, Streamed, ModelReplied, ModelFailed, ModelRetried, CallsChecked, CheckFailed,
            ToolReturned, ToolFailed, ToolProgressed, ToolAsked, StepFailed, Interrupted, Suspend, Interrupt, Cancel,
        }
    ),
    _S.WAITING_FOR_USER: _ANSWERS,
    _S.WAITING_FOR_APPROVAL: _ANSWERS,
    _S.WAITING_FOR_CHILD: frozenset((Migrate, Cancel)),
    _S.WAITING_FOR_EXTERNAL_TOOL: _ANSWERS,
    _S.WAITING_FOR_MODEL: _GOES_ON,
    _S.RETRY_SCHEDULED: _GOES_ON | {Interrupted},  # a run that waits for it can be stopped
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.MAX_ITERATIONS_REACHED: frozenset(),
    _S.MAX_STEPS_REACHED: frozenset(),
    _S.BUDGET_EXCEEDED: frozenset(),
}  # fmt: skip

# what comes back from the world -> the phase of the open step that asked for it
ASKED_IN: Mapping[type[Input], AgentPhase] = {
    ToolsOffered: AgentPhase.MODEL,
    Streamed: AgentPhase.MODEL,
    ModelReplied: AgentPhase.MODEL,
    ModelFailed: AgentPhase.MODEL,
    ModelRetried: AgentPhase.MODEL,
    CallsChecked: AgentPhase.TOOLS,
    CheckFailed: AgentPhase.TOOLS,
    ToolReturned: AgentPhase.TOOLS,
    ToolFailed: AgentPhase.TOOLS,
    ToolProgressed: AgentPhase.TOOLS,
    ToolAsked: AgentPhase.TOOLS,
}

_BLOCKED = frozenset(status for status, row in TRANSITIONS.items() if (_E.TURN_RESUMED, "") in row)
_TERMINAL = frozenset(status for status, row in TRANSITIONS.items() if not row)
_MOVES = frozenset(type for row in TRANSITIONS.values() for type, _ in row)


def hear(status: AgentStatus, said: type[Input], step: AgentPhase | None) -> None:
    """Do nothing if a turn in this status listens to such an input; `step` is the phase of its open step, if one is.

    Raises:
        IllegalTransitionError: it does not.
    """
    if said not in HEARS[status] or ASKED_IN.get(said, step) is not step:
        known = [kind.__name__ for kind in HEARS[status] if ASKED_IN.get(kind, step) is step]
        raise IllegalTransitionError(status, said.__name__, known)


def follow(status: AgentStatus, type: EventType, waits_for: str = "") -> AgentStatus:
    """The status after an event of this type. Nothing can happen to a turn that has ended.

    >>> follow(AgentStatus.READY, EventType.TURN_STARTED)
    <AgentStatus.RUNNING: 'RUNNING'>

    Raises:
        IllegalTransitionError: such an event cannot happen to a turn in this status.
    """
    row = TRANSITIONS[status]
    if row and type not in _MOVES:
        return status
    try:
        return row[type, waits_for]
    except KeyError:
        raise IllegalTransitionError(status, type, [known for known, _ in row]) from None


def replay(events: Iterable[AgentEvent], status: AgentStatus = AgentStatus.READY) -> AgentStatus:
    """The status in which a log ends."""
    for event in events:
        status = follow(
            status, event.type, event.data.get("suspension_type", "") if event.type is EventType.TURN_SUSPENDED else ""
        )
    return status


def mermaid() -> str:
    """The table as a diagram. The statuses that wait, and those that end, stand in a box each.

    Arrows with one source and target share a line; for a wait, the member says in brackets what is waited for.
    """
    arrows: dict[tuple[str, str], dict[str, None]] = {}
    members: dict[str, dict[str, None]] = {"waiting": {}, "ended": {}}
    for source, row in TRANSITIONS.items():
        for (type, waits_for), target in row.items():
            arrows.setdefault((_box(source), _box(target)), {})[type] = None
            if _box(target) != target:
                members[_box(target)][f"{target}: {target} ({waits_for})" if waits_for else str(target)] = None
    lines = [f"    {source} --> {target}: {', '.join(types)}" for (source, target), types in arrows.items()]
    boxes = [
        line
        for box, names in members.items()
        for line in (f"    state {box} {{", *(f"        {n}" for n in names), "    }")
    ]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {AgentStatus.READY}", *lines, "    ended --> [*]", *boxes])


def _box(status: AgentStatus) -> str:
    return "waiting" if status.is_blocked else "ended" if status.is_terminal else status


if __name__ == "__main__":
    print(mermaid())
