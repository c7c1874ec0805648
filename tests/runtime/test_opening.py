"""A new turn, before anything is saved: V1, P9, T17."""

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.messages import Message, Role, ToolCall, assistant, user
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


def test_data_of_an_input_is_a_copy_also_where_it_lies_deep():
    """V1, I4"""
    data = {"a": [1]}
    turn = open_([Message(role="user", content="hi", provider_data=data)])
    data["a"].append(2)

    assert (turn.messages[0].provider_data, turn.messages[0].role) == ({"a": (1,)}, Role.USER)


@pytest.mark.parametrize(
    ("said", "met"),
    [
        ([Message(role="nobody", content="x")], "well-formed Message"),
        ([Message(role=Role.USER, content="x", provider_data=7)], "well-formed Message"),
        ([Message(role=Role.USER, content="x", tool_calls=("c",))], "well-formed Message"),
        ([assistant(tool_calls=(ToolCall(id="c1", name="t"),))], "the result of call 'c1'"),
        ([assistant(tool_calls=(ToolCall(id="c1", name="t"),)), user("well?")], "the result of call 'c1'"),
        ([Message(role=Role.TOOL, content="r", tool_call_id="c1")], "no call is open"),
    ],
)
def test_a_history_that_no_model_accepts_is_refused(said, met):
    """I1, V1"""
    with pytest.raises(InvalidValueError, match=met):
        open_(said)


def test_a_history_with_its_results_in_order_is_taken():
    calls = assistant(tool_calls=(ToolCall(id="c1", name="t"), ToolCall(id="c2", name="t")))
    results = [Message(role=Role.TOOL, content="r", tool_call_id=id) for id in ("c1", "c2")]

    assert len(open_([user("a"), calls, *results, user("b")]).messages) == 5


@pytest.mark.parametrize("id", ["", "\ud83d", 7])
def test_a_conversation_needs_an_id_that_every_store_can_keep(id):
    with pytest.raises(InvalidValueError, match="conversation_id"):
        open_("hi", conversation_id=id)
