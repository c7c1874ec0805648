"""How each effect is performed, and what is said to the turn when it is done.

User code runs here and nowhere else: models, tools, approval policies and the middlewares around them. The stop button
is honoured while it runs.
"""

from collections.abc import AsyncIterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from ..core.budget import deadline
from ..core.effects import CallModel, CheckCalls, Effect, OfferTools, RunTool
from ..core.errors import AgentFlexError, ErrorSummary, InvalidAgentError, ResultNotFoundError
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
    ToolsOffered,
)
from ..core.messages import NO_USAGE, Message, Role, ToolCall, checked_message
from ..core.model import ModelDelta, ModelRequest
from ..core.values import call_id_of, may_use
from ..core.verdicts import Strictness, Verdict, decided, stricter
from .context import AgentToolContext, entered, left
from .drive import Drive, summary
from .loop import awaited, iterate
from .middleware import Interceptor, chain, intercepted
from .offering import hidden, resolved
from .references import Find
from .stream import ReplyAssembler
from .tools import InvalidArgumentsError, Tool


class StreamLeft(AgentFlexError):
    """The stream was left: the turn is being cancelled or interrupted, or its time is used up."""


def perform(drive: Drive, effect: Effect) -> Input:
    """Do what the core asks for; returns what came back.

    Raises:
        KeyboardInterrupt: the stop button; nothing else.
    """
    match effect:
        case OfferTools():
            return _offer_tools(drive)
        case CallModel(request):
            return _call_model(drive, request)
        case CheckCalls(checked):
            return _check_calls(drive, checked)
        case RunTool(call, form_data):
            return _run_tool(drive, call, form_data)
        case _:
            assert_never(effect)


def _offer_tools(drive: Drive) -> Input:
    own: BaseException | None = None
    try:
        with drive.performing():
            without = hidden(drive.agent, drive.turn)
            try:
                drive.resolved = resolved(drive.agent, drive.turn)
            except BaseException as error:
                own = error
                raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        drive.caught = error
        if error is own:
            drive.raises = error  # a middleware's own error reaches the caller
        return ModelFailed(error=summary(error, "TOOLS_NOT_OFFERED"))
    return ToolsOffered(hidden=without, resolved=tuple([tool.definition for tool in drive.resolved.values()]))


def _call_model(drive: Drive, request: ModelRequest) -> Input:
    own: dict[int, ErrorSummary] = {}  # ids, not the errors: those would hold the frame that holds them
    replies: list[ReplyAssembler] = []
    streamed: list[ModelReplied] = []

    def inner(request: ModelRequest) -> ModelReplied:
        if replies:  # a middleware proceeds once more
            drive.reply = None  # what it used is told here, and must not be told once more
            error = next(reversed(own.values()), _ASKED_AGAIN)
            drive.say_if_runs(ModelRetried(error=error, usage=replies[-1].usage))
            request = replace(request, attempt=drive.turn.attempt)
        replies.append(ReplyAssembler(now=drive.means.clock))
        drive.reply = replies[-1]
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
        drive.caught = error
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
    source = awaited(source)
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
        drive.caught = error
        return CheckFailed(summary(error, "APPROVAL_POLICY_FAILED"))
    return CallsChecked(verdicts)


def _judge(drive: Drive, call: ToolCall) -> Verdict:
    tool, policy = drive.tool(call.name), drive.agent.approval_policy
    try:
        tool.check(call.arguments, partial(_find, drive))
    except InvalidArgumentsError as error:
        return Verdict(strictness=Strictness.INVALID, message=f"the arguments of {call.name} do not fit: {error}")
    own = tool.approval(call) if callable(tool.approval) else tool.approval
    verdict = decided(awaited(own), tool.name)
    if policy is not None:  # first: where both say the same, the policy's word is the one on record
        verdict = stricter(decided(awaited(policy(drive.turn, call, tool)), tool.name), verdict)
    return verdict


def _run_tool(drive: Drive, call: ToolCall, form_data: FrozenDict | None) -> Input:
    turn, find = drive.turn, partial(_find, drive)
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
        _find=find,
    )

    def inner(call: ToolCall) -> Any:
        try:
            return _carry_out(tool, call, drive.agent.interceptors_of(tool.name), find)
        except BaseException as error:
            own.add(id(error))
            raise

    token = entered(context)
    try:
        with drive.performing():
            tool = drive.tool(call.name)
            value = awaited(chain(drive.agent.middlewares, "around_tool", inner)(call))
            told = drive.means.results.take(call.id, value, tool)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if (form := _form_asked_for(error)) is not None:
            return _asked(drive, call, form, str(getattr(error, "message", "")))
        drive.caught = error
        if id(error) not in own:
            drive.raises = error
        return ToolFailed(call.id, failure := summary(error), _worded(drive, call, error, failure))
    finally:
        left(token)
    return ToolReturned(call.id, told.text, told.value_type, told.kept)


def _carry_out(tool: Tool, call: ToolCall, interceptors: Sequence[Interceptor], find: Find) -> Any:
    """Call the function, through what stands around it; both only ever see arguments that fit."""

    def function(call: ToolCall) -> Any:
        return awaited(tool.function(**tool.check(call.arguments, find)))

    if not interceptors:
        return function(call)
    tool.check(call.arguments, find)
    return intercepted(interceptors, function)(call)


def _find(drive: Drive, address: str) -> Any:
    """The result that an address names, if this turn may use it.

    Raises:
        ResultNotFoundError: it stands nowhere in the history of this turn, or cannot be had.
    """
    if not may_use(drive.turn.messages, call_id_of(address)):
        mend = "use the address of a result that stands here, or one that the user wrote"
        raise ResultNotFoundError(call_id_of(address), "is not in this conversation", mend)
    return drive.means.results.find(address)


def _worded(drive: Drive, call: ToolCall, error: BaseException, failure: ErrorSummary) -> str:
    """What the model is told of a tool's error: as the tool or the agent words it, or in the standard words."""
    standard = f"Error: {failure.kind}: {failure.message}"
    known = drive.agent.tools.get(call.name) or drive.resolved.get(call.name)
    word = (known.error_message if known else None) or drive.agent.error_message
    if word is None:
        return standard
    try:
        with drive.performing():
            said = awaited(word(call, error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it does: the error itself is to be told
        return standard
    text = said.content if isinstance(said, Message) else said
    return well_formed(text) if isinstance(text, str) and text else standard


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
