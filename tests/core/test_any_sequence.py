"""Whatever is said to a turn, in whatever order, right or wrong, early or late: it stays whole.

`AGENTFLEX_EXAMPLES=20000` looks longer. The invariants stand in rules.py.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentflex_nb.core.agent import AgentBudget, AgentRetryPolicy
from agentflex_nb.core.effects import CallModel, CheckCalls, OfferTools, RunTool
from agentflex_nb.core.errors import AgentFlexError, ErrorSummary
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    Cancel,
    CheckFailed,
    Expired,
    Input,
    Interrupt,
    Interrupted,
    Migrate,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    StepFailed,
    Suspend,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
    ToolsOffered,
)
from agentflex_nb.core.machine import AgentStatus, SuspensionType
from agentflex_nb.core.questions import OUTCOME_UNKNOWN
from agentflex_nb.core.turn import Question
from agentflex_nb.core.verdicts import ToolApprovalDecision

from .play import (
    ALLOW,
    ASK,
    DENY,
    EXTRA,
    FAIR,
    FORM,
    GO,
    INVALID,
    LENIENT,
    MARKET,
    Crash,
    Played,
    breaks,
    opened,
    piece,
    reply,
    wants,
    with_policy,
)
from .rules import FINAL

ERROR = ErrorSummary(kind="ValueError", message="boom")
SLOW = ErrorSummary(kind="RateLimitError", message="slow down", retryable=True)
SOON = ToolApprovalDecision.require_approval("May I?", expires_in=0.003)
VERDICTS = [ALLOW, ALLOW, ASK, DENY, INVALID, SOON]
CALLS = [
    wants("look"),
    wants("pay", amount=7),
    wants("mail", provider_id="call_0"),
    wants("request_user_input", form_key="address"),
    wants("request_user_input", form_key="nowhere"),
    wants("nonsense"),
    wants("look", malformed='{"order": '),
    wants("ship"),
    wants("export"),
    wants("scan"),
    wants("extra"),
]
STRAY_IDS = ["t1.1.0", "t1.1.1", "t1.2.0", "t9.1.0", "t1.ask.1", ""]


# What may be said at any time, with an id that may be known or not, and an id for a new question. The first of them end
# a turn that hears them.
SAY = AgentResumeCommand
STRAYS: list[Callable[[str, str], Input]] = [
    lambda id, ask: Cancel(reason="enough"),
    lambda id, ask: Interrupted("stop"),
    lambda id, ask: StepFailed(ERROR),
    lambda id, ask: CheckFailed(ERROR),
    lambda id, ask: breaks(),
    lambda id, ask: reply("late"),
    lambda id, ask: GO,
    lambda id, ask: Suspend(correlation_id=ask, message="?"),
    lambda id, ask: piece("late"),
    lambda id, ask: reply("", CALLS[0], CALLS[1]),
    lambda id, ask: CallsChecked({id: ASK}),
    lambda id, ask: ToolReturned(id, "late"),
    lambda id, ask: ToolFailed(id, ERROR, "Error"),
    lambda id, ask: ToolAsked(id, FORM),
    lambda id, ask: ToolProgressed(id, "late"),
    lambda id, ask: SAY.approve_tool(id),
    lambda id, ask: SAY.reject_tool(id, "no"),
    lambda id, ask: SAY.user_input(id, "words"),
    lambda id, ask: SAY.user_input(id, {"city": "Oslo"}),
    lambda id, ask: SAY.external_result(id, 1),
    lambda id, ask: SAY.retry(id),
    lambda id, ask: SAY.continue_(id),
    lambda id, ask: SAY.approve_tool(id, arguments={"amount": 1}),
    lambda id, ask: SAY.decline(id, "no"),
    lambda id, ask: Interrupt(message="Stop that."),
    lambda id, ask: Expired(id),
    lambda id, ask: ToolFailed(id, SLOW, "Error"),
    lambda id, ask: ModelRetried(error=SLOW),
    lambda id, ask: Migrate(agent_version=ask, definition_hash=id, instructions=id),
    lambda id, ask: ToolsOffered(resolved=(EXTRA,)),
]
ENDING = 6


@dataclass(frozen=True)
class Onward:
    """What fits is said: an effect is answered, a question too, or the turn is told to go on."""

    choice: int
    wanted: tuple[int, ...] = ()
    verdicts: tuple[int, ...] = (0, 0, 0, 0)


@dataclass(frozen=True)
class Stray:
    """Something is said that may fit by accident, or not at all."""

    kind: int
    id: int


WANTED = [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 9, 9, 10]  # places in CALLS, some more likely than others
wanted = st.lists(st.sampled_from(WANTED), min_size=1, max_size=4).map(tuple)
verdicts = st.lists(st.sampled_from(range(len(VERDICTS))), min_size=4, max_size=4).map(tuple)
onward = st.builds(Onward, choice=st.integers(0, 15), wanted=wanted, verdicts=verdicts)
answer = st.builds(Onward, choice=st.integers(0, 15))
stray = st.builds(Stray, kind=st.integers(ENDING, len(STRAYS) - 1), id=st.integers(0, 15))
ending = st.builds(Stray, kind=st.integers(0, ENDING - 1), id=st.integers(0, 15))
crash = st.builds(Crash, logged=st.booleans())
# most of what is said fits, or the turn would never come far
calm = st.lists(st.one_of(*[onward] * 12, stray, stray, crash), min_size=20, max_size=50)
wild = st.lists(st.one_of(*[onward] * 6, answer, stray, stray, crash, ending), min_size=10, max_size=30)
policies = st.sampled_from([
    LENIENT, LENIENT, LENIENT, None, with_policy(max_iterations=3), with_policy(max_steps=3),
    with_policy(max_iterations=0, max_steps=0), with_policy(retry=AgentRetryPolicy(when_exhausted="SUSPEND")),
    with_policy(budget=AgentBudget(max_tool_calls=3, max_total_tokens=200, max_seconds=0.02)),
    with_policy(budget=AgentBudget(max_tool_calls=2), retry=AgentRetryPolicy(max_retries=0)),
])  # fmt: skip

profile = settings(
    max_examples=int(os.environ.get("AGENTFLEX_EXAMPLES", "300")),
    deadline=None,
    derandomize="AGENTFLEX_EXAMPLES"
    not in os.environ,  # the same examples in every run, so that no run fails by chance
    suppress_health_check=[HealthCheck.too_slow],
)


@profile
@given(calm | wild, policies, st.booleans(), st.sampled_from([MARKET, FAIR]))
def test_a_turn_stays_whole_whatever_is_said_to_it(said: list[Any], policy: Any, streaming: bool, agent: Any):
    """I1, I3, I6, I7, E3, E6, E8, E27, A2, A7, A17, P4, P5, P14, X3, X6, Z21"""
    played = opened(agent=agent, policy=policy, streaming=streaming)

    crashed = False
    for move in said:
        crashed |= isinstance(move, Crash)
        _hear(played, move)
        _only_a_running_turn_asks(played)

    _starts_have_their_ends(played, crashed)
    _can_still_be_finished(played)
    _can_still_be_cancelled(played)


def _hear(played: Played, move: Any) -> None:
    """Let the turn hear it; one that it refuses changes nothing."""
    if isinstance(move, Crash):
        played.say(move)
        return
    before, told = played.turn, len(played.events)
    said = _onward(played, move) if isinstance(move, Onward) else _stray(played, move)
    if said is GO and played.effects:
        return  # the runner says it where nothing is under way: in an open step it means that its process has died
    try:
        played.say(said)
    except AgentFlexError:
        assert played.turn is before
        assert len(played.events) == told


def _onward(played: Played, move: Onward) -> Input:
    turn = played.turn
    if turn.questions:
        question = turn.questions[move.choice % len(turn.questions)]
        heard_at = played.now() + timedelta(milliseconds=1)
        late = question.expires_at is not None and heard_at >= question.expires_at
        return Expired(question.id) if late else _answer(question, move.choice)
    if not played.effects or turn.status is not AgentStatus.RUNNING:
        return GO
    started = [pending.call.id for pending in turn.pending if pending.started]
    match played.effects[0]:
        case OfferTools():
            hidden = frozenset({"look"} if move.choice % 2 else ())
            return ToolsOffered(hidden=hidden, resolved=(EXTRA,) if move.choice % 3 else ())
        case CallModel():
            return breaks() if move.choice == 15 else ModelFailed(error=SLOW) if move.choice > 12 else _reply(move)
        case CheckCalls(calls):
            verdicts = [VERDICTS[n] for n in move.verdicts]
            return CallsChecked({call.id: verdicts[n % 4] for n, call in enumerate(calls)})
        case RunTool():
            return _result(started[move.choice % len(started)], move.choice)
    raise AssertionError(played.effects)


def _reply(move: Onward) -> ModelReplied:
    return reply("" if move.choice % 2 else "words", *[CALLS[n] for n in move.wanted])


def _result(id: str, choice: int) -> Input:
    match choice % 8:
        case 0:
            return ToolFailed(id, ERROR, "Error: boom")
        case 1 | 2:
            return ToolAsked(id, FORM, "please")
        case 4:
            return ToolFailed(id, SLOW, "Error: slow down")
        case 3:
            return ToolProgressed(id, "half", freeze({"status": 1}))
        case _:
            return ToolReturned(id, "done")


def _answer(question: Question, choice: int) -> Input:
    if question.type is SuspensionType.RETRY:
        return SAY.continue_(question.id)
    if question.type is SuspensionType.MODEL:
        return SAY.retry(question.id)
    if question.type is SuspensionType.EXTERNAL_TOOL:
        return SAY.external_result(question.id, "sent", error="lost" if choice % 3 == 1 else None)
    if question.type is SuspensionType.USER_INPUT:
        return SAY.user_input(question.id, "words" if question.schema is None else {})
    if choice == 0:
        return SAY.reject_tool(question.id, "no", by="ann")
    if choice % 3 == 1 and question.code == OUTCOME_UNKNOWN:
        return SAY.external_result(question.id, "found out", error="failed" if choice > 4 else None)
    return SAY.approve_tool(question.id, by="ann")


def _stray(played: Played, move: Stray) -> Input:
    known = [call.id for message in played.turn.messages for call in message.tool_calls]
    ids = [*STRAY_IDS, *known, *(question.id for question in played.turn.questions)]
    return STRAYS[move.kind](ids[move.id % len(ids)], f"t1.ask.{played.turn.sequence + 1}")


def _only_a_running_turn_asks(played: Played) -> None:
    if played.effects:
        assert played.turn.status is AgentStatus.RUNNING
        assert played.turn.step_open


def _starts_have_their_ends(played: Played, crashed: bool) -> None:
    """What starts is told to be over before anything else of its kind is; only a crash may leave that out."""
    ends = {"MODEL_COMPLETED", "MODEL_FAILED"}
    told = [kind for kind in played.kinds if kind == "MODEL_STARTED" or kind in ends or kind in FINAL]
    lost = [pair for pair in pairwise(told) if pair[0] == "MODEL_STARTED" and pair[1] not in ends]
    assert crashed or not lost
    for id in {data["tool_call_id"] for data in played.every("TOOL_STARTED")}:
        told = [e.type.value for e in played.events if e.data.get("tool_call_id") == id and e.type != "TOOL_PROGRESS"]
        ended = {"TOOL_COMPLETED", "TOOL_FAILED", "TOOL_INTERRUPTED", "TOOL_INPUT_REQUESTED"}
        lost = [pair for pair in pairwise([*told, "."]) if pair[0] == "TOOL_STARTED" and pair[1] not in ended]
        assert crashed or not lost or played.turn.step_open
    for id in {data["tool_call_id"] for data in played.every("EXTERNAL_TOOL_REQUESTED")}:
        assert sum(data["tool_call_id"] == id for data in played.every("EXTERNAL_TOOL_REQUESTED")) == 1


def _copy(played: Played) -> Played:
    return Played(
        played.definition, played.turn, played.effects, [*played.events], played.committed, [""], played.ticks
    )


def _can_still_be_finished(played: Played) -> None:
    """Whoever answers what is asked comes to an end, and the next message is accepted."""
    other = _copy(played)
    for said in _until_the_end(other):
        other.say(said)
    assert other.turn.status.is_terminal


def _until_the_end(played: Played) -> Iterator[Input]:
    for _ in range(60):
        if played.turn.status.is_terminal:
            return
        yield _onward(played, Onward(choice=6))


def _can_still_be_cancelled(played: Played) -> None:
    """By whoever runs it at its next safe point, or, where nobody does, at once."""
    other = _copy(played)
    if not other.turn.status.is_terminal:
        other.say(Cancel())
    if not other.turn.status.is_terminal:
        other.say(GO)
        assert other.turn.status is AgentStatus.CANCELLED
