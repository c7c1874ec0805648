"""Approval rules: the first that fits decides, in doubt a call is held back, and the record names the rule."""

import json

import pytest

from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.rules import ApprovalRule, ApprovalRules
from agentflex_nb.core.verdicts import Strictness

RULES = ApprovalRules(
    [
        ApprovalRule(
            name="never abroad", tool="refund", when={"/country": {"not in": ["DE", "FR"]}}, decision="DENY",
            reason="only at home", code="ABROAD",
        ),
        ApprovalRule(
            name="large", tool="refund", when={"/amount": {">": 50}}, decision="ASK", message="Refund so much?",
            expires_in=60, when_expired="APPROVE", metadata={"ticket": "T-1"},
        ),
        ApprovalRule(tool="look*", decision="ALLOW"),
    ],
    default="ASK",
)  # fmt: skip


def judged(name, schema=None, **arguments):
    verdict = RULES.judge(name, freeze(arguments), schema or {})
    return verdict.strictness.name, verdict.metadata["rule"]


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("refund", {"country": "US", "amount": 60}, ("DENY", "never abroad")),
        ("refund", {"country": "DE", "amount": 60}, ("ASK", "large")),
        ("refund", {"country": "DE", "amount": 50}, ("ASK", "default")),
        ("lookup", {}, ("ALLOW", "rule 3")),
        ("Lookup", {}, ("ASK", "default")),
        ("other", {}, ("ASK", "default")),
    ],
)
def test_the_first_rule_that_fits_decides(name, arguments, found):
    assert judged(name, **arguments) == found


def test_a_verdict_has_all_that_its_rule_says():
    verdict = RULES.judge("refund", freeze({"country": "DE", "amount": 60}))

    assert (verdict.code, verdict.message, verdict.reason) == ("APPROVAL_REQUIRED", "Refund so much?", "")
    assert (verdict.expires_in, verdict.when_expired) == (60, "APPROVE")
    assert verdict.metadata == {"ticket": "T-1", "rule": "large"}
    denied = RULES.judge("refund", freeze({"country": "US"}))
    assert (denied.code, denied.reason) == ("ABROAD", "only at home")


def test_in_doubt_a_call_is_held_back():
    """A model that writes "60" where 60 is meant: a rule that asks or denies fits, one that allows does not."""
    small = {"/amount": {"<": 50}}
    for decision, found in (("ASK", "ASK"), ("DENY", "DENY"), ("ALLOW", "ASK")):
        rules = ApprovalRules([ApprovalRule(when=small, decision=decision)], default="ASK")
        assert rules.judge("refund", freeze({"amount": "60"})).strictness.name == found


def test_an_argument_that_was_left_out_counts_as_its_default():
    schema = {"properties": {"amount": {"type": "number", "default": 100}, "country": {"default": "DE"}, "x": True}}

    assert judged("refund", schema) == ("ASK", "large")
    assert judged("refund", schema, amount=1) == ("ASK", "default")


def test_rules_go_through_json_and_come_back_equal():
    text = json.dumps(RULES.to_data())

    again = ApprovalRules.from_data(json.loads(text))

    assert again == RULES
    assert RULES.to_data()["rules"][2] == {"tool": "look*", "decision": "ALLOW"}
    assert ApprovalRules.from_data({}) == ApprovalRules()


def test_rules_may_be_written_as_plain_mappings():
    assert ApprovalRules([{"tool": "refund", "decision": "DENY"}]).rules == (
        ApprovalRule(tool="refund", decision=Strictness.DENY),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decision": "MAYBE"}, "ALLOW, ASK, DENY"),
        ({"decision": Strictness.INVALID}, "ALLOW, ASK, DENY"),
        ({"decision": None}, "ALLOW, ASK, DENY"),
        ({"decision": "ASK", "tool": ""}, "name the tool"),
        ({"decision": "ASK", "tool": 7}, "text"),
        ({"decision": "ASK", "reason": None}, "text"),
        ({"decision": "ASK", "when_expired": "IGNORE"}, "REJECT or APPROVE"),
        ({"decision": "ASK", "expires_in": 0}, "more than 0"),
        ({"decision": "ASK", "expires_in": True}, "more than 0"),
        ({"decision": "ASK", "expires_in": float("nan")}, "more than 0"),
        ({"decision": "DENY", "expires_in": 5}, "only what is asked can expire"),
        ({"decision": "ASK", "when": {"amount": 5}}, "JSON pointer"),
    ],
)
def test_a_rule_that_is_not_well_defined_is_refused_where_it_is_made(given, said):
    with pytest.raises(InvalidAgentError) as refused:
        ApprovalRule(**given)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"rules": [{"decision": "ASK", "tol": "x"}]}, "'tol'"),
        ({"rules": [{"tool": "x"}]}, "without decision"),
        ({"rules": ["refund"]}, "a mapping"),
        ({"rules": "refund"}, "a list of ApprovalRule"),
        ({"rules": {"decision": "ASK"}}, "a list of ApprovalRule"),
        ({"rules": None}, "a list of ApprovalRule"),
        ({"default": "INVALID"}, "ALLOW, ASK, DENY"),
        ({"rule": []}, "only rules, default"),
        ([], "a mapping"),
    ],
)
def test_data_that_describe_no_rules_are_refused_with_what_is_known(data, said):
    with pytest.raises(InvalidAgentError) as refused:
        ApprovalRules.from_data(data)

    assert said in str(refused.value)


@pytest.mark.parametrize("names", [("a", "a"), ("default", "b"), ("", "rule 1")])
def test_two_rules_have_two_names_on_record(names):
    with pytest.raises(InvalidAgentError, match="rename it"):
        ApprovalRules([ApprovalRule(name=name, decision="ASK") for name in names])
