"""Budgets: what a turn has used up, and what it may. Waiting costs nothing."""

from datetime import datetime, timedelta

from .agent import AgentBudget
from .machine import AgentStatus
from .messages import Usage
from .story import Story
from .turn import Turn

Spent = tuple[str, float, float]
"""The key of a limit, what is used, what is allowed."""


def overspent(story: Story) -> Spent | None:
    """The first limit on time or tokens that is used up. Tokens that nobody counted limit nothing."""
    budget = story.identity.policy.budget
    if budget.max_seconds > 0 and _micros(story.active_seconds) >= _micros(budget.max_seconds):
        return "max_seconds", round(story.active_seconds, 3), budget.max_seconds
    return _overspent_tokens(story.usage, budget)


def no_call_left(story: Story) -> Spent | None:
    """The limit on tool calls, if one more call would go over it."""
    most = story.identity.policy.budget.max_tool_calls
    return ("max_tool_calls", story.tool_call_count, most) if 0 < most <= story.tool_call_count else None


def deadline(turn: Turn) -> datetime | None:
    """When a running turn will have used up its seconds; None without such a limit."""
    most = turn.identity.policy.budget.max_seconds
    if not most or turn.status is not AgentStatus.RUNNING or turn.seen_at is None:
        return None
    return turn.seen_at + timedelta(microseconds=max(_micros(most) - _micros(turn.active_seconds), 0))


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)  # a clock's finest step: sums of floats differ below it, and a deadline is exact


def _overspent_tokens(usage: Usage, budget: AgentBudget) -> Spent | None:
    # key, used, allowed: the limit itself may be used up, not passed
    for key, used, most in (
        ("max_total_tokens", usage.total_tokens, budget.max_total_tokens),
        ("max_input_tokens", usage.input_tokens, budget.max_input_tokens),
        ("max_output_tokens", usage.output_tokens, budget.max_output_tokens),
    ):
        if most and used is not None and used > most:
            return key, used, most
    return None
