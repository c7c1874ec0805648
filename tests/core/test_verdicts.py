"""What an approval policy may say, and which of two verdicts wins."""

import pytest

from agentflex_nb.core.errors import InvalidValueError
from agentflex_nb.core.verdicts import ALLOWED, Strictness, ToolApprovalDecision, Verdict, decided, stricter

ASK, DENY = ToolApprovalDecision.require_approval("May I?"), ToolApprovalDecision.deny("no")
INVALID = Verdict(strictness=Strictness.INVALID)


@pytest.mark.parametrize(("one", "other"), [(ALLOWED, ASK), (ASK, DENY), (DENY, INVALID), (ALLOWED, DENY)])
def test_the_stricter_verdict_wins_whichever_comes_first(one, other):
    """A19"""
    assert stricter(one, other) is stricter(other, one) is other


def test_of_two_equal_ones_the_first_stays():
    again = ToolApprovalDecision.require_approval("Really?")

    assert stricter(ASK, again) is ASK


def test_metadata_is_kept_as_json_or_refused():
    """P9"""
    assert ToolApprovalDecision.deny("no", limit=50).metadata == {"limit": 50}
    assert ToolApprovalDecision.require_approval(metadata={"a": [1]}).metadata == {"a": (1,)}
    with pytest.raises(InvalidValueError):
        ToolApprovalDecision.deny("no", why=object())


def test_a_policy_may_say_yes_or_no_or_give_a_verdict():
    assert decided(False, "pay") is ToolApprovalDecision.ALLOW
    assert decided(True, "pay").message == "pay asks for approval"
    assert decided(DENY, "pay") is DENY


@pytest.mark.parametrize("said", [None, 1, "yes", object])
def test_anything_else_that_a_policy_says_is_an_error(said):
    with pytest.raises(TypeError, match="approval of pay"):
        decided(said, "pay")
