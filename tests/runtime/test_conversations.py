"""Which earlier messages a new turn begins with: whole turns, newest first. V3, V4, V5."""

import pytest

from agentflex_nb.core.agent import AgentDefinition
from agentflex_nb.core.errors import ConversationBusyError
from agentflex_nb.core.messages import ToolCall, assistant, system, tool_result, user
from agentflex_nb.runtime.conversations import attach


class Kept:
    """A conversation that somebody has kept."""

    def __init__(self, *said, active=()):
        self.said, self.active = list(said), list(active)

    def conversation(self, conversation_id):
        return self.said

    def active_turns(self, conversation_id):
        return self.active


def attached(store, **window):
    definition = AgentDefinition(id="a", version="1", name="a", **window)
    return [message.content for message in attach(store, "c1", definition)]


CALL = ToolCall(id="x", name="look")
TURNS = [
    ("t1", user("one")),
    ("t1", assistant("", tool_calls=(CALL,))),
    ("t1", tool_result(CALL, "seen")),
    ("t1", assistant("1.")),
    ("t2", user("two")),
    ("t2", assistant("2.")),
    ("t3", user("three")),
    ("t3", assistant("3.")),
]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, ["one", "", "seen", "1.", "two", "2.", "three", "3."]),
        ({"max_attached_turns": 2}, ["two", "2.", "three", "3."]),
        ({"max_attached_messages": 7}, ["two", "2.", "three", "3."]),
        ({"max_attached_messages": 2}, ["three", "3."]),
        ({"max_attached_messages": 1}, []),
        ({"max_attached_turns": 0}, []),
    ],
)
def test_whole_turns_are_kept_or_left_out(window, expected):
    """V4: a call is never parted from its result."""
    assert attached(Kept(*TURNS), **window) == expected


def test_messages_without_a_turn_count_by_question_and_answer():
    said = [(None, message) for n in range(60) for message in (user(f"q{n}"), assistant(f"a{n}"))]

    assert attached(Kept(*said), max_attached_turns=2) == ["q58", "a58", "q59", "a59"]
    assert len(attached(Kept(*said), max_attached_turns=100)) == 100


def test_what_is_attached_begins_with_a_user_and_holds_no_instructions():
    said = [(None, system("Be kind.")), (None, assistant("Hello?")), (None, user("Hi.")), (None, assistant("Well."))]

    assert attached(Kept(*said)) == ["Hi.", "Well."]


def test_a_busy_conversation_is_refused_with_the_ids():
    """V3."""
    with pytest.raises(ConversationBusyError) as busy:
        attached(Kept(active=["t7"]))

    assert busy.value.active_turn_ids == ("t7",)
