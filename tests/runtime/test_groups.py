"""Tool groups: shown while a condition holds, run all the same. T10, T11, T15, K35"""

import asyncio
from typing import Any

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.groups import ToolGroup
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def shown(model: ScriptedModel) -> list[list[str]]:
    """The names of the tools that each request offered."""
    return [[spec.name for spec in request.tools] for request in model.requests]


def has_looked(turn: Any) -> bool:
    return any(message.tool_name == "look" for message in turn.messages)


def test_a_group_is_shown_as_soon_as_its_condition_holds(desk):
    """T11"""
    model = ScriptedModel(call("look"), "Done.")
    desk.run(model=model, tools=[look], tool_groups=[ToolGroup("money", [pay], condition=has_looked)])

    assert shown(model) == [["look"], ["look", "pay"]]


def test_a_group_without_a_condition_is_always_shown_and_costs_no_question(desk):
    model = ScriptedModel("Done.")
    agent = desk.agent(model=model, tool_groups=[ToolGroup("money", [pay])])

    assert not agent.definition.dynamic
    desk.runner.run(agent, "go")
    assert shown(model) == [["pay"]]


def test_a_condition_may_be_async(desk):
    async def never(turn: Any) -> bool:
        await asyncio.sleep(0)
        return False

    model = ScriptedModel("Done.")
    desk.run(model=model, tool_groups=[ToolGroup("money", [pay], condition=never)])

    assert shown(model) == [[]]


def test_a_call_that_waits_is_carried_out_after_a_restore_though_its_group_is_hidden_by_now(desk):
    """T11, A10, P4: the condition shows, it does not allow."""
    open_ = [True]

    def group():
        return ToolGroup("money", [pay], condition=lambda turn: open_[0])

    agent = desk.agent(call("pay"), "Done.", tool_groups=[group()], version="1")
    turn = desk.runner.run(agent, "go", conversation_id=desk.conversation())
    open_[0] = False
    other = desk.another_runner()

    restored = other.restore(turn.id).approve()

    assert (restored.output, restored.messages[2].content) == ("Done.", "paid")
    assert shown(agent.model) == [["pay"], []]


def test_a_tool_that_the_model_calls_from_memory_runs(desk):
    """T11"""
    group = ToolGroup("eyes", [look], condition=lambda turn: False)

    assert desk.run(call("look"), "Done.", tool_groups=[group]).messages[2].content == "seen"


@pytest.mark.parametrize(
    "given",
    [
        {"tools": [look], "tool_groups": [ToolGroup("eyes", [look])]},
        {"tool_groups": [ToolGroup("eyes", [look]), ToolGroup("more eyes", [look])]},
        {"tool_groups": [ToolGroup("eyes", [look, look])]},
    ],
)
def test_a_name_is_taken_once_also_between_groups_and_agent(given):
    """T10"""
    with pytest.raises(InvalidAgentError, match="two tools named 'look'"):
        Agent("a", model=ScriptedModel("x"), **given)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("", {}, "a name|name it"),
        ("eyes", {"condition": "always"}, "a function of the turn"),
        ("eyes", {"interceptors": ["log"]}, "a function of"),
    ],
)
def test_a_group_that_is_not_well_made_is_refused(name, given, said):
    with pytest.raises(InvalidAgentError, match=said):
        ToolGroup(name, [look], **given)


ERRORS = [
    SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), MemoryError(), RecursionError(),
    ExceptionGroup("two", [ValueError("a")]), ValueError("x"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_condition_raises_fails_the_turn(memory_desk, error):
    """K35, A18: with a final event; what was told to have started is told to be over."""

    def condition(turn: Any) -> bool:
        raise error

    turn = memory_desk.run("never", tool_groups=[ToolGroup("eyes", [look], condition=condition)])

    assert (turn.status, turn.error.kind) == (AgentStatus.FAILED, type(error).__name__)
    assert turn.error.code == "TOOLS_NOT_OFFERED"
    assert memory_desk.log(turn)[-5:] == [
        "MODEL_STARTED", "MODEL_FAILED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_FAILED",
    ]  # fmt: skip


def test_the_stop_button_in_a_condition_ends_the_turn(memory_desk):
    """K05, K35"""

    def condition(turn: Any) -> bool:
        raise KeyboardInterrupt

    agent = memory_desk.agent("never", tool_groups=[ToolGroup("eyes", [look], condition=condition)])
    turn = memory_desk.runner.create(agent, "go")
    with pytest.raises(KeyboardInterrupt):
        memory_desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED


def test_a_condition_that_may_succeed_later_is_tried_again(memory_desk):
    """R1"""
    answers = [ConnectionError("gone"), True]

    def condition(turn: Any) -> bool:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=1))
    group = ToolGroup("eyes", [look], condition=condition)
    turn = memory_desk.run("Done.", tool_groups=[group], execution_policy=policy)

    assert (turn.output, memory_desk.log(turn).count("RETRY_SCHEDULED")) == ("Done.", 1)


def test_a_condition_that_says_neither_yes_nor_no_is_told_so(desk):
    group = ToolGroup("eyes", [look], condition=lambda turn: "yes")

    turn = desk.run("never", tool_groups=[group])

    assert "tool group eyes returned 'yes': expected True or False" in turn.error.message


def test_the_code_of_a_group_makes_a_version():
    def version(condition: Any, *interceptors: Any) -> str:
        group = ToolGroup("eyes", [look], condition=condition, interceptors=interceptors)
        return Agent("a", model=ScriptedModel("x"), tool_groups=[group]).version

    versions = [
        version(None), version(lambda turn: True), version(lambda turn: False),
        version(None, lambda call, proceed: proceed(call)), version(None, lambda call, proceed: None),
    ]  # fmt: skip

    assert len(set(versions)) == 5
    assert version(lambda turn: True) == version(lambda turn: True)
