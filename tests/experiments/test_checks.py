"""The checks of a lab's tables: silent where all is well, and each finds what breaks its promise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentflex_nb.core.model import ModelRequest
from agentflex_nb.experiments.checks import broken, checks
from agentflex_nb.lab import Lab
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.runner import AgentTurnOptions
from agentflex_nb.runtime.tools import tool


@tool
def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def reply(request: ModelRequest) -> object:
    text = request.messages[-1].content
    if text == "break":
        return ConnectionError("cut")
    if text == "pay":
        return [ScriptedModel.call("double", n=1), ScriptedModel.call("pay", amount=5)]
    return "fine"


AGENT = Agent("clerk", model=ScriptedModel(reply), tools=[double, pay])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab with turns that completed, failed, were approved, were cancelled, and one that waits."""
    with Lab(tmp_path / "lab.duckdb", durability="process", display=False) as lab:
        for text in ("hello", "break", "pay", "hello"):
            turn = lab.run(AGENT, text, conversation_id="c", options=AgentTurnOptions(streaming=False))
            if turn.questions:
                turn.approve()
        lab.run(AGENT, "pay").cancel("enough")
        lab.run(AGENT, "pay")
        yield lab


def test_a_lab_keeps_its_promises_whatever_became_of_its_turns(lab: Lab):
    """I1 to I7."""
    assert set(lab.turns().status) == {"COMPLETED", "FAILED", "CANCELLED", "WAITING_FOR_APPROVAL"}
    assert broken(lab.sql) == {}


A_RESULT = "(select hash from messages where role = 'tool' limit 1)"
A_TURN = "(select min(turn_id) from turns)"

FAULTS = {
    "every_call_has_one_result": f"delete from turn_messages where hash = {A_RESULT}",
    "no_call_runs_twice": "update tool_calls set starts = 3",
    "no_turn_is_left_running": f"update turns set status = 'RUNNING' where turn_id = {A_TURN}",
    "newest_snapshot_is_the_turn": f"update snapshots set status = 'FAILED' where turn_id = {A_TURN}",
    "history_can_go_on": f"delete from turn_messages where turn_id = {A_TURN} and position = 1",
    "one_final_event_comes_last": "delete from events where type = 'TURN_FAILED'",
    "log_tells_the_status": "update events set status = 'READY' where type = 'MODEL_STARTED'",
    "log_is_numbered_once": f"insert into events from events where turn_id = {A_TURN} limit 1",
}


def test_every_check_is_tried_against_a_fault():
    assert set(FAULTS) == set(checks())


@pytest.mark.parametrize("name", FAULTS)
def test_each_check_finds_what_breaks_its_promise(lab: Lab, name: str):
    lab.sql(FAULTS[name], write=True)

    found = broken(lab.sql)
    assert name in found
    assert "turn_id" in found[name].columns
