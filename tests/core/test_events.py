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
