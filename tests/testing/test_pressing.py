"""A panel pressed without a browser takes the way of a click."""

import pytest

from agentflex_nb.core.errors import CommandRefusedError
from agentflex_nb.core.inputs import ApproveTool, Cancel
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.runner import AgentRunner
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing import press
from agentflex_nb.widgets.panel import Panel


@tool(approval=True)
def refund(amount: int) -> str:
    """Refund."""
    return f"refunded {amount}"


@pytest.fixture
def waiting():
    agent = Agent("a", model=ScriptedModel(ScriptedModel.call("refund", amount=5), "Done."), tools=[refund])
    return AgentRunner(MemoryStore()).run(agent, "hi")


@pytest.fixture
def heard():
    return []


@pytest.fixture
def panel(waiting, heard):
    panel = Panel(waiting.id, on_command=lambda turn_id, command: heard.append((turn_id, command)), user="alice")
    for event in waiting.events():
        panel.feed(event)
    return panel


def test_a_press_hands_on_the_command_with_who_pressed(panel, heard, waiting):
    press(panel, "approve")

    [(turn_id, command)] = heard
    assert turn_id == waiting.id
    assert isinstance(command, ApproveTool)
    assert command.correlation_id == waiting.questions[0].id
    assert command.metadata["by"] == "alice"


def test_cancel_needs_no_question(panel, heard):
    press(panel, "cancel")

    assert isinstance(heard[0][1], Cancel)


def test_without_a_question_there_is_nothing_to_approve(waiting, heard):
    panel = Panel("another", on_command=lambda *_: heard.append(1))

    with pytest.raises(CommandRefusedError):
        press(panel, "approve")
    assert heard == []
