"""The agents of a lab: what every version is, its code included, kept beside what it did."""

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from ..core.agent import AgentDefinition, AgentExecutionPolicy
from ..core.drift import AgentRecord, AgentSource
from ..core.errors import AgentVersionNotFoundError, StoreDamagedError
from ..core.frozen import freeze
from ..runtime.loader import drifted
from .archive import Archive, sql
from .shapes import shape_of

# field of the definition -> its column; the limits, and what has no column of its own, stand in column policy
_COLUMNS = {
    "id": "agent_id",
    "version": "agent_version",
    "name": "name",
    "description": "description",
    "instructions": "instructions",
    "model_name": "model",
    "model_options": "model_options",
    "tools": "tools",
    "forms": "forms",
}
_JSON = ("model_options", "tools", "forms", "policy", "sources")
_LIMITS = frozenset(field.name for field in fields(AgentExecutionPolicy))


def keep_agent(archive: Archive, record: AgentRecord, now: datetime) -> None:
    """Write the version down, once. One whose fingerprint was made the old way is written anew.

    Raises:
        AgentDriftError: this lab knows the same id and version with another fingerprint; says in what they differ.
    """
    id, version = record.definition.id, record.definition.version
    known = archive.rows(
        "select fingerprint from agent_versions where agent_id = ? and agent_version = ?", [id, version]
    )
    if not known or not known[0][0]:
        archive.query(sql("keep_agent"), {**_row(record), "first_seen_at": now}, write=True)
    elif known[0][0] != record.fingerprint:
        raise drifted(read_agent(archive, id, version), record, "is known to this lab with another definition")


def read_agent(archive: Archive, agent_id: str, agent_version: str) -> AgentRecord:
    """A version as it was written down.

    Raises:
        AgentVersionNotFoundError: this lab has never met it.
        StoreDamagedError: what stands there is not understood.
    """
    rows = archive.rows(sql("read_agent"), {"agent_id": agent_id, "agent_version": agent_version})
    if not rows:
        known = archive.rows(
            "select agent_version from agent_versions where agent_id = ? order by first_seen_at", [agent_id]
        )
        raise AgentVersionNotFoundError(agent_id, agent_version, [version for (version,) in known])
    row = dict(zip((*_COLUMNS.values(), "policy", "sources", "fingerprint"), rows[0], strict=True))
    try:
        return _record(row | {name: json.loads(row[name] or "null") for name in _JSON})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        mend = "restore it from a copy; what its turns did is not touched by this"
        met = f"version {agent_version!r} of agent {agent_id!r} is not understood: {error}"
        raise StoreDamagedError(archive.path, met, mend) from error


def _row(record: AgentRecord) -> Mapping[str, Any]:
    data = dict(freeze(record.definition))
    row = {column: data.pop(field) for field, column in _COLUMNS.items()}
    row |= {"policy": {**data.pop("execution_policy"), **data}, "sources": freeze(record.sources)}
    row |= {name: json.dumps(row[name], ensure_ascii=False) for name in _JSON}
    return {**row, "fingerprint": record.fingerprint}


def _record(row: Mapping[str, Any]) -> AgentRecord:
    data = {field: row[column] for field, column in _COLUMNS.items()}
    data["execution_policy"] = {name: part for name, part in row["policy"].items() if name in _LIMITS}
    data |= {name: part for name, part in row["policy"].items() if name not in _LIMITS}
    return AgentRecord(
        definition=shape_of(AgentDefinition).decode(data),
        sources=tuple(shape_of(AgentSource).decode(source) for source in row["sources"] or ()),
        fingerprint=row["fingerprint"],
    )
