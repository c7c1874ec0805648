"""A lab that the first version made is opened, understood, and its turns go on. P11, K34."""

import gzip
from pathlib import Path

import pytest

import agentflex_nb as af

GOLDEN = Path(__file__).parent / "golden" / "lab_schema_1.duckdb.gz"


@af.tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def shop() -> af.Agent:
    calls = [af.ScriptedModel.call("pay", amount=7), af.ScriptedModel.call("pay", amount=8)]
    return af.Agent("shop", version="1", model=af.ScriptedModel(calls, "All paid."), tools=[pay])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lab = tmp_path / "old.duckdb"
    lab.write_bytes(gzip.decompress(GOLDEN.read_bytes()))
    return lab


def test_its_questions_are_read_with_the_calls_that_they_are_about(path):
    with af.Lab(path, display=False) as lab:
        asked = lab.suspensions()
        assert sorted(asked["outcome"]) == ["APPROVED", "PENDING", "PENDING"]
        assert list(asked["tool_call_id"]) == list(asked["question_id"])
        assert asked["expires_at"].isna().all()
        assert lab.turns()["migrated_from"].isna().all()


def test_its_questions_are_answered_and_its_turns_completed(path):
    with af.Lab(path, display=False) as lab:
        lab.register(shop())
        for id in list(lab.turns()["turn_id"]):
            assert lab.restore(id).approve().output == "All paid."
        assert lab.inbox().empty
        assert sorted(lab.messages(where={"role": "tool"})["content"]) == ["paid 7", "paid 7", "paid 8"]

    with af.Lab(path, display=False) as lab:
        assert list(lab.turns()["status"]) == ["COMPLETED", "COMPLETED"]


def test_the_first_who_registers_a_version_writes_its_fingerprint_anew(path):
    agent = shop()
    with af.Lab(path, display=False) as lab:
        assert list(lab.agents()["fingerprint"]) == [""]
        assert "def pay" not in lab.agent_source("shop", "1")
        seen = list(lab.agents()["first_seen_at"])

        lab.register(agent)

        assert list(lab.agents()["fingerprint"]) == [agent.fingerprint]
        assert list(lab.agents()["first_seen_at"]) == seen
        assert "def pay(amount: int)" in lab.agent_source("shop", "1")

    with af.Lab(path, display=False) as lab:
        with pytest.raises(af.AgentDriftError, match="is known to this lab"):
            lab.register(agent.with_(version="1", instructions="Be brief."))
        lab.register(shop())
