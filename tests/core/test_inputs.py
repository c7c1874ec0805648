"""Commands: built from words, with metadata that is kept or refused."""

import pytest

from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    ApproveTool,
    Continue,
    ExternalResult,
    RejectTool,
    Retry,
    UserInput,
)


@pytest.mark.parametrize(
    ("command", "kind", "word"),
    [
        (AgentResumeCommand.approve_tool("c"), ApproveTool, "APPROVE_TOOL"),
        (AgentResumeCommand.reject_tool("c", "no"), RejectTool, "REJECT_TOOL"),
        (AgentResumeCommand.user_input("c", {}), UserInput, "USER_INPUT"),
        (AgentResumeCommand.external_result("c", [1]), ExternalResult, "EXTERNAL_RESULT"),
        (AgentResumeCommand.retry("c"), Retry, "RETRY"),
        (AgentResumeCommand.continue_("c"), Continue, "CONTINUE"),
    ],
)
def test_each_command_has_its_class_and_its_word(command, kind, word):
    assert type(command) is kind
    assert command.command_type == word
    assert command.correlation_id == "c"


def test_who_answered_is_kept_as_json_or_refused():
    """A13, P9"""
    assert AgentResumeCommand.approve_tool("c", by="alice", ticket=7).metadata == {"by": "alice", "ticket": 7}
    with pytest.raises(InvalidValueError, match=r"metadata\.by"):
        AgentResumeCommand.approve_tool("c", by=object())


def test_submitted_data_is_a_copy_and_an_empty_form_is_data():
    """F9"""
    data = {"rows": [1]}
    command = AgentResumeCommand.user_input("c", data)
    data["rows"].append(2)

    assert command.data == {"rows": (1,)}
    assert AgentResumeCommand.user_input("c", {}).data == {}
    with pytest.raises(InvalidValueError):
        AgentResumeCommand.user_input("c", {"x": float("nan")})


@pytest.mark.parametrize("arguments", [[1], "amount=7", 7])
def test_changed_arguments_have_names(arguments):
    """A15"""
    with pytest.raises(InvalidValueError, match="a mapping from names to values"):
        AgentResumeCommand.approve_tool("c", arguments=arguments)
