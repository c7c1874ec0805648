"""How each effect is performed, and what is said to the turn when it is done.

User code runs here and nowhere else: models, tools, approval policies and the middlewares around them. The stop button
is honoured while it runs.
"""

import inspect
from collections.abc import AsyncIterable, Iterator
from dataclasses import replace
from typing import Any, assert_never

from ..core.budget import deadline
from ..core.effects import CallModel, CheckCalls, Effect, RunTool
from ..core.errors import AgentFlexError, ErrorSummary, InvalidAgentError
from ..core.forms import FormRequired
from ..core.frozen import FrozenDict, well_formed
from ..core.inputs import (
    CallsChecked,
    CheckFailed,
    Input,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    ToolAsked,
    ToolFailed,
    ToolProgressed,
    ToolReturned,
)
from ..core.messages import NO_USAGE, Role, ToolCall, checked_message
from ..core.model import ModelDelta, ModelRequest
from ..core.verdicts import Strictness, Verdict, decided, stricter
from .context import AgentToolContext, entered, left
from .drive import Drive, summary
from .loop import iterate, wait_for
from .middleware import chain
from .stream import ReplyAssembler
from .tools import InvalidArgumentsError, to_text


class StreamLeft(AgentFlexError):
    """The stream was left: the turn is being cancelled or interrupted, or its time is used up."""


def perform(drive: Drive, effect: Effect) -> Input:
    """Do what the core asks for; returns what came back.

    Raises:
        KeyboardInterrupt: the stop button; nothing else.
    """
    match effect:
        case CallModel(request):
            return _call_model(drive, request)
        case CheckCalls(checked):
            return _check_calls(drive, checked)
        case RunTool(call, form_data):
            return _run_tool(drive, call, form_data)
        case _:
            assert_never(effect)


def _call_model(drive: Drive, request: ModelRequest) -> Input:
    own: dict[int, ErrorSummary] = {}  # ids, not the errors: those would hold the frame that holds them
    replies: list[ReplyAssembler] = []
    streamed: list[ModelReplied] = []

    def inner(request: ModelRequest) -> ModelReplied:
        if replies:  # a middleware proceeds once more
            error = next(reversed(own.values()), _ASKED_AGAIN)
            drive.say_if_runs(ModelRetried(error=error, usage=replies[-1].usage))
            request = replace(request, attempt=drive.turn.attempt)
        replies.append(ReplyAssembler(now=drive.means.clock))
        try:
            streamed.append(_stream(drive, request, replies[-1]))
            return streamed[-1]
        except BaseException as error:
            own[id(error)] = summary(error)
            raise

    try:
        with drive.performing():
            reply = chain(drive.agent.middlewares, "around_model", inner)(request)
            if not streamed or reply is not streamed[-1]:
                reply = _checked_reply(reply)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if id(error) not in own:
            drive.raises = error  # a middleware's own error reaches the caller
        code = "LEFT" if isinstance(error, StreamLeft) else ""
        return ModelFailed(error=summary(error, code), usage=replies[-1].usage if replies else NO_USAGE)
    return reply


_ASKED_AGAIN = ErrorSummary(kind="AskedAgain", message="a middleware asked the model again", code="ASKED_AGAIN")


def _checked_reply(value: Any) -> ModelReplied:
    """What the middlewares made of the reply, as it may enter a history.

    Raises:
        InvalidAgentError, InvalidValueError: it is no reply of an assistant.
    """
    if not isinstance(value, ModelReplied):
        met = f"around_model returned {type(value).__name__}"
        raise InvalidAgentError(met, "a ModelReplied", "return what proceed(request) returns")
    message = checked_message(value.message, "the message of the reply")
    if message.role is not Role.ASSISTANT:
        met = f"around_model returned a message of role {message.role}"
        raise InvalidAgentError(met, "an assistant's message", "make it with Message(role=Role.ASSISTANT, ...)")
    return replace(value, message=message)


def _stream(drive: Drive, request: ModelRequest, assembler: ReplyAssembler) -> ModelReplied:
    until = deadline(drive.turn)
    deltas = _deltas(drive.agent.model.stream(request))
    try:
        for delta in deltas:
            if why := drive.why_leave():
                raise StreamLeft(f"{why} while the model answered")
            if until is not None and drive.means.clock() >= until:
                raise StreamLeft("the time of the turn was used up while the model answered")
            pieces = assembler.feed(delta)
            if request.streaming:
                drive.stream(pieces)
    finally:
        if callable(close := getattr(deltas, "close", None)):
            close()
    if request.streaming:
        drive.stream(assembler.rest())
    return assembler.finish()


def _deltas(source: Any) -> Iterator[ModelDelta]:
    source = _awaited(source)
    return iterate(source) if isinstance(source, AsyncIterable) else iter(source or ())


def _check_calls(drive: Drive, calls: tuple[ToolCall, ...]) -> Input:
    verdicts = {}
    try:
        with drive.performing():
            for call in calls:
                verdicts[call.id] = _judge(drive, call)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return CheckFailed(summary(error, "APPROVAL_POLICY_FAILED"))
    return CallsChecked(verdicts)


def _judge(drive: Drive, call: ToolCall) -> Verdict:
    tool, policy = drive.agent.tools[call.name], drive.agent.approval_policy
    try:
        tool.check(call.arguments)
    except InvalidArgumentsError as error:
        return Verdict(strictness=Strictness.INVALID, message=f"the arguments of {call.name} do not fit: {error}")
    own = tool.approval(call) if callable(tool.approval) else tool.approval
    verdict = decided(_awaited(own), tool.name)
    if policy is not None:  # first: where both say the same, the policy's word is the one on record
        verdict = stricter(decided(_awaited(policy(drive.turn, call, tool)), tool.name), verdict)
    return verdict


def _run_tool(drive: Drive, call: ToolCall, form_data: FrozenDict | None) -> Input:
    tool, turn = drive.agent.tools[call.name], drive.turn
    identity = turn.identity
    own: set[int] = set()

    def report(message: str, data: FrozenDict) -> None:
        drive.say_late(ToolProgressed(call.id, message, data))

    context = AgentToolContext(
        turn_id=identity.id,
        root_turn_id=identity.root_turn_id,
        parent_turn_id=identity.parent_turn_id,
        conversation_id=identity.conversation_id,
        agent_id=identity.agent_id,
        agent_version=identity.agent_version,
        step=turn.step_count,
        call=call,
        form_data=form_data,
        _progress=report,
        _cancelled=drive.is_cancelled,
    )

    def inner(call: ToolCall) -> Any:
        try:
            return _awaited(tool.function(**tool.check(call.arguments)))
        except BaseException as error:
            own.add(id(error))
            raise

    token = entered(context)
    try:
        with drive.performing():
            content = to_text(_awaited(chain(drive.agent.middlewares, "around_tool", inner)(call)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if (form := _form_asked_for(error)) is not None:
            return _asked(drive, call, form, str(getattr(error, "message", "")))
        if id(error) not in own:
            drive.raises = error
        told = summary(error)
        return ToolFailed(call.id, told, f"Error: {told.kind}: {told.message}")
    finally:
        left(token)
    return ToolReturned(call.id, content)


def _form_asked_for(error: BaseException) -> Any:
    """The form that a FormRequired asks for; the class is known by its name, which survives a reload of its module."""
    asks = any(kind.__name__ == FormRequired.__name__ for kind in type(error).__mro__)
    return getattr(error, "form", None) if asks else None


def _asked(drive: Drive, call: ToolCall, asked: Any, message: str) -> Input:
    known = drive.definition.form_by_key
    form = known.get(asked) if isinstance(asked, str) else asked
    if form is None:
        has = ", ".join(known) or "none"
        met = f"{call.name} asked for form {asked!r}, which the agent does not have; it has: {has}"
        return ToolFailed(call.id, ErrorSummary(kind="UnknownForm", message=met, code="UNKNOWN_FORM"), f"Error: {met}")
    return ToolAsked(call.id, form, well_formed(message))


def _awaited(value: Any) -> Any:
    return wait_for(value) if inspect.isawaitable(value) else value
