"""Events: identity, and what travels with them."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from agentflex_nb.core.events import AgentEvent, EventType
from agentflex_nb.core.frozen import FrozenDict

EVENT = AgentEvent(
    turn_id="t1",
    root_turn_id="t1",
    parent_turn_id=None,
    agent_id="a",
    agent_version="1",
    sequence=7,
    type=EventType.TOOL_PROGRESS,
    occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    data=FrozenDict(percent=50),
)


def test_turn_and_number_are_its_identity():
    assert EVENT.event_id == "t1:7"


def test_an_event_does_not_change():
    """E11"""
    with pytest.raises(FrozenInstanceError):
        EVENT.sequence = 8
    with pytest.raises(TypeError, match="read-only"):
        EVENT.data["percent"] = 51


def test_an_event_travels():
    """K17"""
    assert pickle.loads(pickle.dumps(EVENT)) == copy.deepcopy(EVENT) == EVENT


def test_types_compare_by_their_word_also_after_a_reload():
    """K17"""
    assert EVENT.type == "TOOL_PROGRESS"
    assert [type.value for type in EventType] == [type.name for type in EventType]


# The event types of the contract, by what they are about.
DECLARED = """
TURN_STARTED TURN_COMPLETED TURN_FAILED TURN_CANCELLED TURN_SUSPENDED TURN_RESUMED CANCELLATION_REQUESTED SNAPSHOT_SAVED
STEP_STARTED STEP_COMPLETED MAX_STEPS_REACHED
MODEL_STARTED MODEL_TEXT_DELTA MODEL_REASONING_DELTA MODEL_TOOL_CALL_DELTA MODEL_COMPLETED MODEL_FAILED
MAX_ITERATIONS_REACHED
TOOL_STARTED TOOL_PROGRESS TOOL_COMPLETED TOOL_FAILED TOOL_DENIED TOOL_INTERRUPTED TOOL_APPROVAL_REQUESTED
TOOL_INPUT_REQUESTED EXTERNAL_TOOL_REQUESTED EXTERNAL_TOOL_COMPLETED EXTERNAL_TOOL_FAILED EXTERNAL_TOOL_CANCEL_REQUESTED
CHILD_STARTED PLAN_CREATED PLAN_UPDATED TASK_STARTED TASK_COMPLETED TASK_FAILED
RETRY_SCHEDULED BUDGET_EXCEEDED
CONTEXT_COMPRESSION_STARTED CONTEXT_COMPRESSION_COMPLETED CONTEXT_COMPRESSION_FAILED
"""


def test_every_type_of_the_contract_is_declared():
    assert set(DECLARED.split()) - set(EventType) == set()
