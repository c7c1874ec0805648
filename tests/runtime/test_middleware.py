"""Middlewares around steps, models and tools; interceptors; what is told of an error: T1 to T4, T8, T15, K35."""

import asyncio
from dataclasses import replace

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, ToolErrorStrategy
from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.inputs import ModelReplied
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import assistant, user
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.groups import ToolGroup
from agentflex_nb.runtime.middleware import AgentMiddleware, chain
from agentflex_nb.runtime.tools import tool

call, say = ScriptedModel.call, ScriptedModel.say
TELL_MODEL = AgentExecutionPolicy(tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL)


class Noting(AgentMiddleware):
    def __init__(self, name, notes):
        self.name, self.notes = name, notes

    def _around(self, what, value, proceed):
        self.notes.append(f"{self.name} before {what}")
        try:
            return proceed(value)
        finally:
            self.notes.append(f"{self.name} after {what}")

    def around_step(self, turn, proceed):
        return self._around("step", turn, proceed)

    def around_model(self, request, proceed):
        return self._around("model", request, proceed)

    def around_tool(self, call, proceed):
        return self._around("tool", call, proceed)


@tool
def look(what: str = "it") -> str:
    """Look."""
    return f"{what} seen"


def test_the_first_registered_is_the_outermost(desk):
    """T1, T3: after-code runs in reverse."""
    notes = []
    desk.run(call("look"), "Done.", tools=[look], middlewares=[Noting("a", notes), Noting("b", notes)])

    def both(what):
        return [f"a before {what}", f"b before {what}", f"b after {what}", f"a after {what}"]

    first = ["a before step", "b before step", *both("model"), *both("tool"), "b after step", "a after step"]
    second = ["a before step", "b before step", *both("model"), "b after step", "a after step"]
    assert notes == first + second


class Changing(AgentMiddleware):
    """Changes the prompt, the reply, the arguments and the result."""

    def around_model(self, request, proceed):
        reply = proceed(replace(request, messages=(*request.messages, user("and be kind"))))
        return replace(reply, message=replace(reply.message, content=reply.message.content.upper()))

    def around_tool(self, call, proceed):
        return proceed(replace(call, arguments={"what": "something else"})) + ", twice"


def test_a_middleware_can_change_what_goes_in_and_what_comes_out(desk):
    """T2."""
    turn = desk.run(call("look"), "Done.", tools=[look], middlewares=[Changing()])

    assert turn.output == "DONE."
    assert turn.messages[2].content == "something else seen, twice"
    assert turn.messages[0].content == "go"


class Answering(AgentMiddleware):
    """Answers without the model and without the tool."""

    def around_model(self, request, proceed):
        if request.iteration > 1:
            return ModelReplied(message=assistant("From me."), finish_reason="stop")
        return proceed(request)

    def around_tool(self, call, proceed):
        return {"from": "me"}


def test_a_middleware_can_skip_the_model_and_the_tool(desk):
    """T2."""

    @tool
    def never() -> str:
        """Never called."""
        raise AssertionError("it was called")

    turn = desk.run(call("never"), tools=[never], middlewares=[Answering()])

    assert (turn.output, turn.messages[2].content) == ("From me.", '{"from": "me"}')


class Retrying(AgentMiddleware):
    def around_model(self, request, proceed):
        try:
            return proceed(request)
        except ConnectionError:
            return proceed(request)


def test_a_second_attempt_of_a_middleware_starts_from_nothing(desk):
    """T2, K25: the text of the first attempt is not part of the reply."""
    replies = [[say("Ana"), ConnectionError("gone")], [say("Analyze ok")]]
    turn = desk.run(lambda request: replies.pop(0), middlewares=[Retrying()])

    assert turn.output == "Analyze ok"


class Raising(AgentMiddleware):
    def __init__(self, where, error, after=False):
        self.where, self.error, self.after = where, error, after

    def _around(self, where, value, proceed):
        if where == self.where and not self.after:
            raise self.error
        result = proceed(value)
        if where == self.where:
            raise self.error
        return result

    def around_step(self, turn, proceed):
        return self._around("step", turn, proceed)

    def around_model(self, request, proceed):
        return self._around("model", request, proceed)

    def around_tool(self, call, proceed):
        return self._around("tool", call, proceed)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("where", ["step", "model", "tool"])
@pytest.mark.parametrize("error", [ZeroDivisionError("x"), SystemExit(3), StopIteration(), asyncio.CancelledError()])
def test_an_error_of_its_own_fails_the_turn_and_reaches_the_caller(memory_desk, where, after, error):
    """T3, K35: with a final event, and inner and outer ones run to their end."""
    notes = []
    middlewares = [Noting("outer", notes), Raising(where, error, after)]
    agent = memory_desk.agent(call("look"), "Done.", tools=[look], middlewares=middlewares)
    turn = memory_desk.runner.create(agent, "go", conversation_id=memory_desk.conversation())

    with pytest.raises(type(error)):
        memory_desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.FAILED
    assert memory_desk.log(turn)[-1] == "TURN_FAILED"
    assert notes[-1] == "outer after step"


def test_an_error_after_the_turn_stands_still_reaches_the_caller_and_changes_nothing(desk):
    """T3, Z14."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    agent = desk.agent(call("ask"), tools=[ask], middlewares=[Raising("step", ZeroDivisionError(), after=True)])
    turn = desk.runner.create(agent, "go", conversation_id=desk.conversation())
    with pytest.raises(ZeroDivisionError):
        desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.WAITING_FOR_APPROVAL
    assert desk.log(turn)[-2:] == ["STEP_COMPLETED", "TURN_SUSPENDED"]


def test_a_tool_middlewares_error_becomes_a_message_where_that_is_wanted(desk):
    """T4, T8: and a later failure of another kind is not taken for it."""
    given = {
        "tools": [look],
        "middlewares": [Raising("tool", ZeroDivisionError("mine"))],
        "execution_policy": TELL_MODEL,
    }

    told = desk.run(call("look"), "Done.", **given)
    failed = desk.run(call("look"), ValueError("the model's"), **given)

    assert told.output == "Done."
    assert told.messages[2].content == "Error: ZeroDivisionError: mine"
    assert (failed.status, failed.error.message) == (AgentStatus.FAILED, "the model's")


class Silent(AgentMiddleware):
    """Does not let a step proceed."""

    def around_step(self, turn, proceed):
        return turn


class Forgetful(AgentMiddleware):
    """Returns nothing, as people forget to."""

    def around_model(self, request, proceed):
        proceed(request)


@pytest.mark.parametrize(("middleware", "said"), [(Silent(), "proceed"), (Forgetful(), "ModelReplied")])
def test_a_middleware_that_does_not_do_its_part_is_told_so(memory_desk, middleware, said):
    agent = memory_desk.agent("Hello.", middlewares=[middleware])
    turn = memory_desk.runner.create(agent, "go", conversation_id=memory_desk.conversation())

    with pytest.raises(InvalidAgentError, match=said):
        memory_desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.FAILED


class Async(AgentMiddleware):
    async def around_tool(self, call, proceed):
        return proceed(call)


def test_a_coroutine_method_is_refused_when_the_agent_is_made(memory_desk):
    with pytest.raises(InvalidAgentError, match="around_tool of middleware Async"):
        memory_desk.agent("x", middlewares=[Async()])


def test_around_an_async_tool_stands_a_plain_method(desk):
    @tool
    async def later() -> str:
        """Later."""
        await asyncio.sleep(0)
        return "came"

    class Shouting(AgentMiddleware):
        def around_tool(self, call, proceed):
            return proceed(call).upper()

    turn = desk.run(call("later"), "Done.", tools=[later], middlewares=[Shouting()])

    assert turn.messages[2].content == "CAME"


def test_only_methods_that_are_overridden_are_called():
    def inner(value):
        return value

    assert chain([AgentMiddleware(), Forgetful()], "around_tool", inner) is inner


# -- interceptors ------------------------------------------------------------------------------------------------------


def noting(name, notes):
    def around(call, proceed):
        notes.append(f"{name} before {dict(call.arguments)}")
        try:
            return proceed(call)
        finally:
            notes.append(f"{name} after")

    return around


def test_interceptors_run_inside_the_middlewares_in_their_order_around_the_function(desk):
    """T15: those of the agent around those of the group."""
    notes = []

    class Outer(AgentMiddleware):
        def around_tool(self, call, proceed):
            return noting("middleware", notes)(call, proceed)

    @tool
    def act(what: str) -> str:
        """Act."""
        notes.append(f"act {what}")
        return what

    group = ToolGroup("acts", [act], interceptors=[noting("group", notes)])
    agents = [noting("first", notes), noting("second", notes)]
    desk.run(call("act", what="x"), "Done.", tool_groups=[group], interceptors=agents, middlewares=[Outer()])

    before = [f"{name} before {{'what': 'x'}}" for name in ("middleware", "first", "second", "group")]
    assert notes == [*before, "act x", "group after", "second after", "first after", "middleware after"]


def test_the_interceptors_of_a_group_are_for_its_tools_only(desk):
    notes = []
    group = ToolGroup("acts", [tool(name="act")(lambda: "acted")], interceptors=[noting("group", notes)])
    desk.run([call("look"), call("act")], "Done.", tools=[look], tool_groups=[group])

    assert notes == ["group before {}", "group after"]


def test_an_interceptor_may_change_arguments_and_result_and_answer_for_the_function(desk):
    """T15: the result is still a Python value; changed arguments are validated."""

    def doubled(call, proceed):
        if call.arguments["n"] > 100:
            return {"too": "large"}
        return proceed(replace(call, arguments={"n": call.arguments["n"] * 2})) + 1

    @tool
    def act(n: int) -> int:
        """Act."""
        return n

    asks = [call("act", n=5), call("act", n=1_000)]
    turn = desk.run(asks, "Done.", tools=[act], interceptors=[doubled])

    assert [turn.messages[2].content, turn.messages[3].content] == ["11", '{"too": "large"}']
    spoilt = desk.run(
        call("act", n=5), tools=[act], interceptors=[lambda c, go: go(replace(c, arguments={"n": "many"}))]
    )
    assert (spoilt.status, spoilt.error.kind) == (AgentStatus.FAILED, "InvalidArgumentsError")


def test_an_interceptor_sees_only_arguments_that_fit(desk):
    """T9, T15: also where a middleware has changed them."""
    notes = []

    class Spoiling(AgentMiddleware):
        def around_tool(self, call, proceed):
            return proceed(replace(call, arguments={"what": [1]}))

    given = {"tools": [look], "interceptors": [noting("i", notes)], "execution_policy": TELL_MODEL}
    wrong = desk.run(call("look", what=7), "Done.", **given)
    spoilt = desk.run(call("look"), "Done.", middlewares=[Spoiling()], **given)

    assert notes == []
    assert "Nothing was run" in wrong.messages[2].content
    assert spoilt.messages[2].content.startswith("Error: InvalidArgumentsError")


def test_around_an_async_function_stands_a_plain_interceptor(desk):
    @tool
    async def later() -> str:
        """Later."""
        await asyncio.sleep(0)
        return "came"

    turn = desk.run(call("later"), "Done.", tools=[later], interceptors=[lambda c, proceed: proceed(c).upper()])

    assert turn.messages[2].content == "CAME"


def test_an_interceptor_may_call_the_function_again(desk):
    """T15"""
    tries = []

    @tool
    def flaky() -> str:
        """Flaky."""
        tries.append(1)
        if len(tries) < 3:
            raise OSError("busy")
        return "at last"

    def patient(call, proceed):
        while True:
            try:
                return proceed(call)
            except OSError:
                pass

    assert desk.run(call("flaky"), "Done.", tools=[flaky], interceptors=[patient]).messages[2].content == "at last"


RAISED = [
    SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), MemoryError(), RecursionError(),
    ExceptionGroup("two", [ValueError("a"), OSError("b")]), ValueError("x"),
]  # fmt: skip


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_an_interceptor_raises_is_the_tools_error(memory_desk, error, after):
    """K35, T4, T8: told to the model where that is wanted; nothing reaches the caller."""

    def raising(call, proceed):
        if after:
            proceed(call)
        raise error

    given = {"tools": [look], "interceptors": [raising]}
    failed = memory_desk.run(call("look"), **given)
    told = memory_desk.run(call("look"), "Done.", execution_policy=TELL_MODEL, **given)

    assert (failed.status, failed.error.kind) == (AgentStatus.FAILED, type(error).__name__)
    assert (told.output, told.messages[2].content[:7]) == ("Done.", "Error: ")


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_a_middleware_raises_around_a_tool_becomes_a_message_where_that_is_wanted(memory_desk, error):
    """K35, T4"""
    given = {"tools": [look], "middlewares": [Raising("tool", error)], "execution_policy": TELL_MODEL}

    assert memory_desk.run(call("look"), "Done.", **given).output == "Done."


async def coroutine(call, proceed):
    return proceed(call)


@pytest.mark.parametrize("wrong", [coroutine, "log", None])
def test_what_is_no_interceptor_is_refused_when_the_agent_is_made(memory_desk, wrong):
    with pytest.raises(InvalidAgentError, match="agent 'shop' with"):
        memory_desk.agent("x", tools=[look], interceptors=[wrong])
