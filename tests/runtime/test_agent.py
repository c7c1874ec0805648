"""Agents as users make them: refused where they are ill-defined, versioned by what they are, shared by many turns."""

import copy
import functools

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import InvalidAgentError, InvalidValueError
from agentflex_nb.core.rules import ApprovalRule, ApprovalRules
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.tools import Tool, tool

FORM = AgentForm("seats", "Where to sit", {"type": "object", "properties": {"n": {"type": "integer"}}})


def look(what: str) -> str:
    """Look."""
    return what


def judge(turn, call, tool):
    return False


def agent(**given) -> Agent:
    return Agent(given.pop("id", "a"), **{"model": ScriptedModel("x"), "tools": [look], **given})


def test_the_same_cell_run_again_is_the_same_version():
    """K03."""
    assert agent().version == agent().version
    assert agent(approval_policy=judge, forms=[FORM]).version == agent(approval_policy=judge, forms=[FORM]).version


def test_a_copy_of_an_agent_is_the_agent():
    """K17: also within what somebody copies, with models and tools that cannot be."""
    first = agent()

    assert copy.deepcopy([first]) == [first]
    assert copy.copy(first) is first


@pytest.mark.parametrize(
    "change",
    [
        {"instructions": "Be brief."},
        {"model": ScriptedModel("x", name="other")},
        {"model_options": {"temperature": 0}},
        {"tools": []},
        {"tools": [tool(name="see")(look)]},
        {"tools": [tool(description="See.")(look)]},
        {"tools": [tool(approval=True)(look)]},
        {"tools": [tool(approval=lambda call: True)(look)]},
        {"tools": [tool(idempotent=True)(look)]},
        {"tools": [tool(version="2")(look)]},
        {"forms": [FORM]},
        {"approval_policy": judge},
        {"approval_policy": ApprovalRules([ApprovalRule(tool="look", decision="ASK")])},
        {"execution_policy": AgentExecutionPolicy(max_steps=3)},
    ],
)
def test_whatever_can_change_a_resumed_turn_makes_another_version(change):
    assert agent(**change).version != agent().version


def test_attributes_and_middlewares_change_no_version():
    """Attributes reach neither the model nor the snapshot."""
    assert agent(attributes={"team": "blue"}).version == agent().version


def test_with_makes_another_version_unless_one_is_given():
    first = agent(version="1", attributes={"a": 1})

    assert first.with_(instructions="Be brief.").version not in ("1", agent().version)
    assert first.with_(instructions="Be brief.", version="2").version == "2"
    assert first.with_(instructions="Be brief.").attributes == {"a": 1}
    assert first.version == "1"
    with pytest.raises(InvalidAgentError, match="instructons"):
        first.with_(instructons="typo")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": ""}, "id"),
        ({"id": "  "}, "id"),
        ({"name": ""}, "name"),
        ({"version": ""}, "version"),
        ({"model": None}, "chat model"),
        ({"model": object()}, "chat model"),
        ({"tools": [look, look]}, "two tools"),
        ({"tools": ["look"]}, "function"),
        ({"forms": [FORM, FORM]}, "two forms"),
        ({"max_attached_turns": -1}, "max_attached_turns"),
        ({"middlewares": [object()]}, "AgentMiddleware"),
        ({"tools": [Tool(name="p", description="", function=functools.partial(look), parameters={})]}, "version"),
    ],
)
def test_what_is_ill_defined_is_refused_where_it_is_made(given, said):
    with pytest.raises(InvalidAgentError, match=said):
        agent(**given)


def test_options_that_are_no_json_are_refused():
    with pytest.raises(InvalidValueError, match="model_options"):
        agent(model_options={"a": object()})


def test_the_name_defaults_to_the_id_and_the_repr_says_what_it_is():
    made = agent(version="7")

    assert made.definition.name == "a"
    assert repr(made) == "Agent('a', version='7', model='scripted', tools=[look])"


def test_nothing_that_the_user_holds_changes_an_agent():
    """P3."""
    tools, attributes, options = [look], {"a": 1}, {"stop": ["x"]}
    made = agent(tools=tools, attributes=attributes, model_options=options)
    tools.append(judge)
    attributes["a"] = 2
    options["stop"].append("y")

    assert list(made.tools) == ["look"]
    assert made.attributes == {"a": 1}
    assert made.definition.model_options == {"stop": ("x",)}


def test_code_that_cannot_be_read_needs_a_version_of_the_tool_or_the_agent():
    part = Tool(name="p", description="", function=functools.partial(look, "x"), parameters={})

    assert agent(tools=[part], version="1").fingerprint == agent(tools=[part], version="1").fingerprint
    versioned = Tool(name="p", description="", function=functools.partial(look, "x"), parameters={}, version="3")
    assert agent(tools=[versioned]).version == agent(tools=[versioned]).version


def test_rules_are_part_of_the_version_by_what_they_say():
    one, same, other = (
        agent(approval_policy=ApprovalRules([ApprovalRule(decision="ASK", when={"/what": limit})]))
        for limit in (1, 1, 2)
    )

    assert one.version == same.version
    assert one.version != other.version
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("name", ["model", "approval_policy", "instructions", "middlewares"])
def test_an_agent_does_not_change_and_says_how_to_make_another(name):
    agent = Agent("a", model=ScriptedModel("x"))

    with pytest.raises(InvalidAgentError, match=rf"agent\.with_\({name}="):
        setattr(agent, name, None)
    with pytest.raises(TypeError):
        agent.tools["more"] = None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tools": "ab"}, "a list of tools"),
        ({"tools": print}, "a list of tools"),
        ({"execution_policy": {"max_steps": 1}}, "AgentExecutionPolicy"),
        ({"approval_policy": 5}, "ApprovalRules, or a function"),
        ({"forms": ["x"]}, "an AgentForm"),
    ],
)
def test_what_cannot_be_part_of_an_agent_is_refused_with_a_sentence(given, said):
    with pytest.raises(InvalidAgentError, match=said):
        Agent("a", model=ScriptedModel("x"), **given)
