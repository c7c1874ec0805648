"""Every piece of code of an agent, with the part that it belongs to."""

import functools

import pytest

from agentflex_nb.core.drift import UNREADABLE
from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.runtime.fingerprint import fingerprint
from agentflex_nb.runtime.middleware import AgentMiddleware
from agentflex_nb.runtime.sources import sources
from agentflex_nb.runtime.tools import Tool, tool


@tool(approval=lambda call: call.arguments["amount"] > 50)
def refund(amount: float) -> str:
    """Refund."""
    return f"refunded {amount}"


def judge(turn, call, tool):
    return False


class Quiet(AgentMiddleware):
    def around_tool(self, call, proceed):
        return proceed(call)


def test_tools_their_approvals_policies_and_middlewares_are_all_there():
    found = sources([refund], {"approval policy": judge}, [Quiet()])

    assert [(source.part, source.role, source.name) for source in found] == [
        ("tool refund", "source", "refund"),
        ("tool refund", "approval", "<lambda>"),
        ("approval policy", "source", "judge"),
        ("middleware Quiet", "source", "Quiet"),
    ]
    assert {source.module for source in found} == {__name__}
    assert found[0].text.startswith("@tool(approval=")
    assert found[1].text == "lambda call: call.arguments['amount'] > 50"
    assert "def around_tool(self, call, proceed):" in found[3].text
    assert (found[2].code, found[3].code) == (fingerprint(judge, "it"), "")


def test_a_version_stands_for_code_and_the_text_is_kept_all_the_same():
    [source] = sources([tool(version="7")(judge.__get__(object()))], {}, [])

    assert source.code == "7"
    assert source.text.startswith("def judge(")


def test_code_that_cannot_be_read_counts_as_the_same_everywhere_unless_that_is_refused():
    part = Tool(name="p", description="", function=functools.partial(judge), parameters={})

    [source] = sources([part], {}, [])

    assert (source.code, source.text, source.name) == (UNREADABLE, "", "partial")
    with pytest.raises(InvalidAgentError, match="tool 'p'"):
        sources([part], {}, [], strict=True)
