"""Everything this package raises on purpose. Each says what was met, what was expected, and what to do.

AgentFlexError
├── InvalidAgentError          an agent, a tool or a policy is not well defined
│   └── InvalidConfigError     a configuration from which no agent can be assembled
├── InvalidValueError          data that cannot be kept (metadata, a key that is None)
├── CommandRefusedError        an answer or command that does not fit the turn; nothing changed
├── IllegalTransitionError     the state machine was asked for a step it does not have
├── VersionConflictError       another runner moved the turn first
├── TurnNotFoundError          no such turn in this store
├── ResultNotFoundError        no such result, or nothing but its text was kept
├── TurnFailedError            what `turn.check()` raises for a turn that did not complete
├── UnansweredError            a question met a place where nobody can answer
├── ConversationBusyError      the conversation has an active turn
├── AgentVersionNotFoundError  the loader has no such agent id and version
├── AgentDriftError            an agent is not what this version of it was, or does not fit a turn
├── WrongThreadError           a blocking call on the runtime's own event loop
├── MissingExtraError          something that needs a package which is not installed
├── QueryError                 a question to the tables that cannot be answered as it is put
├── ModelError                 a model call failed
│   ├── RateLimitError         too many calls; may succeed later, as may the next three
│   ├── OverloadedError        no capacity at the provider
│   ├── ModelConnectionError   not reached, or not in time
│   ├── TruncatedStreamError   the stream ended without a finish
│   ├── QuotaExceededError     nothing left to spend
│   ├── AuthenticationError    the key is missing or wrong
│   ├── BadRequestError        refused as it stands
│   ├── ContextLengthError     too long for the model
│   ├── ContentFilterError     the answer is withheld
│   ├── EmptyReplyError        the model returned nothing at all
│   └── RecordingEndedError    a recorded model has no further message
└── StoreError                 the record could not be kept
    ├── LabLockedError         another process holds the lab
    ├── NewerFormatError       a newer version of this package wrote it
    └── StoreDamagedError      the file cannot be read as it stands
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drift import AgentDifference

_LONGEST = 2_000  # characters of what an error lists


class AgentFlexError(Exception):
    """The root of the tree: catch this for anything the package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:  # the arguments of __init__ differ from class to class; the parts do not
        return _rebuilt, (type(self), self.args, self.__dict__)


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters in all)"


def _rebuilt(kind: type[AgentFlexError], args: tuple[Any, ...], parts: dict[str, Any]) -> AgentFlexError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class InvalidAgentError(AgentFlexError, ValueError):
    """An agent, a tool, a form or a policy is not well defined."""

    def __init__(self, met: str, expected: str, mend: str) -> None:
        super().__init__(f"{met}: expected {expected}; {mend}.")
        self.met, self.expected, self.mend = met, expected, mend


class InvalidConfigError(InvalidAgentError):
    """A configuration from which no agent can be assembled; `errors` say where (a JSON pointer) and what, all of it."""

    def __init__(self, errors: Sequence["DataError"]) -> None:
        listed = _bounded("; ".join(f"{error.pointer or '/'} {error.message}" for error in errors))
        super().__init__(f"this configuration: {listed}", "an agent whose parts are all here", "correct it")
        self.errors = tuple(errors)


class InvalidValueError(AgentFlexError, ValueError):
    """Data that cannot be kept as JSON; `path` says where it stands."""

    def __init__(self, path: str, met: Any, expected: str, mend: str) -> None:
        super().__init__(f"{path} is {type(met).__name__}: expected {expected}; {mend}.")
        self.path, self.met, self.expected = path, met, expected


class RefusalReason(StrEnum):
    """Why a command was refused."""

    ALREADY_RESOLVED = "ALREADY_RESOLVED"
    NOT_BLOCKED = "NOT_BLOCKED"
    WRONG_CORRELATION = "WRONG_CORRELATION"
    WRONG_KIND = "WRONG_KIND"
    NOT_DUE = "NOT_DUE"
    EXPIRED = "EXPIRED"
    INVALID = "INVALID"
    FINAL = "FINAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataError:
    """One fault in submitted data: where (a JSON pointer, "" for the whole) and what."""

    pointer: str
    message: str


class CommandRefusedError(AgentFlexError):
    """An answer or command that does not fit the turn. Nothing changed."""

    def __init__(
        self,
        reason: RefusalReason,
        message: str,
        *,
        turn_id: str = "",
        correlation_id: str = "",
        by: str = "",
        at: datetime | None = None,
        errors: Sequence[DataError] = (),
    ) -> None:
        super().__init__(message)
        self.reason, self.turn_id, self.correlation_id = reason, turn_id, correlation_id
        self.by, self.at = by, at  # who answered first, and when, if somebody did
        self.errors = tuple(errors)  # what is wrong with submitted data


class IllegalTransitionError(AgentFlexError):
    """The state machine was asked for a step that its tables do not have."""

    def __init__(self, status: str, met: str, expected: Sequence[str]) -> None:
        known = ", ".join(sorted(expected)) or "nothing of the kind"
        super().__init__(f"a turn that is {status} met {met}; it knows {known}.")
        self.status, self.met, self.expected = status, met, tuple(expected)


class VersionConflictError(AgentFlexError):
    """Another runner saved this turn first; the value in hand is out of date."""

    def __init__(self, turn_id: str, expected: int, found: int | None) -> None:
        where = "is not stored" if found is None else f"is at version {found}"
        super().__init__(
            f"turn {turn_id} {where}, not at {expected}: another runner moved it; restore it and try again."
        )
        self.turn_id, self.expected, self.found = turn_id, expected, found


class TurnNotFoundError(AgentFlexError, KeyError):
    """No such turn in this store."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.turn_id = turn_id

    def __str__(self) -> str:
        return f"no turn {self.turn_id!r} in this store: look it up in lab.turns(), or open the lab that ran it."


class ResultNotFoundError(AgentFlexError, KeyError):
    """There is no such result of a tool, or it cannot be had as a value; `why` says which."""

    def __init__(self, call_id: str, why: str, mend: str) -> None:
        super().__init__(call_id)
        self.call_id, self.why, self.mend = call_id, why, mend

    def __str__(self) -> str:
        return f"the result of call {self.call_id!r} {self.why}: {self.mend}."


class TurnFailedError(AgentFlexError):
    """The turn did not complete; carries the turn's id, its status and what failed."""

    def __init__(self, turn_id: str, status: str, kind: str, message: str) -> None:
        what = f"{kind}: {message}" if kind else message
        super().__init__(f"turn {turn_id} is {status}{': ' + what if what else ''}")
        self.turn_id, self.status, self.kind, self.message = turn_id, status, kind, message


class UnansweredError(AgentFlexError):
    """A question met a place where nobody can answer; `questions` are what is open."""

    def __init__(self, turn_id: str, questions: Sequence[Any], why: str) -> None:
        asked = "; ".join(str(question) for question in questions)
        super().__init__(
            f"turn {turn_id} waits for an answer, {why}. Open: {asked}. "
            "Answer in code (turn.approve(), turn.reject(reason), turn.submit(data)) or pass responder=."
        )
        self.turn_id, self.questions, self.why = turn_id, tuple(questions), why


class ConversationBusyError(AgentFlexError):
    """The conversation has a turn that has not ended."""

    def __init__(self, conversation_id: str, active_turn_ids: Sequence[str]) -> None:
        active = ", ".join(active_turn_ids)
        super().__init__(
            f"conversation {conversation_id!r} is busy with turn {active}: answer it, cancel it, or move it on "
            "(restore(turn_id).run_until_blocked()) before the next message."
        )
        self.conversation_id, self.active_turn_ids = conversation_id, tuple(active_turn_ids)


class AgentVersionNotFoundError(AgentFlexError, LookupError):
    """The loader has no such agent id and version; `known` are the versions it has."""

    def __init__(self, agent_id: str, agent_version: str, known: Sequence[str]) -> None:
        if known:
            met = f"is not registered; known versions: {', '.join(known)}"
            mend = (
                "a definition that changed is another version: register it as it was, give it version=, or restore the "
                "turn with migrate_to="
            )
        else:
            met, mend = "is not registered, nor any other version of it", "lab.register(agent) first"
        super().__init__(f"agent {agent_id!r} version {agent_version!r} {met}: {mend}.")
        self.agent_id, self.agent_version, self.known = agent_id, agent_version, tuple(known)


class AgentDriftError(AgentFlexError):
    """An agent is not what this version of it was, or does not fit a turn. Nothing changed.

    `differences` are what is known of it, part by part; empty where the agent is another one altogether.
    """

    def __init__(
        self, agent_id: str, agent_version: str, met: str, mend: str, differences: Sequence["AgentDifference"] = ()
    ) -> None:
        listed = _bounded("".join(f"\n- {difference}" for difference in differences))
        what = f":{listed}\n{mend[:1].upper()}{mend[1:]}" if differences else f"; {mend}"
        super().__init__(f"agent {agent_id!r} version {agent_version!r} {met}{what}.")
        self.agent_id, self.agent_version, self.met, self.mend = agent_id, agent_version, met, mend
        self.differences = tuple(differences)


class WrongThreadError(AgentFlexError, RuntimeError):
    """A blocking call was made on the runtime's own event loop, where it would wait for itself."""

    def __init__(self, met: str, mend: str) -> None:
        super().__init__(f"{met} was called on the runtime's event loop, where it would wait for itself: use {mend}.")
        self.met, self.mend = met, mend


class MissingExtraError(AgentFlexError, ImportError):
    """Something was asked for that needs an optional package, and the package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: pip install 'agentflex-nb[{extra}]'.")
        self.package, self.extra = package, extra


class ModelError(AgentFlexError):
    """A model call failed. `retryable` is the class's: whether the same call may succeed later.

    Args:
        message: What was met.
        status: The HTTP status, where there was one.
        provider_code: The provider's own word for it.
        request_id: Under which the provider finds the call.
        retry_after: Seconds that the provider asks to wait; a lower bound.
    """

    retryable = False

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        provider_code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.provider_code, self.request_id, self.retry_after = (
            status,
            provider_code,
            request_id,
            retry_after,
        )


class RateLimitError(ModelError):
    """Too many calls at the moment."""

    retryable = True


class OverloadedError(ModelError):
    """The provider has no capacity at the moment, or a fault of its own."""

    retryable = True


class ModelConnectionError(ModelError):
    """The provider could not be reached, or took too long."""

    retryable = True


class TruncatedStreamError(ModelError):
    """The model's stream ended without saying that it had finished."""

    retryable = True


class QuotaExceededError(ModelError):
    """The account has no budget left; trying again spends time, not money."""


class AuthenticationError(ModelError):
    """The key is missing, wrong, or not allowed to do this."""


class BadRequestError(ModelError):
    """The provider refuses the request as it stands."""


class ContextLengthError(ModelError):
    """The conversation does not fit into the model's context."""


class ContentFilterError(ModelError):
    """The provider withholds the answer."""


class EmptyReplyError(ModelError):
    """The model returned nothing at all: no text, no calls, no finish."""


class RecordingEndedError(ModelError):
    """A recorded model was asked for more messages than were recorded."""


class QueryError(AgentFlexError, ValueError):
    """A question to the tables that cannot be answered as it is put: what was met, and what to do."""

    def __init__(self, query: str, met: str, mend: str) -> None:
        super().__init__(f"{met}: {mend}")
        self.query, self.met, self.mend = query, met, mend


class StoreError(AgentFlexError):
    """The record could not be kept; what was acknowledged before stands."""


class LabLockedError(StoreError):
    """Another process, or another path to the same file, holds the lab."""

    def __init__(self, path: str, holder: str, mend: str) -> None:
        super().__init__(f"{path} is held by {holder}: {mend}.")
        self.path, self.holder = path, holder


class NewerFormatError(StoreError):
    """A newer version of this package wrote it, and this one would misread it."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"{what} has format {found}, and this version reads up to {known}: upgrade agentflex-nb to open it."
        )
        self.what, self.found, self.known = what, found, known


class StoreDamagedError(StoreError):
    """The file cannot be read as it stands."""

    def __init__(self, path: str, found: str, mend: str) -> None:
        super().__init__(f"{path} is damaged ({found}): {mend}.")
        self.path, self.found = path, found


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """What is kept of an exception: its type's name, its text, and what decides whether to try again."""

    kind: str
    message: str
    code: str = ""
    retryable: bool = False
    retry_after: float | None = None
    """Seconds that whoever failed asks to wait."""
    status: int | None = None
    """The HTTP status, where there was one."""
    provider_code: str = ""
    request_id: str = ""
