"""An approval policy tried on the past: which calls would it have decided otherwise?

Rule 1: nothing is changed, and nothing runs but the policy.
Rule 2: the policy speaks alone, on the call as the model made it. A tool's own `approval=` would be asked beside it;
the column `own_approval` says which tools have one.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from tqdm import tqdm

from ..core.frozen import EMPTY, freeze, well_formed
from ..core.machine import AgentPhase, AgentStatus
from ..core.messages import ToolCall
from ..core.rules import ApprovalRules
from ..core.turn import PendingCall, Turn
from ..core.verdicts import Strictness, Verdict, decided
from ..runtime.agent import ApprovalPolicy
from ..runtime.loop import wait_for
from ..runtime.tools import Tool
from ..store import history
from ..store.archive import Archive
from .dtypes import flags, members, text
from .frames import Where, frame

_BATCH = 100  # turns whose states are read at once
_SLOW = 1.0  # seconds of work before a progress bar shows
_ERROR = 1_000  # characters kept of what a policy raised

Judge = Callable[[Any], Verdict]
"""The decision on a row of the frame `decisions`."""


def what_if(
    archive: Archive,
    policy: ApprovalRules | ApprovalPolicy,
    *,
    where: Where | None = None,
    params: Sequence[Any] = (),
    turn: Any = None,
    unchanged: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """The calls of the past on which this policy decides otherwise than was decided then, and those on which it fails.

    Rules are given the call and the schema of its tool. A function `f(turn, call, tool)` is given the turn as it stood
    when the reply with the call had come (from the state that was saved next: history, answers and counters are those
    of then), and the tool as the lab has it written down, which cannot be run.

    Args:
        archive: Where the past is.
        policy: Rules, or a function as an agent takes it.
        where, params, turn: Which calls, by the columns of `decisions`, as for every frame.
        unchanged: List also the calls on which the decision stays the same.
        progress: Show how far it is, if it takes longer than a second.

    Raises:
        QueryError: `where` names no column, or cannot be read.
    """
    calls = frame(archive, "decisions", where=where, params=params, turn=turn, order=("turn_id", "call_index"))
    judge = _judge(archive, policy, calls)
    verdicts: list[Verdict | None] = []
    errors: list[str | None] = []
    for call in tqdm(calls.itertuples(), total=len(calls), unit="call", delay=_SLOW, disable=not progress):
        verdict, error = _tried(judge, call)
        verdicts.append(verdict)
        errors.append(error)
    found = _beside(calls, verdicts, errors, _own_approvals(archive, calls))
    kept = found if unchanged else found[found["changes"].fillna(True).astype(bool)]
    return kept.sort_values(["requested_at", "turn_id", "call_index"], ignore_index=True)


def _tried(judge: Judge, call: Any) -> tuple[Verdict | None, str | None]:
    try:
        return judge(call), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the policy is somebody's code: whatever it raises belongs to this call alone
        return None, well_formed(f"{type(error).__name__}: {error}"[:_ERROR])


def _beside(
    calls: pd.DataFrame, verdicts: Sequence[Verdict | None], errors: Sequence[str | None], own: Sequence[bool | None]
) -> pd.DataFrame:
    """The calls, with what was decided then and what would be decided now."""
    then = {name: f"{name}_then" for name in ("decision", "outcome", "rule")}
    found = calls.drop(columns=["code", "message", "reason"]).rename(columns=then)
    now = [verdict.strictness.name if verdict else None for verdict in verdicts]
    found["decision_now"] = members(now, [strictness.name for strictness in Strictness])
    differs = [after != before if after else None for before, after in zip(found["decision_then"], now, strict=True)]
    found["changes"] = flags(differs)
    found["rule_now"] = text([verdict.metadata.get("rule") if verdict else None for verdict in verdicts])
    for name in ("code", "message", "reason"):
        found[name] = text([getattr(verdict, name) or None if verdict else None for verdict in verdicts])
    found["error"] = text(errors)
    found["own_approval"] = flags(own)
    return found


# -- the policy --------------------------------------------------------------------------------------------------------


def _judge(archive: Archive, policy: ApprovalRules | ApprovalPolicy, calls: pd.DataFrame) -> Judge:
    specs = _specs(archive)
    if isinstance(policy, ApprovalRules):
        rules = policy
        return lambda call: rules.judge(
            call.tool_name, freeze(json.loads(call.arguments)), _spec(specs, call)["parameters"]
        )
    states = _states(archive, list(dict.fromkeys(calls["turn_id"])))
    tools: dict[tuple[str, str, str], Tool] = {}

    def judge(call: Any) -> Verdict:
        turn = states(call.turn_id, call.step)
        made = next(pending.call for pending in turn.pending if pending.call.id == call.tool_call_id)
        key = (call.agent_id, call.agent_version, call.tool_name)
        tool = tools[key] = tools.get(key) or _tool(call.tool_name, _spec(specs, call))
        said: Any = policy(turn, made, tool)
        return decided(wait_for(said) if inspect.isawaitable(said) else said, call.tool_name)

    return judge


def _tool(name: str, spec: Mapping[str, Any]) -> Tool:
    def recorded(**_: Any) -> None:
        raise RuntimeError(f"{name} is a tool of the past: it can be looked at, and not run")

    return Tool(
        name=name,
        description=spec.get("description", ""),
        function=recorded,
        parameters=spec["parameters"],
        idempotent=spec.get("idempotent", False),
        external=spec.get("external", False),
        parallel=spec.get("parallel", False),
    )


# -- the past ----------------------------------------------------------------------------------------------------------

_UNKNOWN: Mapping[str, Any] = {"parameters": EMPTY}  # a tool of which the lab has nothing written down

Specs = Mapping[tuple[str, str], Mapping[str, Any]]
"""Agent id and version -> tool name -> the tool as it was written down."""


def _specs(archive: Archive) -> Specs:
    found = archive.rows("select agent_id, agent_version, tools from agent_versions")
    return {(id, version): {tool["name"]: tool for tool in json.loads(tools)} for id, version, tools in found}


def _spec(specs: Specs, call: Any) -> Mapping[str, Any]:
    known: Mapping[str, Any] = specs.get((call.agent_id, call.agent_version), {}).get(call.tool_name, _UNKNOWN)
    return known


def _own_approvals(archive: Archive, calls: pd.DataFrame) -> list[bool | None]:
    specs = _specs(archive)
    return [_spec(specs, call).get("guarded") for call in calls.itertuples()]


def _states(archive: Archive, turn_ids: list[str]) -> Callable[[str, int], Turn]:
    """The turn as it was when the reply of a step had come; read in batches, in the order of `turn_ids`."""
    batches = _batches(archive, turn_ids)
    known: dict[tuple[str, int], Turn] = {}

    def state(turn_id: str, step: int) -> Turn:
        while (turn_id, step) not in known:
            known.clear()
            known.update(next(batches))
        return _rewound(known[turn_id, step])

    return state


def _batches(archive: Archive, turn_ids: list[str]) -> Iterator[dict[tuple[str, int], Turn]]:
    for start in range(0, len(turn_ids), _BATCH):
        yield history.at_replies(archive, turn_ids[start : start + _BATCH])


def _rewound(turn: Turn) -> Turn:
    """The turn before any of the calls of its last message was judged."""
    calls: tuple[ToolCall, ...] = turn.messages[-1].tool_calls
    begun = sum(pending.counted for pending in turn.pending)
    return replace(
        turn,
        status=AgentStatus.RUNNING,
        phase=AgentPhase.TOOLS,
        step_open=True,
        pending=tuple(PendingCall(call=call) for call in calls),
        tool_call_count=turn.tool_call_count - begun,
        suspension=None,
        output=None,
        error=None,
        ended_at=None,
    )
