"""What every version of an agent is stands in the lab, once, beside what it did."""

import json
from datetime import UTC, datetime

import pytest

from agentflex_nb.core.agent import AgentDefinition, ToolDefinition
from agentflex_nb.core.errors import AgentDriftError
from agentflex_nb.store.agents import keep_agent
from agentflex_nb.store.archive import Archive

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOL = ToolDefinition(name="refund", description="Refund.", parameters={"type": "object"}, guarded=True)
DESK = AgentDefinition(id="desk", version="v1", name="Desk", instructions="Be kind.", model_name="m", tools=(TOOL,))


@pytest.fixture
def archive():
    archive = Archive()
    yield archive
    archive.close()


def test_a_version_is_written_down_with_its_tools_and_limits(archive):
    keep_agent(archive, DESK, "f1", NOW)

    [(id, version, instructions, tools, policy, seen)] = archive.rows(
        "select agent_id, agent_version, instructions, tools, policy, first_seen_at from agent_versions"
    )
    assert (id, version, instructions, seen) == ("desk", "v1", "Be kind.", NOW)
    assert json.loads(tools) == [
        {
            "name": "refund",
            "description": "Refund.",
            "parameters": {"type": "object"},
            "guarded": True,
            "idempotent": False,
            "external": False,
            "parallel": False,
        }
    ]
    assert json.loads(policy)["max_iterations"] == DESK.execution_policy.max_iterations


def test_the_same_version_again_adds_no_row(archive):
    keep_agent(archive, DESK, "f1", NOW)
    keep_agent(archive, DESK, "f1", NOW)

    assert archive.rows("select count(*) from agent_versions") == [(1,)]


def test_the_same_version_with_another_definition_is_refused(archive):
    keep_agent(archive, DESK, "f1", NOW)

    with pytest.raises(AgentDriftError, match="give the new one a new version"):
        keep_agent(archive, DESK, "f2", NOW)

    assert archive.rows("select fingerprint from agent_versions") == [("f1",)]
