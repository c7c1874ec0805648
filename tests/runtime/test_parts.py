"""Agents assembled from configuration: complete, or one error that names everything. Y2."""

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import InvalidAgentError, InvalidConfigError
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.groups import ToolGroup
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.parts import AgentParts

MODEL = ScriptedModel("Hello.", name="small")
SEAT = AgentForm("seat", "Where to sit", {"type": "object", "properties": {"n": {"type": "integer"}}})


def look(what: str) -> str:
    """Look."""
    return what


def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount}"


def limit(turn, call, tool):
    return ToolApprovalDecision.ALLOW


class Quiet(AgentMiddleware):
    pass


QUIET = Quiet()
PARTS = AgentParts(models=[MODEL], tools=[look, pay], forms=[SEAT], approval_policies=[limit], middlewares=[QUIET])
CONFIG = {
    "id": "desk",
    "version": "3",
    "instructions": "Be kind.",
    "model": "small",
    "model_options": {"temperature": 0},
    "tools": ["pay", "look"],
    "forms": ["seat"],
    "approval_policy": "limit",
    "middlewares": ["Quiet"],
    "execution_policy": {"max_steps": 7},
}


def wordy(call, error):
    return f"{call.name}: {error}"


def timed(call, proceed):
    return proceed(call)


def test_groups_and_what_stands_around_tools_are_named_too():
    """Y2, T11, T15: a group brings its tools, its condition and its interceptors; nothing is flattened."""
    group = ToolGroup("money", [pay], condition=lambda turn: False, interceptors=[timed])
    parts = AgentParts(models=[MODEL], tools=[look], tool_groups=[group], interceptors=[timed], error_messages=[wordy])
    written = Agent("desk", model=MODEL, tools=[look], tool_groups=[group], interceptors=[timed], error_message=wordy)

    config = written.to_config()
    read = parts.assemble(config)

    assert config == {
        "id": "desk", "model": "small", "tools": ["look"], "tool_groups": ["money"], "interceptors": ["timed"],
        "error_message": "wordy",
    }  # fmt: skip
    assert (read.version, read.definition) == (written.version, written.definition)
    assert read.interceptors_of("pay") == (timed, timed)


def test_a_configuration_becomes_the_agent_that_its_names_mean():
    """Y2"""
    agent = PARTS.assemble(CONFIG)

    assert (agent.id, agent.version, agent.model, list(agent.tools)) == ("desk", "3", MODEL, ["pay", "look"])
    assert (agent.approval_policy, agent.middlewares) == (limit, (QUIET,))
    assert agent.definition.execution_policy == AgentExecutionPolicy(max_steps=7)
    assert list(agent.definition.form_by_key) == ["seat"]


def test_there_and_back_is_the_same():
    assert PARTS.assemble(CONFIG).to_config() == CONFIG

    written = Agent("desk", model=MODEL, tools=[look], approval_policy=limit, middlewares=[QUIET], forms=[SEAT])
    again = PARTS.assemble(written.to_config())
    assert (again.version, again.fingerprint) == (written.version, written.fingerprint)


def test_everything_that_is_wrong_is_told_in_one_error():
    """Y2"""
    with pytest.raises(InvalidConfigError) as refused:
        PARTS.assemble(
            {
                "id": "desk",
                "modle": "small",
                "tools": ["look", "pya", 3],
                "forms": ["seats"],
                "approval_policy": "limits",
                "execution_policy": {"max_step": 7},
            }
        )

    told = {error.pointer: error.message for error in refused.value.errors}
    assert told.keys() == {
        "/model", "/modle", "/tools/1", "/tools/2", "/forms/0", "/approval_policy", "/execution_policy/max_step",
    }  # fmt: skip
    assert told["/tools/1"] == "names 'pya', which is not here: did you mean 'pay'?"
    assert all(f"{pointer} {message}" in str(refused.value) for pointer, message in told.items())


@pytest.mark.parametrize(("change", "said"), [({"id": " "}, "id=' '"), ({"tools": ["look", "look"]}, "two tools")])
def test_what_no_agent_can_be_is_such_an_error_too(change, said):
    with pytest.raises(InvalidConfigError, match=said):
        PARTS.assemble({**CONFIG, **change})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"tools": [look, look]}, "two of kind tool named 'look'"),
        ({"approval_policies": [lambda turn, call, tool: True]}, "without a name"),
        ({"models": [MODEL, ScriptedModel("Other.", name="small")]}, "two of kind model"),
    ],
)
def test_parts_without_a_name_of_their_own_are_refused(parts, said):
    with pytest.raises(InvalidAgentError, match=said):
        AgentParts(**parts)
