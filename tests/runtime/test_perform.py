"""What user code may do while an effect is performed: K35, K17, E17, X2, T8, T12."""

import asyncio
import importlib
import sys
from dataclasses import replace
from typing import Any

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, ToolErrorStrategy
from agentflex_nb.core.errors import AgentFlexError, CommandRefusedError, InvalidAgentError, ModelError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import Message, Role, Usage
from agentflex_nb.core.model import Finish, TextDelta, UsageDelta
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.agent import Agent
from agentflex_nb.runtime.context import AgentToolContext, NoToolContextError
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.runner import AgentTurnOptions
from agentflex_nb.runtime.tools import tool

DELTA = EventType.MODEL_TEXT_DELTA
call = ScriptedModel.call
TELL_MODEL = AgentExecutionPolicy(tool_errors=ToolErrorStrategy.RETURN_ERROR_TO_MODEL)


def deep(n: int = 0) -> int:
    return deep(n + 1)


def raising(error: Any) -> None:
    if error is RecursionError:
        deep()
    raise error


ERRORS = [
    SystemExit(3),
    asyncio.CancelledError(),
    GeneratorExit(),
    StopIteration("x"),
    StopAsyncIteration(),
    MemoryError(),
    RecursionError,
    TimeoutError(),
    ExceptionGroup("two", [ValueError("a"), OSError("b")]),
    ValueError("half an emoji \ud83d"),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: getattr(error, "__name__", type(error).__name__))
def test_whatever_a_tool_raises_is_a_failure_of_the_tool(memory_desk, error, is_async):
    """K35: told to the model or ending the turn, as the policy says; the kernel lives, nothing stays RUNNING."""

    @tool(name="act")
    def act() -> str:
        """Act."""
        raising(error)
        return "never"

    @tool(name="act")
    async def act_later() -> str:
        """Act later."""
        await asyncio.sleep(0)
        raising(error)
        return "never"

    tools = [act_later if is_async else act]
    failed = memory_desk.run(call("act"), tools=tools)
    told = memory_desk.run(call("act"), "Done.", tools=tools, execution_policy=TELL_MODEL)

    assert failed.status is AgentStatus.FAILED
    assert (told.status, told.output) == (AgentStatus.COMPLETED, "Done.")
    for turn in (failed, told):
        (event,) = memory_desk.events(turn, EventType.TOOL_FAILED)
        assert event.data["error"]["message"]
        event.data["error"]["message"].encode()
    assert told.messages[2].content.startswith("Error: ")


def test_sys_exit_says_with_what(desk):
    """K35: argparse in a tool."""

    @tool
    def parse() -> str:
        """Parse."""
        sys.exit(3)

    turn = desk.run(call("parse"), tools=[parse])

    assert (turn.error.kind, turn.error.message) == ("SystemExit", "SystemExit(3)")


def test_a_timeout_inside_an_async_tool_is_its_own_affair(desk):
    """K35."""

    @tool
    async def careful() -> str:
        """Give up after a while."""
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        except TimeoutError:
            return "gave up"
        return "never"

    assert desk.run(call("careful"), "Done.", tools=[careful]).messages[2].content == "gave up"


def test_an_exception_without_a_text_does_not_hurt(desk):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("no text")

    @tool
    def act() -> str:
        """Act."""
        raise Silent

    assert desk.run(call("act"), tools=[act]).error.message == "Silent"


@pytest.mark.parametrize(
    "error", [SystemExit(3), GeneratorExit(), MemoryError(), asyncio.CancelledError(), OSError("x")]
)
def test_whatever_a_model_raises_fails_the_turn(desk, error):
    """K35, E14."""
    turn = desk.run([ScriptedModel.say("half"), error], options=AgentTurnOptions())

    assert (turn.status, turn.error.kind) == (AgentStatus.FAILED, type(error).__name__)
    assert desk.log(turn)[-4:] == ["MODEL_FAILED", "SNAPSHOT_SAVED", "STEP_COMPLETED", "TURN_FAILED"]


class Odd:
    """A model that answers in an odd way."""

    name = "odd"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def stream(self, request: Any) -> Any:
        return self.answer()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda: [TextDelta("Hi."), Finish(reason="stop")], AgentStatus.COMPLETED),
        (lambda: iter([TextDelta("Hi."), Finish(reason=None)]), AgentStatus.COMPLETED),
        (lambda: None, AgentStatus.FAILED),
        (list, AgentStatus.FAILED),
        (lambda: 7, AgentStatus.FAILED),
        (lambda: ["text"], AgentStatus.FAILED),
        (lambda: [TextDelta("Hi.")], AgentStatus.FAILED),
    ],
)
def test_a_model_may_answer_with_any_iterable_of_deltas(desk, answer, status):
    """R7."""
    assert desk.run(model=Odd(answer)).status is status


def test_the_tokens_of_a_reply_that_broke_are_counted(desk):
    used = Usage(input_tokens=10, output_tokens=2)
    turn = desk.run([UsageDelta(used), ScriptedModel.say("half"), OSError("gone")])

    assert turn.usage == used
    assert desk.events(turn, EventType.MODEL_FAILED)[0].data["usage"]["total_tokens"] == 12


def test_progress_becomes_an_event_and_the_result_is_unaffected(desk):
    """E17: with any words in it, also those of the event itself."""

    @tool
    def work() -> str:
        """Work."""
        AgentToolContext.current().emit_progress(
            "half \ud83d", percent=50, status="mine", type="mine", waits_for="x", tool_call_id="mine", now=float("nan")
        )
        return "worked"

    turn = desk.run(call("work"), "Done.", tools=[work])

    (event,) = desk.events(turn, EventType.TOOL_PROGRESS)
    assert (event.data["message"], event.data["percent"], event.data["now"]) == ("half \ufffd", 50, "NaN")
    assert (event.data["status"], event.data["tool_call_id"]) == ("RUNNING", "t1.1.0")
    assert (event.data["type"], event.data["waits_for"]) == ("mine", "x")
    assert turn.messages[2].content == "worked"


def test_a_form_request_of_a_class_that_was_loaded_again_is_still_one(desk):
    """K17: importlib.reload, or %autoreload, makes another FormRequired and another AgentForm."""
    import agentflex_nb.core.forms as forms

    saved = dict(vars(forms))
    try:
        importlib.reload(forms)
        form = forms.AgentForm(
            key="seats", description="Where", schema={"type": "object", "properties": {"n": {"type": "integer"}}}
        )

        @tool
        def book() -> str:
            """Book."""
            context = AgentToolContext.current()
            if context.form_data is None:
                raise forms.FormRequired(form, "Please")
            return str(context.form_data["n"])

        turn = desk.run(call("book"), "Done.", tools=[book])
        assert turn.status is AgentStatus.WAITING_FOR_USER
        assert turn.submit({"n": 3}).messages[2].content == "3"
    finally:
        vars(forms).update(saved)


def test_words_of_a_module_that_was_loaded_again_compare_by_value(desk):
    """K17."""
    import agentflex_nb.core.events as events

    turn = desk.run("Hello.")
    saved = dict(vars(events))
    try:
        again = importlib.reload(events)
        assert desk.store.events(turn.id)[-1].type == again.EventType.TURN_COMPLETED
        assert {turn.status: 1}["COMPLETED"] == 1
    finally:
        vars(events).update(saved)


def test_a_waiting_turn_goes_on_after_its_cell_was_run_again(desk):
    """K17: tools and classes are defined anew, and are the same."""
    ran = []

    def cell():
        @tool(approval=True)
        def act() -> str:
            """Act."""
            ran.append(1)
            return "acted"

        return desk.agent(call("act"), "Done.", tools=[act])

    turn = desk.runner.run(cell(), "go", conversation_id=desk.conversation())
    desk.runner.loader.register(cell())

    assert turn.approve().output == "Done."
    assert ran == [1]


def test_a_form_that_the_agent_does_not_have_is_an_error_that_lists_them(desk):
    from agentflex_nb.core.forms import FormRequired

    @tool
    def book() -> str:
        """Book."""
        raise FormRequired("seets")

    form = AgentForm("seats", "Where", {"type": "object", "properties": {"n": {"type": "integer"}}})
    turn = desk.run(call("book"), tools=[book], forms=[form])

    assert (turn.status, turn.error.code) == (AgentStatus.FAILED, "UNKNOWN_FORM")
    assert "it has: seats" in turn.error.message


# -- what models and middlewares say -----------------------------------------------------------------------------------


class Says:
    """A model that says these deltas."""

    name = "says"

    def __init__(self, *deltas: Any) -> None:
        self.deltas = deltas

    def stream(self, request: Any) -> Any:
        return iter(self.deltas)


@pytest.mark.parametrize("data", [{"a": [1]}, {"x": object()}, {"x": float("nan")}, {"x": "\ud83d"}, None, [1]])
def test_what_a_provider_adds_to_its_reply_is_kept_as_data(desk, data):
    """I4, T14"""
    turn = desk.run(model=Says(TextDelta("hi"), Finish(reason="stop", provider_data=data)))

    assert turn.status is AgentStatus.COMPLETED


class Replaces(AgentMiddleware):
    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def around_model(self, request: Any, proceed: Any) -> Any:
        reply = proceed(request)
        return replace(reply, message=replace(reply.message, **self.fields))


def test_what_a_middleware_makes_of_a_reply_is_well_formed_and_its_own(desk):
    """I4, T2, T14"""
    held = {"a": [1]}
    turn = desk.run("hi", middlewares=[Replaces(content="half \ud83d", provider_data=held)])
    held["a"].append(2)

    assert (turn.text, turn.messages[-1].provider_data) == ("half \ufffd", {"a": (1,)})


@pytest.mark.parametrize("fields", [{"role": Role.USER}, {"role": "nobody"}, {"content": 7}, {"tool_calls": ["x"]}])
def test_a_reply_that_is_none_of_an_assistant_fails_the_turn_and_is_raised(desk, fields):
    """I1, T2"""
    with pytest.raises(AgentFlexError, match=r"role|well-formed"):
        desk.run("hi", middlewares=[Replaces(**fields)])

    assert desk.handles[-1].status is AgentStatus.FAILED


class AsksAgain(AgentMiddleware):
    def around_model(self, request: Any, proceed: Any) -> Any:
        try:
            return proceed(request)
        except ModelError:
            return proceed(request)


class Stutters:
    name = "stutters"

    def __init__(self) -> None:
        self.attempts: list[int] = []

    def stream(self, request: Any) -> Any:
        self.attempts.append(request.attempt)
        yield TextDelta("Hello")
        if len(self.attempts) == 1:
            yield UsageDelta(Usage(input_tokens=3))
            raise ModelError("cut")
        yield TextDelta(" world")
        yield Finish(reason="stop")


def test_a_middleware_that_asks_again_begins_a_new_attempt(memory_desk):
    """E14, E15, B9"""
    model = Stutters()
    streaming = AgentTurnOptions(streaming=True)

    turn = memory_desk.run(model=model, middlewares=[AsksAgain()], options=streaming)

    said = [(event.data["attempt"], event.data["content"]) for event in memory_desk.events(turn, DELTA)]
    assert (turn.text, model.attempts) == ("Hello world", [1, 2])
    assert "".join(text for attempt, text in said if attempt == 2) == turn.text
    assert {attempt for attempt, _ in said} == {1, 2}
    assert [event.data["attempt"] for event in memory_desk.events(turn, EventType.MODEL_FAILED)] == [1]
    assert turn.usage.input_tokens == 3


def test_a_policy_of_a_turn_inside_a_tool_is_not_in_that_tool(memory_desk):
    """T12: absent outside a tool."""
    seen = []

    def policy(turn: Any, call: Any, tool: Any) -> Any:
        try:
            seen.append(AgentToolContext.current().tool_name)
        except NoToolContextError:
            seen.append(None)
        return ToolApprovalDecision.ALLOW

    @tool
    def inner() -> str:
        """Inner."""
        return AgentToolContext.current().tool_name

    @tool
    def outer() -> str:
        """Outer."""
        agent = memory_desk.agent(call("inner"), "Done.", id="other", tools=[inner], approval_policy=policy)
        result = memory_desk.runner.run(agent, "go").messages[-2].content
        return f"{result} in {AgentToolContext.current().tool_name}"

    turn = memory_desk.run(call("outer"), "Done.", tools=[outer])

    assert set(seen) == {None}
    assert turn.messages[-2].content == "inner in outer"


def test_an_async_tool_that_waits_for_its_own_turn_is_refused_not_stuck(memory_desk):
    """Y8"""
    told = []

    @tool
    async def waits() -> str:
        """Wait."""
        id = AgentToolContext.current().turn_id
        for wait in (memory_desk.runner.arun_until_blocked(id), memory_desk.runner.restore(id).done()):
            try:
                await asyncio.wait_for(wait, 5)
            except CommandRefusedError as refusal:
                told.append(str(refusal))
        return "went on"

    turn = memory_desk.run(call("waits"), "Done.", tools=[waits])

    assert (turn.text, len(told)) == ("Done.", 2)
    assert "cannot wait for it" in told[0]


# -- what the model is told of an error --------------------------------------------------------------------------------


def boom(**given):
    @tool(name="act", **given)
    def act() -> str:
        """Act."""
        raise ValueError("boom")

    return act


def test_the_tool_says_what_its_error_does_and_how_it_is_told(desk):
    """T8"""
    act = boom(on_error="RETURN_ERROR_TO_MODEL", error_message=lambda call, error: f"{call.name} broke: {error}")
    turn = desk.run(call("act"), "Done.", tools=[act])

    assert turn.output == "Done."
    assert (turn.messages[2].content, turn.messages[2].tool_call_id) == ("act broke: boom", "t1.1.0")
    strict = boom(on_error=ToolErrorStrategy.FAIL_TURN)
    assert desk.run(call("act"), tools=[strict], execution_policy=TELL_MODEL).status is AgentStatus.FAILED


def test_the_agents_words_are_for_tools_that_have_none_of_their_own(desk):
    """T8"""
    other = tool(name="other", error_message=lambda call, error: "the tool's")(boom().function)
    given = {"error_message": lambda call, error: "the agent's", "execution_policy": TELL_MODEL}
    turn = desk.run([call("act"), call("other")], "Done.", tools=[boom(), other], **given)

    assert [message.content for message in turn.messages[2:4]] == ["the agent's", "the tool's"]


FOREIGN = Message(role="tool", content="mine, of another call", tool_call_id="somebody's", tool_name="else")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (lambda call, error: "half \ud83d", "half \ufffd"),
        (lambda call, error: FOREIGN, "mine, of another call"),
        (lambda call, error: None, "Error: ValueError: boom"),
        (lambda call, error: "", "Error: ValueError: boom"),
        (lambda call, error: {"not": "text"}, "Error: ValueError: boom"),
        (lambda call, error: 1 / 0, "Error: ValueError: boom"),
        (lambda call: "too few arguments", "Error: ValueError: boom"),
        (lambda call, error: raise_(SystemExit(2)), "Error: ValueError: boom"),
        (lambda call, error: raise_(error), "Error: ValueError: boom"),
    ],
    ids=["text", "another's message", "nothing", "empty", "no text", "raises", "arity", "exits", "raises it again"],
)
def test_whatever_a_message_factory_makes_the_call_keeps_its_id_and_the_error_is_told(desk, said, told):
    """T8"""
    turn = desk.run(call("act"), "Done.", tools=[boom(error_message=said)], execution_policy=TELL_MODEL)

    assert turn.output == "Done."
    assert (turn.messages[2].content, turn.messages[2].tool_call_id) == (told, "t1.1.0")
    assert desk.events(turn, EventType.TOOL_FAILED)[0].data["error"]["message"] == "boom"


def raise_(error):
    raise error


def test_a_message_factory_may_be_async(desk):
    async def word(call, error):
        await asyncio.sleep(0)
        return "worded later"

    turn = desk.run(call("act"), "Done.", tools=[boom(error_message=word)], execution_policy=TELL_MODEL)

    assert turn.messages[2].content == "worded later"


def test_the_stop_button_in_a_message_factory_ends_the_turn(memory_desk):
    """K05"""
    act = boom(error_message=lambda call, error: raise_(KeyboardInterrupt()))
    turn = memory_desk.runner.create(memory_desk.agent(call("act"), tools=[act]), "go")
    with pytest.raises(KeyboardInterrupt):
        memory_desk.runner.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED


@pytest.mark.parametrize("wrong", [{"error_message": "oops"}, {"summary": 7}, {"on_error": "SHRUG"}])
def test_a_tool_that_is_not_well_made_is_refused(wrong):
    with pytest.raises(InvalidAgentError, match=next(iter(wrong))):
        boom(**wrong)
    with pytest.raises(InvalidAgentError, match="error_message"):
        Agent("a", model=ScriptedModel("x"), error_message="oops")


def test_what_stands_around_a_tool_makes_a_version():
    def version(**given):
        return Agent("a", model=ScriptedModel("x"), tools=[boom(**given.pop("tool", {}))], **given).version

    versions = [
        version(),
        version(error_message=lambda call, error: "a"),
        version(interceptors=[lambda call, proceed: proceed(call)]),
        version(tool={"error_message": lambda call, error: "a"}),
        version(tool={"summary": lambda value: "a"}),
        version(tool={"max_result_chars": 9}),
        version(tool={"on_error": "FAIL_TURN"}),
    ]

    assert len(set(versions)) == len(versions)
