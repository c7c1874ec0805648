"""A new turn, before anything is saved: V1, P9, T17."""

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.messages import user
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.opening import AgentTurnOptions, opened
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing.time import START

AGENT = Agent("a", model=ScriptedModel("x"), instructions="Be brief.", version="1")


def open_(said, options=None, conversation_id=None):
    return opened(MemoryStore(), AGENT, said, id="t1", now=START, conversation_id=conversation_id, options=options).turn


def test_the_turn_has_the_agents_instructions_and_limits_unless_the_turn_has_its_own():
    """T17."""
    policy = AgentExecutionPolicy(max_steps=2)

    plain, own = open_("go").identity, open_("go", AgentTurnOptions(execution_policy=policy, streaming=False)).identity

    assert (plain.instructions, plain.policy, plain.streaming) == ("Be brief.", AgentExecutionPolicy(), True)
    assert (own.policy, own.streaming) == (policy, False)
    assert (plain.id, plain.root_turn_id, plain.agent_version, plain.created_at) == ("t1", "t1", "1", START)


def test_what_goes_in_is_copied():
    """V1, P3."""
    metadata = {"tags": ["x"]}
    messages = [user("a")]
    turn = open_(messages, AgentTurnOptions(metadata=metadata))
    metadata["tags"].append("y")
    messages.append(user("b"))

    assert turn.identity.metadata == {"tags": ("x",)}
    assert [message.content for message in turn.messages] == ["a"]


def test_text_is_made_well_formed():
    """K22."""
    assert open_("a\ud83d").messages == (user("a\ufffd"),)
    assert open_(user("a\ud83d\ude00")).messages == (user("a\N{GRINNING FACE}"),)


@pytest.mark.parametrize("said", [7, None, [7], ["text"], [user("a"), None], b"bytes"])
def test_what_is_no_message_is_refused_and_says_which(said):
    with pytest.raises(InvalidValueError, match=r"input\["):
        open_(said)
