"""Tools that middlewares resolve: shown, judged, run, found again after a restore. T5, K34, K35"""

import asyncio
from typing import Any

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy
from agentflex_nb.core.errors import AgentDriftError, CommandRefusedError, InvalidAgentError
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call


@tool(name="extra")
def extra(n: int = 1) -> str:
    """More."""
    return f"extra {n}"


@tool(name="extra", approval=True)
def gated(n: int = 1) -> str:
    """More, if one may."""
    return f"gated {n}"


class Bringing(AgentMiddleware):
    """Brings tools."""

    def __init__(self, *tools: Any, resolves: Any = None) -> None:
        self.brought, self.resolves, self.asked = tools, resolves, 0

    def tools(self, turn: Any) -> Any:
        self.asked += 1
        return self.brought

    def resolve(self, turn: Any, name: str) -> Any:
        return self.resolves if self.resolves is not None else super().resolve(turn, name)


def test_a_resolved_tool_is_shown_and_run(desk):
    """T5"""
    model = ScriptedModel(call("extra", n=7), "Done.")
    turn = desk.run(model=model, middlewares=[Bringing(extra)])

    assert (turn.output, turn.messages[2].content) == ("Done.", "extra 7")
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["extra"], ["extra"]]


def test_plain_functions_may_be_brought_too(desk):
    def more() -> str:
        """More."""
        return "more"

    assert desk.run(call("more"), "Done.", middlewares=[Bringing(more)]).messages[2].content == "more"


def test_arguments_of_a_resolved_tool_are_validated(desk):
    turn = desk.run(call("extra", n="many"), "Done.", middlewares=[Bringing(extra)])

    assert "Nothing was run" in turn.messages[2].content


def test_a_resolved_tool_is_judged_and_counted(desk):
    """T5, A5, B4"""
    seen = []

    def policy(turn: Any, call: Any, tool: Any) -> Any:
        seen.append(tool.name)
        return ToolApprovalDecision.deny("no") if call.arguments["n"] > 1 else ToolApprovalDecision.ALLOW

    limit = AgentExecutionPolicy(budget=AgentBudget(max_tool_calls=1))
    given = {"middlewares": [Bringing(extra)], "approval_policy": policy, "execution_policy": limit}

    assert "DENIED" in desk.run(call("extra", n=2), "Done.", **given).messages[2].content
    used_up = desk.run(call("extra", n=1), call("extra", n=1), "Done.", **given)
    assert used_up.status is AgentStatus.BUDGET_EXCEEDED
    assert set(seen) == {"extra"}


def waits(desk: Any, **given: Any) -> Any:
    """A turn that waits for the approval of a resolved tool."""
    agent = desk.agent(call("extra", n=3), "Done.", middlewares=[Bringing(gated)], version="1", **given)
    return desk.runner.run(agent, "go", conversation_id=desk.conversation())


def in_another_kernel(desk: Any, *middlewares: Any) -> Any:
    """A runner that knows nothing but the store and an agent with these middlewares."""
    loader = AgentLoader()
    loader.register(desk.agent(call("extra"), "Done.", middlewares=middlewares, version="1"))
    return desk.another_runner(loader=loader)


def test_a_resolved_tool_is_found_again_by_name_after_a_restore(desk):
    """T5, A10, P4"""
    turn, middleware = waits(desk), Bringing(gated)

    restored = in_another_kernel(desk, middleware).restore(turn.id).approve()

    assert (restored.output, restored.messages[2].content) == ("Done.", "gated 3")


def test_its_arguments_may_be_edited(desk):
    """A15"""
    turn = waits(desk)
    with pytest.raises(CommandRefusedError, match="do not fit extra"):
        turn.approve(arguments={"n": "many"})

    assert turn.approve(arguments={"n": 9}).messages[2].content == "gated 9"


@pytest.mark.parametrize("middlewares", [[], [Bringing()], [Bringing(extra, resolves=tool(name="other")(lambda: 1))]])
def test_a_tool_that_nobody_resolves_any_more_leaves_the_turn_waiting(desk, middlewares):
    """P12, K34: before anything is answered or run."""
    turn = waits(desk)
    version = turn.version

    with pytest.raises((AgentDriftError, InvalidAgentError), match=r"extra|the new one a new version"):
        in_another_kernel(desk, *middlewares).restore(turn.id).approve()

    assert (turn.refresh().status, turn.version) == (AgentStatus.WAITING_FOR_APPROVAL, version)


@pytest.mark.parametrize(
    "given",
    [
        {"middlewares": [Bringing(extra), Bringing(gated)]},
        {"middlewares": [Bringing(extra, gated)]},
        {"middlewares": [Bringing(extra)], "tools": [gated]},
    ],
    ids=["two middlewares", "one middleware", "middleware and agent"],
)
def test_two_that_claim_a_name_are_refused(memory_desk, given):
    """T5, K06: the turn fails, and its maker is told."""
    agent = memory_desk.agent("never", **given)
    turn = memory_desk.runner.create(agent, "go")

    with pytest.raises(InvalidAgentError, match="named 'extra', which another one is called already"):
        memory_desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.FAILED


def test_two_that_resolve_one_call_are_refused(desk):
    """T5"""
    turn = waits(desk)

    with pytest.raises(InvalidAgentError, match="called already"):
        in_another_kernel(desk, Bringing(gated), Bringing(gated)).restore(turn.id).approve()


ERRORS = [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), MemoryError(), OSError("x")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_resolver_raises_fails_the_turn_and_reaches_the_caller(memory_desk, error):
    """T3, K35"""

    class Raising(AgentMiddleware):
        def tools(self, turn: Any) -> Any:
            raise error

    turn = memory_desk.runner.create(memory_desk.agent("never", middlewares=[Raising()]), "go")
    with pytest.raises(type(error)):
        memory_desk.runner.run_until_blocked(turn)

    assert (turn.status, memory_desk.log(turn)[-1]) == (AgentStatus.FAILED, "TURN_FAILED")


def test_a_middleware_without_tools_is_never_asked(desk):
    class Plain(AgentMiddleware):
        def around_step(self, turn: Any, proceed: Any) -> Any:
            return proceed(turn)

    assert not desk.agent("x", middlewares=[Plain()]).definition.dynamic
    assert desk.agent("x", middlewares=[Bringing()]).definition.dynamic


def test_a_model_that_invents_a_name_is_told_what_there_is(desk):
    """K06, T7"""
    policy = AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")
    turn = desk.run(call("extar"), "Done.", middlewares=[Bringing(extra)], execution_policy=policy)

    assert "has no tool 'extar'; it has: extra" in turn.messages[2].content
