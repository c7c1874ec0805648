"""A result's address: who may use it, and what it names. T14"""

import pytest

from agentflex_nb.core.messages import assistant, system, tool_result, user
from agentflex_nb.core.values import address_of, call_id_of, home_of, may_use

from .play import GO, Crash, calls, play, wants

CALL = wants("look")


@pytest.mark.parametrize("moves", [(GO,), (GO, Crash(), GO)])
def test_the_id_of_a_call_names_its_turn(moves):
    (call,) = play(*moves, calls(CALL), id="turn.of-9", root_turn_id="turn.of-9").turn.messages[-1].tool_calls

    assert home_of(call.id) == "turn.of-9"
    assert call_id_of(address_of(call.id)) == call_id_of(f" {call.id} ") == call.id
    assert may_use([user(f"plot ({address_of(call.id)}, please).")], call.id)


def answered(id: str):
    from dataclasses import replace

    return tool_result(replace(CALL, id=id), "result:t9.1.0")


@pytest.mark.parametrize(
    ("messages", "may"),
    [
        ([user("plot result:t9.1.0 and result:t8.1.0")], True),
        ([user("plot result:t9.1.0.")], True),
        ([answered("t9.1.0")], True),
        ([user("plot it")], False),
        ([user("plot result:t9.1.01")], False),
        ([answered("t8.1.0")], False),
        ([assistant("I take result:t9.1.0")], False),
        ([system("result:t9.1.0")], False),
        ([], False),
    ],
)
def test_a_result_is_used_where_it_stands_or_where_the_user_named_it(messages, may):
    """What a model or a tool writes opens nothing."""
    assert may_use(messages, "t9.1.0") is may
