"""Trying again: whether, when, and what follows the last attempt.

Rule 1: only what may succeed later is tried again, and a tool only if running it twice is safe.
Rule 2: the schedule is part of the saved turn: a retry that fell due while nobody was there is simply due.
"""

import zlib
from datetime import timedelta

from .agent import AgentRetryPolicy, WhenExhausted
from .errors import ErrorSummary
from .event_data import error_data
from .events import EventType
from .frozen import FrozenDict
from .machine import SuspensionType
from .messages import ToolCall
from .steps import wait_for
from .story import Advance, Story
from .turn import AgentSuspension, Question


def delay(policy: AgentRetryPolicy, attempt: int, key: str, asked: float | None = None) -> float:
    """Seconds to wait after this attempt (1 for the first) of the operation that `key` names.

    >>> policy = AgentRetryPolicy(initial_delay=1, factor=2, max_delay=5, jitter=0)
    >>> [delay(policy, attempt, "t1") for attempt in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5.0]
    """
    steady = policy.initial_delay
    for _ in range(attempt - 1):
        if steady >= policy.max_delay:
            break
        steady *= policy.factor
    chance = zlib.crc32(f"{policy.seed}:{key}:{attempt}".encode()) / 2**32  # the same number on every replay
    spread = min(steady, policy.max_delay) * (1 + policy.jitter * (2 * chance - 1))
    return float(min(max(spread, asked or 0.0), policy.max_delay))


def try_again(
    story: Story, error: ErrorSummary, attempt: int, key: str, call: ToolCall | None = None
) -> Advance | None:
    """Wait for another attempt of what failed, the model call or `call`; None if none is left, or none would help."""
    policy = story.identity.policy.retry
    if not error.retryable or attempt > policy.max_retries:
        return None
    due_at = story.now + timedelta(seconds=delay(policy, attempt, key, error.retry_after))
    story.tell(
        EventType.RETRY_SCHEDULED,
        retry_count=attempt,
        next_runnable_at=due_at.isoformat(),
        error=error_data(error),
        tool_call_id=call.id if call else None,
        tool_name=call.name if call else None,
    )
    question = Question(
        id=f"{key}.retry.{story.step_count}",
        call_id=call.id if call else "",
        tool_name=call.name if call else "",
        type=SuspensionType.RETRY,
        message=f"attempt {attempt} failed ({error.message}); the next one is due at {due_at:%H:%M:%S} UTC",
        code=error.code,
    )
    return wait_for(story, AgentSuspension(questions=(question,), resume_phase=story.phase, due_at=due_at))


def ask_about_model(story: Story, error: ErrorSummary) -> Advance | None:
    """Let a person decide about a model that failed every attempt; None where the policy says to fail instead."""
    if not error.retryable or story.identity.policy.retry.when_exhausted is not WhenExhausted.SUSPEND:
        return None
    failure = FrozenDict(
        failure_id=f"{story.identity.id}.model.{story.step_count}",
        type=error.kind,
        message=error.message,
        http_status=error.status,
        provider_error_code=error.provider_code,
        request_id=error.request_id,
        attempts=story.attempt,
    )
    question = Question(
        id=failure["failure_id"],
        type=SuspensionType.MODEL,
        message=f"the model failed ({error.message}), and no attempt is left: retry, or cancel the turn",
        code=error.code,
    )
    story.attempt = 1
    metadata = FrozenDict(model_failure=failure)
    return wait_for(story, AgentSuspension(questions=(question,), resume_phase=story.phase, metadata=metadata))
