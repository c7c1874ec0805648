"""What a tool knows of its call, in every thread: T12, T13, K19."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.events import EventType
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext, NoToolContextError
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call
user_variable = contextvars.ContextVar("user_variable", default="nothing")


def test_a_tool_knows_its_turn_its_call_and_its_key(desk):
    """T12."""
    seen = []

    @tool
    def look(what: str) -> str:
        """Look."""
        seen.append(AgentToolContext.current())
        return what

    turn = desk.run(call("look", what="x"), "Done.", tools=[look])

    (context,) = seen
    assert (context.turn_id, context.root_turn_id, context.parent_turn_id) == (turn.id, turn.id, None)
    assert (context.agent_id, context.agent_version) == ("shop", turn.to_snapshot().identity.agent_version)
    assert (context.tool_name, context.call.arguments, context.step) == ("look", {"what": "x"}, 1)
    assert context.conversation_id == "c1"
    assert context.idempotency_key == f"{turn.id}:{turn.id}.1.0"
    assert context.form_data is None


def test_outside_a_tool_there_is_none(desk):
    """T12, K19: also not after the tool, in its thread."""
    desk.run(call("look"), "Done.", tools=[tool(name="look")(lambda: "seen")])

    with pytest.raises(NoToolContextError, match="carry"):
        AgentToolContext.current()


def test_it_is_there_in_the_threads_and_tasks_that_a_tool_starts(desk):
    """K19: to_thread and gather by themselves, an executor through carry; a bare thread has a clear error."""

    @tool
    async def spread() -> list[str]:
        """Spread out."""

        def inside() -> str:
            return AgentToolContext.current().turn_id

        async def child() -> str:
            await asyncio.sleep(0)
            return inside()

        both = await asyncio.gather(child(), child())
        return [await asyncio.to_thread(inside), *both]

    @tool
    def pool() -> list[str]:
        """Use a pool."""
        context = AgentToolContext.current()

        def inside(_: int) -> str:
            return AgentToolContext.current().turn_id + user_variable.get()

        with ThreadPoolExecutor(4) as executor:
            carried = list(executor.map(context.carry(inside), range(4)))
            (bare,) = executor.map(lambda _: type(_error(inside, 1)).__name__, [1])
        return [*carried, bare]

    def _error(function, *args):
        try:
            return function(*args)
        except NoToolContextError as error:
            return error

    user_variable.set(" mine")
    turn = desk.run([call("spread"), call("pool")], "Done.", tools=[spread, pool])

    assert turn.messages[2].content == '["t1", "t1", "t1"]'
    assert turn.messages[3].content == '["t1 mine", "t1 mine", "t1 mine", "t1 mine", "NoToolContextError"]'


def test_a_users_context_variable_is_seen_in_tools_of_every_colour(desk):
    """K19."""
    user_variable.set("from an earlier cell")

    @tool
    def plain() -> str:
        """Look."""
        return user_variable.get()

    @tool
    async def later() -> str:
        """Look later."""
        return user_variable.get()

    agent = desk.agent([call("plain"), call("later")], "Done.", tools=[plain, later])

    async def cell():
        return await desk.runner.arun(agent, "go")

    for turn in (desk.runner.run(agent, "go"), desk.runner.start(agent, "go").wait(5), asyncio.run(cell())):
        assert [message.content for message in turn.messages[2:4]] == ["from an earlier cell"] * 2


def test_two_turns_at_once_never_see_each_others_context(desk, at_once):
    """K19."""
    barrier = threading.Barrier(2)

    @tool
    def work() -> str:
        """Tell, while the other one does."""
        for n in range(10):
            barrier.wait(5)
            AgentToolContext.current().emit_progress(f"{AgentToolContext.current().turn_id}.{n}")
        return AgentToolContext.current().turn_id

    turns = at_once(*[lambda: desk.run(call("work"), "Done.", tools=[work])] * 2)

    for turn in turns:
        assert turn.messages[2].content == turn.id
        messages = [event.data["message"] for event in desk.events(turn, EventType.TOOL_PROGRESS)]
        assert messages == [f"{turn.id}.{n}" for n in range(10)]


def test_what_is_said_after_the_tool_has_returned_is_dropped(desk):
    kept = []

    @tool
    def leave() -> str:
        """Leave the context behind."""
        kept.append(AgentToolContext.current())
        return "left"

    turn = desk.run(call("leave"), "Done.", tools=[leave])
    log = desk.log(turn)
    kept[0].emit_progress("too late")

    assert desk.log(turn) == log


def test_a_none_key_is_refused_where_it_is_given(desk):
    """E11."""

    @tool
    def work() -> str:
        """Say something that cannot be kept."""
        with pytest.raises(InvalidValueError):
            AgentToolContext.current().emit_progress("x", data={None: 1})
        return "refused"

    assert desk.run(call("work"), "Done.", tools=[work]).messages[2].content == "refused"
