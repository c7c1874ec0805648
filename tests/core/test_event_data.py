"""How parts of a turn look in an event."""

import json

from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.event_data import call_data, error_data, question_data, usage_data
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.machine import SuspensionType
from agentflex_nb.core.messages import ToolCall, Usage
from agentflex_nb.core.turn import Question

CALL = ToolCall(id="c1", name="pay", arguments=FrozenDict(amount=5), provider_id="call_0")
QUESTION = Question(
    id="c1", type=SuspensionType.TOOL_APPROVAL, message="May I?", tool_name="pay", arguments=CALL.arguments
)


def test_every_part_is_json():
    parts = (
        error_data(ErrorSummary(kind="E", message="m")),
        usage_data(Usage()),
        call_data(CALL),
        question_data(QUESTION),
    )

    assert json.loads(json.dumps(parts))


def test_unknown_tokens_are_null():
    """K15"""
    assert usage_data(Usage(input_tokens=3)) | {} == {
        "input_tokens": 3,
        "output_tokens": None,
        "total_tokens": 3,
        "reasoning_tokens": None,
        "cache_read_tokens": None,
        "cache_write_tokens": None,
    }


def test_a_question_holds_all_that_is_needed_to_answer_it():
    """A1"""
    data = question_data(QUESTION)

    assert (data["id"], data["type"], data["tool_name"], data["arguments"]) == (
        "c1",
        "TOOL_APPROVAL",
        "pay",
        {"amount": 5},
    )


def test_a_call_keeps_the_providers_id_beside_its_own():
    """A2"""
    assert (call_data(CALL)["id"], call_data(CALL)["provider_id"]) == ("c1", "call_0")
