"""Messages and counted tokens."""

from dataclasses import FrozenInstanceError

import pytest

from agentflex_nb.core.messages import NO_USAGE, Origin, ToolCall, Usage, assistant, system, tool_result, user


def test_each_role_has_its_word():
    call = ToolCall(id="c1", name="add")

    assert [m.role for m in (user("a"), system("b"), assistant("c"), tool_result(call, "d"))] == [
        "user", "system", "assistant", "tool",
    ]  # fmt: skip
    assert (tool_result(call, "d").tool_call_id, tool_result(call, "d").tool_name) == ("c1", "add")
    assert tool_result(call, "d", Origin.RUNTIME).origin == "runtime"


def test_a_message_does_not_change():
    with pytest.raises(FrozenInstanceError):
        user("a").content = "b"


def test_tokens_add_up_and_unknown_is_not_zero():
    """K15"""
    known = Usage(input_tokens=10, output_tokens=None)

    assert known + Usage(input_tokens=1, output_tokens=5) == Usage(input_tokens=11, output_tokens=5)
    assert known + NO_USAGE == known
    assert (NO_USAGE + NO_USAGE).total_tokens is None
    assert known.total_tokens == 10
