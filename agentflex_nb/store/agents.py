"""The agents of a lab: what every version is, kept beside what it did."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..core.agent import AgentDefinition
from ..core.errors import AgentDriftError
from .archive import Archive, sql


def keep_agent(archive: Archive, definition: AgentDefinition, fingerprint: str, now: datetime) -> None:
    """Write the version down, once.

    Raises:
        AgentDriftError: this lab knows the same id and version with another fingerprint.
    """
    id, version = definition.id, definition.version
    known = archive.rows(
        "select fingerprint from agent_versions where agent_id = ? and agent_version = ?", [id, version]
    )
    if not known:
        archive.query(sql("keep_agent"), _row(definition, fingerprint, now), write=True)
    elif known[0][0] != fingerprint:
        difference = "this lab knows the same version with another definition; give the new one a new version"
        raise AgentDriftError(id, version, difference)


def _row(definition: AgentDefinition, fingerprint: str, now: datetime) -> Mapping[str, Any]:
    policy = definition.execution_policy
    return {
        "agent_id": definition.id,
        "agent_version": definition.version,
        "fingerprint": fingerprint,
        "name": definition.name,
        "description": definition.description,
        "instructions": definition.instructions,
        "model": definition.model_name,
        "model_options": json.dumps(definition.model_options),
        "tools": json.dumps(
            [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "guarded": tool.guarded,
                    "idempotent": tool.idempotent,
                    "external": tool.external,
                    "parallel": tool.parallel,
                }
                for tool in definition.tools
            ]
        ),
        "forms": json.dumps(
            [{"key": form.key, "description": form.description, "schema": form.schema} for form in definition.forms]
        ),
        "policy": json.dumps(
            {
                "max_iterations": policy.max_iterations,
                "max_steps": policy.max_steps,
                "tool_errors": policy.tool_errors,
                "guarded": definition.guarded,
                "max_attached_turns": definition.max_attached_turns,
                "max_attached_messages": definition.max_attached_messages,
            }
        ),
        "first_seen_at": now,
    }
