"""How parts of a turn look in the data of an event: errors, counted tokens, calls, questions."""

from .errors import ErrorSummary
from .frozen import FrozenDict
from .messages import ToolCall, Usage
from .turn import Question


def error_data(error: ErrorSummary) -> FrozenDict:
    """What went wrong."""
    return FrozenDict(
        kind=error.kind,
        message=error.message,
        code=error.code,
        retryable=error.retryable,
        status=error.status,
        provider_code=error.provider_code,
        request_id=error.request_id,
    )


def usage_data(usage: Usage) -> FrozenDict:
    """Tokens; what is not known is None."""
    return FrozenDict(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def call_data(call: ToolCall) -> FrozenDict:
    """A call, as the model asked for it."""
    return FrozenDict(
        id=call.id,
        name=call.name,
        arguments=call.arguments,
        malformed=call.malformed,
        provider_id=call.provider_id,
    )


def question_data(question: Question) -> FrozenDict:
    """A question, with all that is needed to answer it."""
    return FrozenDict(
        id=question.id,
        type=question.type.value,
        message=question.message,
        code=question.code,
        reason=question.reason,
        tool_name=question.tool_name,
        arguments=question.arguments,
        form_key=question.form_key,
        schema=question.schema,
        call_id=question.call_id,
        expires_at=question.expires_at.isoformat() if question.expires_at else None,
        when_expired=question.when_expired,
        metadata=question.metadata,
    )
