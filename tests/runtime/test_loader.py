"""Agents by id and version: exact or an error. P11, P12, K03, K34."""

import functools

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import AgentDriftError, AgentVersionNotFoundError
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.tools import Tool, tool

from .cells import run_cell

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

    with pytest.raises(AgentDriftError, match="new version") as refused:
        loader.register(make("1", "Be brief."))

    assert loader.load("a", "1") is first
    assert loader.load_active("a") is first
    [difference] = refused.value.differences
    assert (difference.part, difference.known, difference.met) == ("instructions", "", "Be brief.")


def test_a_cell_run_again_is_a_no_op_and_a_changed_one_another_version():
    """K03: without a version of its own an agent is never drift."""
    cell = """
def look(what: str) -> str:
    \"\"\"Look.\"\"\"
    return what
agent = Agent("a", model=ScriptedModel("x"), tools=[look])
"""
    loader, space = AgentLoader(), {"Agent": Agent, "ScriptedModel": ScriptedModel}
    first = loader.register(run_cell(cell, space)["agent"])
    again = loader.register(run_cell(cell, space)["agent"])
    other = loader.register(run_cell(cell.replace("return what", "return what.upper()"), space)["agent"])

    assert first.version == again.version != other.version
    assert loader.load_active("a") is other
    assert loader.load("a", first.version) is again


def test_a_tool_that_changes_under_a_given_version_is_drift_that_shows_the_lines():
    """K03, K34."""
    cell = """
def look(what: str) -> str:
    \"\"\"Look.\"\"\"
    return what
agent = Agent("a", version="1", model=ScriptedModel("x"), tools=[look])
"""
    loader, space = AgentLoader(), {"Agent": Agent, "ScriptedModel": ScriptedModel}
    loader.register(run_cell(cell, space)["agent"])
    loader.register(run_cell(f"# the same, elsewhere\n{cell}", space)["agent"])

    with pytest.raises(AgentDriftError, match="tool look /source changed") as refused:
        loader.register(run_cell(cell.replace("return what", "return what.upper()"), space)["agent"])

    assert "+    return what.upper()" in str(refused.value)


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
    for version in ("3", "1.0", "", 1):
        with pytest.raises(AgentVersionNotFoundError, match="1, 2"):
            loader.load("a", version)
    with pytest.raises(AgentVersionNotFoundError):
        loader.load_active("b")


class Wrong:
    """A loader of somebody's own, which returns what it likes."""

    def __init__(self, returned):
        self.returned = returned

    def register(self, agent):
        return agent

    def load(self, agent_id, agent_version):
        return self.returned

    def load_active(self, agent_id):
        return self.returned


def test_a_loader_that_returns_another_agent_is_found_out(desk):
    """P12."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    turn = desk.run(call("ask"), "go on", tools=[ask])

    for returned, said in [
        (make("other"), "returned 'a' version 'other'"),
        (None, "returned None"),
        ("a", "returned 'a'"),
    ]:
        runner = desk.another_runner(loader=Wrong(returned))
        with pytest.raises(AgentDriftError, match=said):
            runner.restore(turn.id)
        with pytest.raises(AgentDriftError, match=said):
            runner.run("shop", "go")
    assert turn.approve().output == "go on"


def test_a_loader_need_not_be_ours(desk):
    agent = make("1")
    runner = desk.another_runner(loader=Wrong(agent))

    assert runner.run("a", "go").output == "x"
    assert runner.run(agent, "go").output == "x"


def test_a_turn_may_be_run_by_the_id_of_a_registered_agent(desk):
    desk.runner.loader.register(desk.agent("Hello."))

    assert desk.runner.run("shop", "go", conversation_id=desk.conversation()).output == "Hello."
    with pytest.raises(AgentVersionNotFoundError):
        desk.runner.run("nobody", "go")


def test_many_threads_register_at_once(at_once):
    loader = AgentLoader()

    at_once(*[lambda n=n: [loader.register(make(str(n % 3))) for _ in range(50)] for n in range(8)])

    assert {loader.load("a", version).version for version in "012"} == {"0", "1", "2"}


@tool(approval=True)
def transfer(amount: int) -> str:
    """Transfer."""
    return "moved"


def other_transfer(amount: str) -> str:
    """Transfer."""
    return "moved"


@pytest.mark.parametrize(
    ("change", "part", "said"),
    [
        ({"tools": []}, "tool transfer", "it lacks transfer, which call t1.1.0 waits for"),
        (
            {"tools": [tool(name="transfer")(other_transfer)]},
            "tool transfer",
            "the arguments of call t1.1.0 do not fit",
        ),
        ({"instructions": "Be brief."}, "instructions", '"Be kind." -> "Be brief."'),
        ({"execution_policy": AgentExecutionPolicy(max_steps=3)}, "definition", "its hash is"),
    ],
)
def test_a_version_that_has_changed_since_the_turn_began_does_not_go_on_with_it(desk, change, part, said):
    """P12, K34: under a given version any other definition is drift, instructions too; nothing changes."""
    given = {"tools": [transfer], "instructions": "Be kind.", "version": "1"}
    turn = desk.run(call("transfer", amount=80), "Moved.", **given)
    before = desk.store.load(turn.id)
    changed = desk.another_runner(loader=AgentLoader())
    changed.loader.register(desk.agent("x", **{**given, **change}))

    with pytest.raises(AgentDriftError, match=f"does not fit turn {turn.id}") as refused:
        changed.restore(turn.id)

    [difference] = refused.value.differences
    assert difference.part == part
    assert said in str(difference)
    assert (refused.value.agent_id, refused.value.agent_version) == ("shop", "1")
    assert desk.store.load(turn.id) == before
    assert turn.approve().output == "Moved."


def test_of_a_call_that_will_not_run_the_arguments_need_not_fit_but_its_tool_must_be_there(desk):
    """P12: what a turn still needs is looked at, not what it once needed."""
    turn = desk.run(call("transfer", amount=1), "Well.", tools=[transfer], version="1")
    desk.runner.submit_resume(turn, AgentResumeCommand.reject_tool(turn.questions[0].id, "no"))
    kernel = desk.another_runner(loader=AgentLoader())
    with pytest.raises(AgentDriftError, match="it lacks transfer"):
        kernel.restore(turn.id, migrate_to=desk.agent("x", "Well.", version="2"))

    textual = desk.agent("x", "Well.", tools=[tool(name="transfer")(other_transfer)], version="2")
    kernel.restore(turn.id, migrate_to=textual)

    assert kernel.run_until_blocked(turn.id).output == "Well."
