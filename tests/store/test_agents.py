"""What every version of an agent is stands in the lab, once, beside what it did."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentDefinition, AgentExecutionPolicy, AgentRetryPolicy, ToolDefinition
from agentflex_nb.core.drift import AgentRecord, AgentSource
from agentflex_nb.core.errors import AgentDriftError, AgentVersionNotFoundError, StoreDamagedError
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import freeze
from agentflex_nb.store.agents import keep_agent, read_agent
from agentflex_nb.store.archive import Archive

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOL = ToolDefinition(
    name="refund", description="Refund.", parameters=freeze({"type": "object"}), guarded=True, external=True
)
POLICY = AgentExecutionPolicy(
    max_steps=7, retry=AgentRetryPolicy(max_retries=1, when_exhausted="SUSPEND"), budget=AgentBudget(max_seconds=2.5)
)
DESK = AgentDefinition(
    id="desk", version="v1", name="Desk", instructions="Be kind.", model_name="m", model_options=freeze({"t": 0.5}),
    tools=(TOOL,), forms=(AgentForm(key="seat", description="Where?", schema=freeze({"type": "object"})),),
    execution_policy=POLICY, guarded=True, max_attached_turns=3,
)  # fmt: skip
SOURCE = AgentSource(part="tool refund", name="refund", module="shop", code="c1", text="def refund(): ...\n")
RECORD = AgentRecord(definition=DESK, sources=(SOURCE,), fingerprint="f1")


@pytest.fixture
def archive():
    archive = Archive()
    yield archive
    archive.close()


def test_a_version_is_written_down_with_its_tools_limits_and_code(archive):
    keep_agent(archive, RECORD, NOW)

    [(id, version, instructions, tools, policy, sources, seen)] = archive.rows(
        "select agent_id, agent_version, instructions, tools, policy, sources, first_seen_at from agent_versions"
    )
    assert (id, version, instructions, seen) == ("desk", "v1", "Be kind.", NOW)
    assert json.loads(tools) == [
        {
            "name": "refund",
            "description": "Refund.",
            "parameters": {"type": "object"},
            "guarded": True,
            "idempotent": False,
            "external": True,
            "parallel": False,
            "on_error": None,
            "max_result_chars": 0,
        }
    ]
    limits = json.loads(policy)
    assert (limits["max_iterations"], limits["max_steps"], limits["guarded"]) == (20, 7, True)
    assert (limits["retry"]["when_exhausted"], limits["budget"]["max_seconds"]) == ("SUSPEND", 2.5)
    assert json.loads(sources)[0]["text"] == "def refund(): ...\n"


def test_what_is_read_is_what_was_written(archive):
    keep_agent(archive, RECORD, NOW)

    assert read_agent(archive, "desk", "v1") == RECORD


def test_the_same_version_again_adds_no_row(archive):
    """K03."""
    keep_agent(archive, RECORD, NOW)
    keep_agent(archive, RECORD, NOW)

    assert archive.rows("select count(*) from agent_versions") == [(1,)]


def test_the_same_version_with_another_definition_is_refused_and_the_error_says_in_what(archive):
    """K34."""
    keep_agent(archive, RECORD, NOW)
    other = replace(RECORD, definition=replace(DESK, instructions="Be brief."), fingerprint="f2")

    with pytest.raises(AgentDriftError, match="Give the new one a new version") as refused:
        keep_agent(archive, other, NOW)

    [difference] = refused.value.differences
    assert (difference.part, difference.known, difference.met) == ("instructions", "Be kind.", "Be brief.")
    assert archive.rows("select fingerprint from agent_versions") == [("f1",)]


def test_a_version_whose_fingerprint_is_not_known_is_written_anew_and_keeps_when_it_was_met(archive):
    keep_agent(archive, RECORD, NOW)
    archive.query("update agent_versions set fingerprint = '', sources = null, policy = '{}'", write=True)
    assert read_agent(archive, "desk", "v1").sources == ()

    keep_agent(archive, replace(RECORD, fingerprint="f2"), NOW + timedelta(days=1))

    assert read_agent(archive, "desk", "v1") == replace(RECORD, fingerprint="f2")
    assert archive.rows("select first_seen_at, count(*) over () from agent_versions") == [(NOW, 1)]


def test_a_version_that_was_never_met_is_an_error_that_names_those_that_were(archive):
    keep_agent(archive, RECORD, NOW)

    with pytest.raises(AgentVersionNotFoundError, match="known versions: v1"):
        read_agent(archive, "desk", "v2")


def test_a_row_that_is_not_understood_is_damage(archive):
    keep_agent(archive, RECORD, NOW)
    archive.query("""update agent_versions set policy = '{"surprise": 1}'""", write=True)

    with pytest.raises(StoreDamagedError, match="surprise"):
        read_agent(archive, "desk", "v1")
