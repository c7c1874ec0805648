"""An agent as JSON, and all that is wrong with such JSON at once. Y2."""

import json

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy, AgentRetryPolicy, ToolErrorStrategy
from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.config import config_of, name_of, near, read_config

LEAST = {"id": "desk", "model": "scripted"}


def look(what: str) -> str:
    """Look."""
    return what


def test_a_configuration_holds_what_has_not_its_default_and_is_json():
    policy = AgentExecutionPolicy(
        max_steps=5, tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL, budget=AgentBudget(max_seconds=2.5)
    )
    agent = Agent("desk", model=ScriptedModel("x"), instructions="Be kind.", tools=[look], execution_policy=policy)

    config = config_of(agent)

    assert json.loads(json.dumps(config)) == config == {
        **LEAST,
        "instructions": "Be kind.",
        "tools": ["look"],
        "execution_policy": {
            "max_steps": 5, "tool_errors": "RETURN_ERROR_TO_MODEL", "budget": {"max_seconds": 2.5},
        },
    }  # fmt: skip
    assert config_of(Agent("desk", model=ScriptedModel("x"))) == LEAST


def test_a_given_version_is_in_it_and_a_hash_is_not():
    agent = Agent("desk", model=ScriptedModel("x"), version="7")

    assert config_of(agent)["version"] == "7"
    assert "version" not in config_of(agent.with_(instructions="Be brief."))


def test_what_is_given_is_read_with_the_types_of_the_core():
    given, faults = read_config(
        {
            **LEAST,
            "execution_policy": {"retry": {"factor": 3, "when_exhausted": "SUSPEND"}},
            "model_options": {"t": [0]},
        }
    )

    assert faults == []
    retry = AgentRetryPolicy(factor=3.0, when_exhausted="SUSPEND")
    assert given == {**LEAST, "execution_policy": AgentExecutionPolicy(retry=retry), "model_options": {"t": [0]}}


@pytest.mark.parametrize(
    ("config", "pointer", "said"),
    [
        ({"model": "m"}, "/id", "is missing"),
        ({"id": "a"}, "/model", "is missing"),
        ({**LEAST, "instructons": "x"}, "/instructons", "did you mean 'instructions'?"),
        ({**LEAST, "zzz": "x"}, "/zzz", "known are id, model, version"),
        ({**LEAST, "tools": "look"}, "/tools", "does not fit"),
        ({**LEAST, "tools": [3]}, "/tools/0", "does not fit"),
        ({**LEAST, "execution_policy": {"max_step": 1}}, "/execution_policy/max_step", "did you mean 'max_steps'?"),
        ({**LEAST, "execution_policy": {"max_steps": "1"}}, "/execution_policy/max_steps", "does not fit"),
        ({**LEAST, "execution_policy": {"max_steps": True}}, "/execution_policy/max_steps", "does not fit"),
        ({**LEAST, "execution_policy": {"max_steps": -1}}, "/execution_policy", "0 or more"),
        ({**LEAST, "execution_policy": {"tool_errors": "SHRUG"}}, "/execution_policy/tool_errors", "does not fit"),
        (
            {**LEAST, "execution_policy": {"budget": {"max_second": 1}}},
            "/execution_policy/budget/max_second",
            "did you mean 'max_seconds'?",
        ),
    ],
)
def test_a_fault_says_where_and_what(config, pointer, said):
    _, faults = read_config(config)

    [fault] = faults
    assert fault.pointer == pointer
    assert said in fault.message


def test_what_is_no_json_is_refused():
    with pytest.raises(InvalidValueError, match=r"config\.model_options\.a"):
        read_config({**LEAST, "model_options": {"a": object()}})


def test_things_go_by_the_name_that_they_have():
    class Quiet:
        pass

    assert [name_of(thing) for thing in (look, ScriptedModel("x"), Quiet())] == ["look", "scripted", "Quiet"]


def test_a_name_that_is_not_known_is_told_with_what_is_near():
    assert near("lok", ["look", "see"]) == ": did you mean 'look'?"
    assert near("zzz", ["look", "see"]) == ": known are look, see"
    assert near("zzz", []) == ": none is known"
