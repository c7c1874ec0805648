"""What the agent's own code says about a call before it runs. The stricter of two verdicts wins."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from .errors import InvalidAgentError
from .frozen import EMPTY, FrozenDict, freeze_strict


class Strictness(IntEnum):
    """How a call may go on; a higher number is stricter."""

    ALLOW = 0
    ASK = 1
    DENY = 2
    INVALID = 3
    """The arguments do not fit the tool: nothing to run, nothing to approve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One judgement of one call."""

    strictness: Strictness
    code: str = ""
    message: str = ""
    reason: str = ""
    metadata: FrozenDict = EMPTY
    expires_in: float | None = None
    """Seconds after which an approval that is asked for resolves by itself."""
    when_expired: str = "REJECT"
    """To what: REJECT or APPROVE."""


ALLOWED = Verdict(strictness=Strictness.ALLOW)


class ToolApprovalDecision:
    """What an approval policy returns for a call: ALLOW, `deny(...)` or `require_approval(...)`."""

    ALLOW = ALLOWED

    @staticmethod
    def deny(reason: str = "", *, code: str = "DENIED", message: str = "", **metadata: Any) -> Verdict:
        """Never run it; the model is told code and reason."""
        return _verdict(Strictness.DENY, code, message, reason, metadata)

    @staticmethod
    def require_approval(
        message: str = "",
        *,
        code: str = "APPROVAL_REQUIRED",
        reason: str = "",
        expires_in: float | None = None,
        when_expired: str = "REJECT",
        **metadata: Any,
    ) -> Verdict:
        """Ask a person first; without an answer within `expires_in` seconds it resolves to `when_expired`."""
        if when_expired not in ("REJECT", "APPROVE"):
            raise InvalidAgentError(f"when_expired={when_expired!r}", "REJECT or APPROVE", "correct the policy")
        asked = _verdict(Strictness.ASK, code, message, reason, metadata)
        return replace(asked, expires_in=expires_in, when_expired=when_expired)


def _verdict(strictness: Strictness, code: str, message: str, reason: str, metadata: dict[str, Any]) -> Verdict:
    kept = freeze_strict({**metadata.pop("metadata", {}), **metadata}, "metadata")
    return Verdict(strictness=strictness, code=code, message=message, reason=reason, metadata=kept)


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """The stricter of two verdicts; the first where they are equal."""
    return other if other.strictness > one.strictness else one


def decided(said: object, tool_name: str) -> Verdict:
    """What an approval policy said, as a verdict: it may say True (ask), False (allow), or a verdict of its own.

    Raises:
        TypeError: it said something else.
    """
    if isinstance(said, Verdict):
        return said
    if said is True:
        return ToolApprovalDecision.require_approval(f"{tool_name} asks for approval")
    if said is False:
        return ALLOWED
    raise TypeError(f"the approval of {tool_name} returned {said!r}: expected True, False or a ToolApprovalDecision")
