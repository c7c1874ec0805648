"""A policy tried on the past: what it would change, what it is given, and what becomes of its errors."""

import asyncio

import pytest

import agentflex_nb as af
from agentflex_nb.analysis.what_if import what_if
from agentflex_nb.core.errors import QueryError

script = af.ScriptedModel
Decision = af.ToolApprovalDecision


@af.tool
def look(order: str) -> str:
    """Look."""
    return f"looked at {order}"


@af.tool(approval=lambda call: call.arguments["amount"] > 50)
def pay(amount: float, to: str = "shop") -> str:
    """Pay."""
    return f"paid {amount:g} to {to}"


@af.tool(external=True)
def ship(order: str) -> str:
    """Ship."""


RULES = af.ApprovalRules([
    af.ApprovalRule(name="bank", tool="pay", when={"/to": "bank"}, decision="DENY", reason="no banks"),
    af.ApprovalRule(name="ship", tool="ship", decision="ASK"),
])  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Turn 1: look, pay 20 (allowed), pay 80 (approved), ship. Turn 2, under rules: pay to a bank (denied), pay 10."""
    with af.Lab(tmp_path_factory.mktemp("lab") / "lab.duckdb", display=False, durability="process") as lab:
        calls = [script.call("look", order="O-1"), script.call("pay", amount=20), script.call("pay", amount=80)]
        model = script(["I look.", *calls], [script.call("ship", order="O-1")], "Done.")
        plain = af.Agent("desk", instructions="Be kind.", model=model, tools=[look, pay, ship])
        lab.run(plain, "Pay.", responder={"pay": True, "ship": "sent"})
        model = script([script.call("pay", amount=5, to="bank"), script.call("pay", amount=10)], "Done.")
        lab.run(af.Agent("ruled", model=model, tools=[pay], approval_policy=RULES), "Pay.")
        yield lab


def told(frame, *columns):
    rows = frame[list(columns)].astype(object)
    return [tuple(row) for row in rows.where(rows.notna(), None).itertuples(index=False)]


def test_every_decision_is_on_record_with_its_rule(lab):
    """A5, A13"""
    assert told(lab.decisions(), "tool_name", "decision", "outcome", "rule", "reason") == [
        ("look", "ALLOW", None, None, None),
        ("pay", "ALLOW", None, None, None),
        ("pay", "ASK", "APPROVED", None, None),
        ("ship", "ALLOW", None, None, None),
        ("pay", "DENY", None, "bank", "no banks"),
        ("pay", "ALLOW", None, "default", None),
    ]


def test_rules_list_the_calls_that_they_would_decide_otherwise(lab):
    found = lab.what_if(RULES)

    assert told(found, "agent_id", "tool_name", "decision_then", "outcome_then", "decision_now", "rule_now") == [
        ("desk", "pay", "ASK", "APPROVED", "ALLOW", "default"),
        ("desk", "ship", "ALLOW", None, "ASK", "ship"),
    ]
    assert list(found["own_approval"]) == [True, False]
    assert list(found["arguments"]) == ['{"amount":80}', '{"order":"O-1"}']


def test_what_stays_the_same_is_listed_when_asked_for(lab):
    found = lab.what_if(RULES, unchanged=True)

    assert list(found["changes"]) == [False, False, True, True, False, False]


def test_calls_are_chosen_as_in_every_frame(lab):
    deny = af.ApprovalRules(default="DENY")

    assert list(lab.what_if(deny, where={"tool_name": "look"})["tool_name"]) == ["look"]
    assert len(lab.what_if(deny, where="step > ?", params=[1])) == 1
    assert len(lab.what_if(deny, turn=lab.turns()["turn_id"].iloc[1])) == 1
    assert lab.what_if(deny, turn=[]).empty
    with pytest.raises(QueryError, match="no column"):
        lab.what_if(deny, where={"nothing": 1})


def test_a_function_sees_the_turn_as_it_stood_when_the_reply_had_come(lab):
    seen = []

    def watch(turn, call, tool):
        last = turn.messages[-1]
        assert call in last.tool_calls
        seen.append((turn.identity.instructions, turn.status.value, last.content, len(turn.answers)))
        seen.append(
            (turn.tool_call_count, turn.iteration_count, tool.definition.external, call.arguments.get("amount"))
        )
        return False

    lab.what_if(watch, where={"agent_id": "desk"})

    assert seen[::2] == [("Be kind.", "RUNNING", "I look.", 0)] * 3 + [("Be kind.", "RUNNING", "", 1)]
    assert seen[1::2] == [(0, 1, False, None), (0, 1, False, 20), (0, 1, False, 80), (3, 2, True, None)]


def test_a_function_may_say_yes_or_no_and_be_async(lab):
    async def ask_all(turn, call, tool):
        await asyncio.sleep(0)
        return True

    found = lab.what_if(ask_all)

    assert set(found["decision_now"]) == {"ASK"}
    assert set(found["decision_then"]) == {"ALLOW", "DENY"}


@pytest.mark.parametrize("raised", [KeyError("limit"), SystemExit(3), "none of these"])
def test_a_policy_that_fails_on_a_call_fails_on_that_call_alone(lab, raised):
    def faulty(turn, call, tool):
        if call.name == "ship":
            if isinstance(raised, str):
                return raised
            raise raised
        return Decision.deny("never", code="NEVER")

    found = lab.what_if(faulty)

    errors = dict(told(found, "tool_name", "error"))
    assert errors["look"] is None
    assert ("none of these" if isinstance(raised, str) else type(raised).__name__) in errors["ship"]
    [ship] = told(found[found["tool_name"] == "ship"], "decision_now", "changes", "code")
    assert ship == (None, None, None)
    assert set(found["code"].dropna()) == {"NEVER"}


def test_the_stop_button_stops_it(lab):
    def stopped(turn, call, tool):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.what_if(stopped)


def test_a_tool_of_the_past_cannot_be_run(lab):
    def runs(turn, call, tool):
        return tool(**call.arguments)

    assert set(lab.what_if(runs)["error"]) == {
        f"RuntimeError: {name} is a tool of the past: it can be looked at, and not run"
        for name in ("look", "pay", "ship")
    }


def test_nothing_is_changed_in_the_lab(lab):
    before = lab.sql("select count(*) as n, max(event_pk) as newest from events")

    lab.what_if(lambda turn, call, tool: True)

    assert before.equals(lab.sql("select count(*) as n, max(event_pk) as newest from events"))


def test_columns_and_dtypes_are_those_of_an_empty_lab(lab, empty):
    """K09"""
    none, some = what_if(empty, RULES), lab.what_if(RULES)

    assert none.empty
    assert list(none.columns) == list(some.columns)
    assert list(none.dtypes) == list(some.dtypes)
    kinds = {str(dtype) for dtype in none.dtypes}
    assert kinds <= {"str", "Int64", "float64", "boolean", "datetime64[us, UTC]", "category"}


def test_a_call_that_was_never_judged_is_no_decision(tmp_path):
    with af.Lab(tmp_path / "lab.duckdb", display=False, durability="process") as lab:
        lenient = af.AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")
        model = script([script.call("nothing"), script.call("look", wrong=1)], "Done.")
        lab.run(af.Agent("a", model=model, tools=[look], execution_policy=lenient), "Go.")

        assert lab.decisions().empty
        assert len(lab.tool_calls()) == 2
