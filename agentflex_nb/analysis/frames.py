"""Each table of a lab as a frame: narrowed down in DuckDB, with the same columns in the same order every time."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..core.errors import QueryError
from ..core.events import EventType
from ..core.machine import AgentPhase, AgentStatus, SuspensionType
from ..core.messages import Origin, Role
from ..store.archive import Archive
from .dtypes import to_frame

_STATUS, _PHASE = [str(status) for status in AgentStatus], [str(phase) for phase in AgentPhase]
_DECIDED = ["APPROVED", "REJECTED", "SUPPLIED", "DENIED", "PENDING", "EXPIRED", "INTERRUPTED", "CANCELLED"]

# frame -> the table or view it reads, what orders it
_SOURCES: Mapping[str, tuple[str, str]] = {
    "agents": ("agents", "first_seen_at, agent_id, agent_version"),
    "turns": ("turns", "created_at, turn_id"),
    "steps": ("steps", "turn_id, step"),
    "events": ("events", "turn_id, sequence"),
    "messages": ("used_messages", "turn_id, position"),
    "model_calls": ("model_calls", "turn_id, call_index"),
    "tool_calls": ("tool_results", "turn_id, call_index"),
    "suspensions": ("suspensions", "asked_at, turn_id, question_id"),
    "snapshots": ("snapshots", "turn_id, version"),
    "decisions": ("decisions", "requested_at, turn_id, call_index"),
}

# frame -> its closed sets, with all their members
_CLOSED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "agents": {},
    "turns": {"status": _STATUS, "phase": _PHASE},
    "steps": {},
    "events": {"type": [str(type) for type in EventType], "status": _STATUS, "phase": _PHASE},
    "messages": {"role": [str(role) for role in Role], "origin": [str(origin) for origin in Origin]},
    "model_calls": {"status": ["STARTED", "COMPLETED", "FAILED", "ABANDONED"]},
    "tool_calls": {
        "status": [
            "REQUESTED", "WAITING", "STARTED", "RETRYING", "COMPLETED", "FAILED", "DENIED", "INTERRUPTED", "NOT_RUN",
        ],
        "approval_outcome": _DECIDED,
    },
    "suspensions": {
        "type": [str(type) for type in SuspensionType],
        "outcome": [
            "PENDING", "APPROVED", "REJECTED", "SUBMITTED", "DECLINED", "ANSWERED", "SUPPLIED", "RETRIED", "CONTINUED",
            "EXPIRED", "INTERRUPTED", "CANCELLED",
        ],
    },
    "snapshots": {"status": _STATUS, "phase": _PHASE},
    "decisions": {"decision": ["ALLOW", "ASK", "DENY"], "outcome": _DECIDED},
}  # fmt: skip

# what the fold keeps for itself
_INNER = frozenset({"first_event_pk", "reserved", "logged"})

Where = Mapping[str, Any] | str


def frame(
    archive: Archive,
    name: str,
    *,
    where: Where | None = None,
    params: Sequence[Any] = (),
    turn: Any = None,
    columns: Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """One table as a frame.

    Args:
        archive: Where to ask.
        name: agents, turns, steps, events, messages, model_calls, tool_calls, suspensions, snapshots or
            decisions.
        where: A mapping from columns to a value, several values, or None for missing; or a condition in SQL, whose
            `?` are filled from `params`.
        params: Values for a condition in SQL.
        turn: A turn, its id, or several of them.
        columns: Which ones, in this order; all by default.
        order: One or several columns, each with " desc" where it should run down.
        limit: At most so many rows.

    Raises:
        QueryError: no such column, or a condition that cannot be read.
    """
    source, usual = _SOURCES[name]
    known = _columns(archive, source)
    chosen = [_column(column, known) for column in columns] if columns is not None else known
    conditions, values = _conditions(where, params, known)
    if turn is not None:
        conditions.append("turn_id in (select unnest(?))")
        values.append([_turn_id(one) for one in _several(turn)])
    text = f"select {', '.join(map(_quoted, chosen))} from {source}"
    if conditions:
        text += f" where {' and '.join(f'({condition})' for condition in conditions)}"
    text += f" order by {_ordered(order, known) or usual}"
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise QueryError(str(limit), f"limit={limit!r}", "a whole number, 0 or more")
        text += " limit ?"
        values.append(limit)
    closed = {column: members for column, members in _CLOSED[name].items() if column in chosen}
    return to_frame(archive.query(text, values), closed)


def _columns(archive: Archive, source: str) -> list[str]:
    return [column for column in archive.query(f"from {source} limit 0").column_names if column not in _INNER]


def _conditions(where: Where | None, params: Sequence[Any], known: list[str]) -> tuple[list[str], list[Any]]:
    if isinstance(where, str):
        return [where], list(params)
    conditions: list[str] = []
    values: list[Any] = []
    for column, wanted in (where or {}).items():
        quoted = _quoted(_column(column, known))
        if wanted is None:
            conditions.append(f"{quoted} is null")
        elif isinstance(wanted, Iterable) and not isinstance(wanted, str):
            conditions.append(f"{quoted} in (select unnest(?))")
            values.append(list(wanted))
        else:
            conditions.append(f"{quoted} = ?")
            values.append(wanted)
    return conditions, values


def _ordered(order: str | Sequence[str] | None, known: list[str]) -> str:
    parts = []
    for part in [order] if isinstance(order, str) else order or ():
        column, _, direction = part.strip().partition(" ")
        if direction.strip().lower() not in ("", "asc", "desc"):
            raise QueryError(part, f"the order {part!r}", "a column, with ' desc' behind it where it should run down")
        parts.append(f"{_quoted(_column(column, known))} {direction.strip()}".strip())
    return ", ".join(parts)


def _column(name: str, known: list[str]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(str(name), known, 1)
    mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise QueryError(str(name), f"no column {name!r}", mend)


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _several(turn: Any) -> Iterable[Any]:
    return turn if isinstance(turn, Iterable) and not isinstance(turn, str) else [turn]


def _turn_id(turn: Any) -> str:
    id = getattr(turn, "id", turn)
    if not isinstance(id, str):
        raise QueryError(str(turn), f"turn={turn!r}", "pass a turn, its id, or several of them")
    return id
