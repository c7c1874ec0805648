"""An agent as data: validated when it is built."""

import pytest

from agentflex_nb.core.agent import AgentDefinition, AgentExecutionPolicy, ToolDefinition, ToolErrorStrategy
from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.forms import AgentForm


def tool(name: str, **rest) -> ToolDefinition:
    return ToolDefinition(name=name, description="d", parameters={"type": "object"}, **rest)


def agent(**changes) -> AgentDefinition:
    return AgentDefinition(**{"id": "a", "version": "1", "name": "A", **changes})


FORM = AgentForm(key="k", description="d", schema={"type": "object"})


@pytest.mark.parametrize("name", ["id", "version", "name"])
@pytest.mark.parametrize("value", ["", "  ", None, 1])
def test_id_version_and_name_are_text_that_is_not_empty(name, value):
    with pytest.raises(InvalidAgentError, match=name):
        agent(**{name: value})


@pytest.mark.parametrize("name", ["", " ", "add ", " add", None, 7, "add\u200b", "a\nb"])
def test_a_tool_has_a_name_that_shows_all_its_letters(name):
    """K06"""
    with pytest.raises(InvalidAgentError):
        tool(name)


@pytest.mark.parametrize("name", ["request_user_input", "create_task_plan", "update_task_plan"])
def test_reserved_names_are_refused(name):
    """T10"""
    with pytest.raises(InvalidAgentError, match="reserved"):
        tool(name)


def test_two_tools_of_one_name_are_refused():
    """T10"""
    with pytest.raises(InvalidAgentError, match="two tools named 'add'"):
        agent(tools=(tool("add"), tool("add")))


def test_two_forms_of_one_key_are_refused():
    """F7"""
    with pytest.raises(InvalidAgentError, match="two forms"):
        agent(forms=(FORM, FORM))


@pytest.mark.parametrize("name", ["max_iterations", "max_steps"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "3", None])
def test_limits_are_whole_numbers_of_0_or_more(name, value):
    with pytest.raises(InvalidAgentError, match=name):
        AgentExecutionPolicy(**{name: value})


def test_tool_errors_are_one_of_two_words():
    assert AgentExecutionPolicy(tool_errors="FAIL_TURN").tool_errors is ToolErrorStrategy.FAIL_TURN
    with pytest.raises(InvalidAgentError, match="FAIL_TURN or RETURN_ERROR_TO_MODEL"):
        AgentExecutionPolicy(tool_errors="IGNORE")


def test_a_model_is_offered_the_tools_and_the_way_to_the_forms():
    """F1"""
    offered = agent(tools=(tool("add"),), forms=(FORM,)).offered

    assert [spec.name for spec in offered] == ["add", "request_user_input"]
    assert offered[1].parameters["properties"]["form_key"]["enum"] == ("k",)
    assert [spec.name for spec in agent().offered] == []


def test_code_judges_the_guarded_tools_or_with_a_policy_all():
    plain, guarded = tool("plain"), tool("guarded", guarded=True)

    assert [agent(tools=(plain, guarded)).judges(asked) for asked in (plain, guarded, None)] == [False, True, False]
    assert agent(tools=(plain,), guarded=True).judges(plain)


def test_a_definition_does_not_change_with_what_it_was_made_of():
    """F7, P3"""
    schema = {"type": "object", "properties": {}}
    made = tool("add")
    kept = ToolDefinition(name="sub", description="d", parameters=schema)
    schema["properties"]["x"] = {}

    assert kept.parameters == {"type": "object", "properties": {}}
    assert made.spec.name == "add"


@pytest.mark.parametrize("wrong", [{"on_error": "SHRUG"}, {"max_result_chars": -1}, {"max_result_chars": 2.5}])
def test_a_tool_whose_error_or_result_has_no_known_fate_is_refused(wrong):
    """T8, T14"""
    with pytest.raises(InvalidAgentError, match=next(iter(wrong))):
        tool("add", **wrong)


def test_the_word_for_what_an_error_does_will_do():
    assert tool("add", on_error="FAIL_TURN").on_error is ToolErrorStrategy.FAIL_TURN
