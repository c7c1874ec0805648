"""Agents in a notebook: define one in a cell, run it, answer its questions with a click, query everything it did.

The names below are what a notebook uses. Heavy parts (DuckDB, pandas, widgets) load when they are first touched.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.agent import (
        AgentBudget,
        AgentExecutionPolicy,
        AgentRetryPolicy,
        ClosingTexts,
        ToolErrorStrategy,
        WhenExhausted,
    )
    from .core.drift import AgentDifference
    from .core.errors import (
        AgentDriftError,
        AgentFlexError,
        AgentVersionNotFoundError,
        AuthenticationError,
        BadRequestError,
        CommandRefusedError,
        ContentFilterError,
        ContextLengthError,
        ConversationBusyError,
        EmptyReplyError,
        IllegalTransitionError,
        InvalidAgentError,
        InvalidConfigError,
        InvalidValueError,
        LabLockedError,
        MissingExtraError,
        ModelConnectionError,
        ModelError,
        OverloadedError,
        QuotaExceededError,
        RateLimitError,
        RecordingEndedError,
        RefusalReason,
        ResultNotFoundError,
        StoreDamagedError,
        StoreError,
        TruncatedStreamError,
        TurnFailedError,
        TurnNotFoundError,
        UnansweredError,
        VersionConflictError,
        WrongThreadError,
    )
    from .core.events import AgentEvent, EventType
    from .core.forms import FormRequired
    from .core.inputs import AgentResumeCommand, ModelReplied
    from .core.machine import AgentPhase, AgentStatus, SuspensionType
    from .core.messages import Message, Origin, Role, ToolCall, Usage
    from .core.model import ChatModel, Finish, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageDelta
    from .core.rules import ApprovalRule, ApprovalRules
    from .core.turn import AgentSuspension, Question, Turn
    from .core.verdicts import ToolApprovalDecision, Verdict
    from .lab import Lab
    from .listeners.log import JsonLines, LogListener
    from .listeners.metrics import Metric, MetricsListener
    from .listeners.otel import OpenTelemetryListener
    from .listeners.passage import filtered
    from .listeners.policy import DisplayPolicy
    from .models.recorded import RecordedModel
    from .models.scripted import ScriptedModel
    from .runtime.agent import Agent
    from .runtime.answers import fail_if_asked
    from .runtime.context import AgentToolContext, NoToolContextError
    from .runtime.drive import AgentRunnerOptions
    from .runtime.forms import AgentForm
    from .runtime.groups import ToolGroup
    from .runtime.handle import AgentTurn
    from .runtime.loader import AgentLoader
    from .runtime.middleware import AgentMiddleware
    from .runtime.parts import AgentParts
    from .runtime.references import ResultRef
    from .runtime.results import Results
    from .runtime.runner import AgentRunner, AgentTurnOptions
    from .runtime.streams import AgentStream
    from .runtime.tools import Tool, tool
    from .store.memory import MemoryStore
    from .store.sqlite import SqliteStore

__version__ = "0.1.0"

_HOMES = {
    "core.agent": "AgentBudget AgentExecutionPolicy AgentRetryPolicy ClosingTexts ToolErrorStrategy WhenExhausted",
    "core.drift": "AgentDifference",
    "core.errors": "AgentDriftError AgentFlexError AgentVersionNotFoundError AuthenticationError BadRequestError "
    "CommandRefusedError ContentFilterError ContextLengthError ConversationBusyError EmptyReplyError "
    "IllegalTransitionError InvalidAgentError InvalidConfigError InvalidValueError LabLockedError MissingExtraError "
    "ModelConnectionError "
    "ModelError OverloadedError QuotaExceededError RateLimitError RecordingEndedError RefusalReason "
    "ResultNotFoundError StoreDamagedError StoreError TruncatedStreamError TurnFailedError TurnNotFoundError "
    "UnansweredError VersionConflictError WrongThreadError",
    "core.events": "AgentEvent EventType",
    "core.forms": "FormRequired",
    "core.inputs": "AgentResumeCommand ModelReplied",
    "core.machine": "AgentPhase AgentStatus SuspensionType",
    "core.messages": "Message Origin Role ToolCall Usage",
    "core.model": "ChatModel Finish ModelRequest ReasoningDelta TextDelta ToolCallDelta UsageDelta",
    "core.rules": "ApprovalRule ApprovalRules",
    "core.turn": "AgentSuspension Question Turn",
    "core.verdicts": "ToolApprovalDecision Verdict",
    "lab": "Lab",
    "listeners.log": "JsonLines LogListener",
    "listeners.metrics": "Metric MetricsListener",
    "listeners.otel": "OpenTelemetryListener",
    "listeners.passage": "filtered",
    "listeners.policy": "DisplayPolicy",
    "models.recorded": "RecordedModel",
    "models.scripted": "ScriptedModel",
    "runtime.agent": "Agent",
    "runtime.answers": "fail_if_asked",
    "runtime.context": "AgentToolContext NoToolContextError",
    "runtime.drive": "AgentRunnerOptions",
    "runtime.forms": "AgentForm",
    "runtime.groups": "ToolGroup",
    "runtime.handle": "AgentTurn",
    "runtime.loader": "AgentLoader",
    "runtime.middleware": "AgentMiddleware",
    "runtime.parts": "AgentParts",
    "runtime.references": "ResultRef",
    "runtime.results": "Results",
    "runtime.runner": "AgentRunner AgentTurnOptions",
    "runtime.streams": "AgentStream",
    "runtime.tools": "Tool tool",
    "store.memory": "MemoryStore",
    "store.sqlite": "SqliteStore",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Agent",
    "AgentBudget",
    "AgentDifference",
    "AgentDriftError",
    "AgentEvent",
    "AgentExecutionPolicy",
    "AgentFlexError",
    "AgentForm",
    "AgentLoader",
    "AgentMiddleware",
    "AgentParts",
    "AgentPhase",
    "AgentResumeCommand",
    "AgentRetryPolicy",
    "AgentRunner",
    "AgentRunnerOptions",
    "AgentStatus",
    "AgentStream",
    "AgentSuspension",
    "AgentToolContext",
    "AgentTurn",
    "AgentTurnOptions",
    "AgentVersionNotFoundError",
    "ApprovalRule",
    "ApprovalRules",
    "AuthenticationError",
    "BadRequestError",
    "ChatModel",
    "ClosingTexts",
    "CommandRefusedError",
    "ContentFilterError",
    "ContextLengthError",
    "ConversationBusyError",
    "DisplayPolicy",
    "EmptyReplyError",
    "EventType",
    "Finish",
    "FormRequired",
    "IllegalTransitionError",
    "InvalidAgentError",
    "InvalidConfigError",
    "InvalidValueError",
    "JsonLines",
    "Lab",
    "LabLockedError",
    "LogListener",
    "MemoryStore",
    "Message",
    "Metric",
    "MetricsListener",
    "MissingExtraError",
    "ModelConnectionError",
    "ModelError",
    "ModelReplied",
    "ModelRequest",
    "NoToolContextError",
    "OpenTelemetryListener",
    "Origin",
    "OverloadedError",
    "Question",
    "QuotaExceededError",
    "RateLimitError",
    "ReasoningDelta",
    "RecordedModel",
    "RecordingEndedError",
    "RefusalReason",
    "ResultNotFoundError",
    "ResultRef",
    "Results",
    "Role",
    "ScriptedModel",
    "SqliteStore",
    "StoreDamagedError",
    "StoreError",
    "SuspensionType",
    "TextDelta",
    "Tool",
    "ToolApprovalDecision",
    "ToolCall",
    "ToolCallDelta",
    "ToolErrorStrategy",
    "ToolGroup",
    "TruncatedStreamError",
    "Turn",
    "TurnFailedError",
    "TurnNotFoundError",
    "UnansweredError",
    "Usage",
    "UsageDelta",
    "Verdict",
    "VersionConflictError",
    "WhenExhausted",
    "WrongThreadError",
    "__version__",
    "fail_if_asked",
    "filtered",
    "tool",
]


def __getattr__(name: str) -> Any:
    if (home := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
