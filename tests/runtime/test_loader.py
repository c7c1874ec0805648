"""Agents by id and version: exact or an error. P11, P12, K03, K34."""

import functools

import pytest

from agentflex_nb.core.errors import AgentDriftError, AgentVersionNotFoundError
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.tools import Tool, tool

call = ScriptedModel.call


def make(version, instructions="", **given):
    return Agent("a", model=ScriptedModel("x"), version=version, instructions=instructions, **given)


def test_registering_an_equal_agent_again_changes_nothing():
    """K03."""
    loader = AgentLoader()
    for _ in range(3):
        loader.register(make("1"))

    assert loader.load("a", "1").version == "1"


def test_another_definition_under_the_same_version_is_refused_and_the_first_stands():
    """K03."""
    loader = AgentLoader()
    first = loader.register(make("1"))

    with pytest.raises(AgentDriftError, match="new version"):
        loader.register(make("1", "Be brief."))

    assert loader.load("a", "1") is first


def test_code_that_cannot_be_read_can_be_registered_again_under_its_version():
    part = Tool(name="p", description="", function=functools.partial(print), parameters={})
    loader = AgentLoader()

    loader.register(make("1", tools=[part]))
    loader.register(make("1", tools=[part]))


def test_the_newest_registered_is_the_active_one_and_load_never_falls_back_on_it():
    loader = AgentLoader()
    loader.register(make("1"))
    loader.register(make("2"))

    assert loader.load_active("a").version == "2"
    assert loader.load("a", "1").version == "1"
    for version in ("3", "1.0", ""):
        with pytest.raises(AgentVersionNotFoundError, match="1, 2"):
            loader.load("a", version)
    with pytest.raises(AgentVersionNotFoundError):
        loader.load_active("b")


class Wrong(AgentLoader):
    """Returns another agent than the one that was asked for."""

    def load(self, agent_id, agent_version):
        return make("other")


def test_a_loader_that_returns_another_agent_is_found_out(desk):
    """P12."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    turn = desk.run(call("ask"), tools=[ask])

    with pytest.raises(AgentDriftError, match="the loader returned 'a' version 'other'"):
        desk.another_runner(loader=Wrong()).restore(turn.id)


def test_a_turn_may_be_run_by_the_id_of_a_registered_agent(desk):
    desk.runner.loader.register(desk.agent("Hello."))

    assert desk.runner.run("shop", "go", conversation_id=desk.conversation()).output == "Hello."
    with pytest.raises(AgentVersionNotFoundError):
        desk.runner.run("nobody", "go")


def test_many_threads_register_at_once(at_once):
    loader = AgentLoader()

    at_once(*[lambda n=n: [loader.register(make(str(n % 3))) for _ in range(50)] for n in range(8)])

    assert {loader.load("a", version).version for version in "012"} == {"0", "1", "2"}
