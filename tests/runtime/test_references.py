"""A tool is given what an earlier tool returned: T14"""

from typing import Any, Optional, Protocol

import pandas as pd
import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.errors import InvalidAgentError, ResultNotFoundError
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.references import ResultRef
from agentflex_nb.runtime.tools import InvalidArgumentsError, tool

call = ScriptedModel.call
FRAME = pd.DataFrame({"n": range(1_000)})
TELL_MODEL = AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")


@tool
def load() -> Any:
    """Load a table."""
    return FRAME


@tool
def add_up(frame: ResultRef[pd.DataFrame], factor: int = 1) -> int:
    """Add up."""
    return int(frame["n"].sum()) * factor


def test_the_schema_asks_for_an_address():
    assert add_up.definition.parameters["properties"]["frame"] == {"pattern": "^result:", "type": "string"}
    assert add_up.definition.parameters["required"] == ("frame",)


def test_a_tool_gets_the_value_that_the_address_names(desk):
    turn = desk.run(call("load"), call("add_up", frame="result:t1.1.0", factor=2), "Done.", tools=[load, add_up])

    assert "result:t1.1.0" in turn.messages[2].content
    assert turn.messages[4].content == str(2 * sum(range(1_000)))


def test_in_the_process_it_is_the_very_object(desk):
    """Rule 3: nothing is copied on its way."""
    same = []

    @tool
    def look(frame: ResultRef[Any]) -> bool:
        """Look."""
        same.append(frame is FRAME)
        return True

    desk.run(call("load"), call("look", frame="result:t1.1.0"), "Done.", tools=[load, look])

    assert same == [True]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("result:t1.9.0", "is not in this conversation"),
        ("t1.1.0", "match pattern"),
        ("frame.csv", "match pattern"),
        (7, "valid string"),
    ],
)
def test_an_address_that_names_nothing_is_the_models_to_mend(desk, address, said):
    """K07, T9: nothing runs, and the turn goes on."""
    turn = desk.run(call("load"), call("add_up", frame=address), "Done.", tools=[load, add_up])

    assert turn.output == "Done."
    assert said in turn.messages[4].content


def test_a_value_of_another_type_is_refused(desk):
    @tool
    def numbers() -> Any:
        """Numbers."""
        return [1, 2]

    turn = desk.run(call("numbers"), call("add_up", frame="result:t1.1.0"), "Done.", tools=[numbers, add_up])

    assert "result:t1.1.0 is a list, not a DataFrame" in turn.messages[4].content


def test_a_result_of_another_conversation_is_used_only_if_the_user_names_it(desk):
    """Whoever only guesses an id gets nothing."""
    first = desk.run(call("load"), "Done.", tools=[load])
    asks = call("add_up", frame="result:t1.1.0")

    guessed = desk.run(asks, "Done.", tools=[add_up], input="add something up")
    named = desk.run(asks, "Done.", tools=[add_up], input="add up result:t1.1.0, please")

    assert first.id == "t1"
    assert "is not in this conversation" in guessed.messages[2].content
    assert named.messages[2].content == str(sum(range(1_000)))


def test_a_reference_may_be_left_out_and_stand_in_a_list(desk):
    @tool
    def count(one: Optional[ResultRef[Any]] = None, many: list[ResultRef[Any]] = []) -> list[int]:  # noqa: B006, UP045
        """Count."""
        return [0 if one is None else len(one), *map(len, many)]

    asks = call("count", many=["result:t1.1.0", "result:t1.1.0"])
    turn = desk.run(call("load"), asks, call("count", one="result:t1.1.0"), "Done.", tools=[load, count])

    assert [turn.messages[4].content, turn.messages[6].content] == ["[0, 1000, 1000]", "[1000]"]


def test_a_type_that_no_value_can_be_held_against_is_refused_where_the_tool_is_made():
    class Sized(Protocol):
        size: int

    with pytest.raises(InvalidAgentError, match="runtime_checkable"):

        @tool
        def look(thing: ResultRef[Sized]) -> None:
            """Look."""


def test_without_a_turn_an_address_is_checked_for_its_form_and_stays_as_it_is():
    assert add_up.check({"frame": "result:t1.1.0"}) == {"frame": "result:t1.1.0"}
    with pytest.raises(InvalidArgumentsError, match="frame"):
        add_up.check({"frame": "t1.1.0"})


def test_a_tool_may_ask_for_a_result_itself(desk):
    seen = []

    @tool
    def look(address: str) -> str:
        """Look."""
        context = AgentToolContext.current()
        seen.append(context.result(address))
        return str(context.result("result:t9.9.9"))

    asks = call("look", address="result:t1.1.0")
    turn = desk.run(call("load"), asks, "Done.", tools=[load, look], execution_policy=TELL_MODEL)

    assert seen[0] is FRAME
    assert turn.messages[4].content.startswith(f"Error: {ResultNotFoundError.__name__}: the result of call 't9.9.9'")


def test_a_gated_call_with_a_reference_goes_on_in_another_kernel(desk):
    """A10, P4: the value comes out of the store."""

    def agent():
        gated = tool(name="add_up", approval=True)(add_up.function)
        return desk.agent(
            call("load"), call("add_up", frame="result:t1.1.0"), "Done.", tools=[load, gated], version="1"
        )

    turn = desk.runner.run(agent(), "go", conversation_id=desk.conversation())
    desk.forget_values()

    assert desk.another_runner().restore(turn.id).approve().messages[4].content == str(sum(range(1_000)))
