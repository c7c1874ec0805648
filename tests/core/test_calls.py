"""The calls of a reply: judged, asked about, run in order, each to one result."""

import json
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from agentflex_nb.core.agent import AgentBudget, ToolErrorStrategy
from agentflex_nb.core.effects import CallModel, CheckCalls, RunTool
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import FrozenDict, freeze
from agentflex_nb.core.inputs import ToolAsked, ToolFailed, ToolReturned
from agentflex_nb.core.machine import AgentPhase, AgentStatus
from agentflex_nb.core.verdicts import ToolApprovalDecision

from .play import (
    ALLOW,
    ASK,
    DENY,
    FORM,
    GO,
    INVALID,
    LENIENT,
    MARKET,
    SHOP,
    Crash,
    Played,
    approve,
    asks_for,
    calls,
    decline,
    judge,
    play,
    raises,
    reject,
    reply,
    results,
    returns,
    submit,
    supply,
    wants,
    with_policy,
)

PAY = (GO, calls(wants("pay", amount=70)), judge(ASK))


def ran(played: Played) -> list[str]:
    return [data["tool_call_id"] for data in played.every("TOOL_STARTED")]


def order_of(played: Played, *kinds: str) -> list[tuple[str, str]]:
    return [(e.type.value, e.data["tool_call_id"]) for e in played.events if e.type in kinds]


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_a_gated_tool_does_not_run_and_all_that_is_needed_to_decide_is_asked():
    """A1, A2, E7, E18"""
    played = play(*PAY)

    assert (played.turn.status, ran(played)) == (AgentStatus.WAITING_FOR_APPROVAL, [])
    assert played.story[-1] == snapshot(
        "TURN_STARTED STEP_STARTED MODEL_STARTED MODEL_COMPLETED TOOL_APPROVAL_REQUESTED SNAPSHOT_SAVED STEP_COMPLETED"
        " TURN_SUSPENDED"
    )
    question = played.question
    assert (question.id, question.tool_name, question.arguments) == ("t1.1.0", "pay", {"amount": 70})
    assert (question.code, question.message, question.reason) == ("APPROVAL_REQUIRED", "May I?", "over the limit")
    assert {**played.last("TOOL_APPROVAL_REQUESTED")} == snapshot(
        {
            "tool_call_id": "t1.1.0",
            "tool_name": "pay",
            "message": "May I?",
            "code": "APPROVAL_REQUIRED",
            "reason": "over the limit",
            "arguments": {"amount": 70},
            "metadata": {"limit": 50},
            "expires_at": None,
            "status": "RUNNING",
            "phase": "TOOLS",
            "step_count": 1,
            "max_steps": 100,
        }
    )
    assert {**played.last("TURN_SUSPENDED")} == snapshot(
        {
            "suspension_type": "TOOL_APPROVAL",
            "correlation_id": "t1.1.0",
            "message": "May I?",
            "resume_phase": "TOOLS",
            "metadata": {},
            "next_runnable_at": None,
            "questions": (
                {
                    "id": "t1.1.0",
                    "type": "TOOL_APPROVAL",
                    "message": "May I?",
                    "code": "APPROVAL_REQUIRED",
                    "reason": "over the limit",
                    "tool_name": "pay",
                    "arguments": {"amount": 70},
                    "form_key": "",
                    "schema": None,
                    "call_id": "t1.1.0",
                    "expires_at": None,
                    "when_expired": "",
                    "metadata": {"limit": 50},
                },
            ),
            "status": "WAITING_FOR_APPROVAL",
            "phase": "TOOLS",
            "step_count": 1,
            "max_steps": 100,
        }
    )


def test_approval_runs_the_tool_once_and_then_the_model_is_asked_with_the_result():
    """A3, E20"""
    played = play(*PAY, approve(by="ann"), GO, judge(), returns("paid"), GO)

    assert (ran(played), results(played)) == (["t1.1.0"], {"t1.1.0": "paid"})
    assert isinstance(played.effect, CallModel)
    told = ["TOOL_APPROVAL_REQUESTED", "TURN_RESUMED", "TOOL_STARTED", "TOOL_COMPLETED", "MODEL_STARTED"]
    assert [kind for kind in played.kinds[4:] if kind in told] == told


def test_rejection_tells_the_model_and_runs_nothing():
    """A4, E26: the reason and the policy's metadata; who rejected it is nothing for a model."""
    played = play(*PAY, reject("too much", by="ann"), GO, GO)

    assert ran(played) == []
    assert results(played) == snapshot(
        {"t1.1.0": '{"status": "DENIED", "code": "REJECTED", "reason": "too much", "metadata": {"limit": 50}}'}
    )
    assert (played.last("TOOL_DENIED")["code"], played.last("TOOL_DENIED")["reason"]) == ("REJECTED", "too much")
    assert isinstance(played.effect, CallModel)


def test_the_policy_can_deny_without_asking_anybody():
    """A5, E26, Z23"""
    played = play(GO, calls(wants("pay")), judge(DENY))

    assert (played.turn.status, ran(played), played.turn.answers) == (AgentStatus.RUNNING, [], ())
    assert results(played) == snapshot(
        {
            "t1.1.0": '{"status": "DENIED", "code": "DENIED", "reason": "never on Sundays",'
            ' "metadata": {"day": "Sunday"}}'
        }
    )
    assert "TOOL_DENIED" in played.kinds


def test_a_denial_without_a_reason_gives_its_message():
    no = ToolApprovalDecision.deny(message="Ask the desk.")

    assert json.loads(results(play(GO, calls(wants("pay")), judge(no)))["t1.1.0"])["reason"] == "Ask the desk."


def test_calls_keep_their_order_over_the_pause():
    """A6, T6, K11: free ones before the gated one, it, then the rest."""
    played = play(GO, calls(wants("look"), wants("pay"), wants("mail")), judge(ALLOW, ASK), returns("one"))
    assert (ran(played), played.turn.status) == (["t1.1.0"], AgentStatus.WAITING_FOR_APPROVAL)

    played.say(approve(), GO, judge(), returns("two"), returns("three"))
    assert order_of(played, "TOOL_STARTED", "TOOL_COMPLETED") == [
        (kind, id) for id in ("t1.1.0", "t1.1.1", "t1.1.2") for kind in ("TOOL_STARTED", "TOOL_COMPLETED")
    ]
    assert results(played) == {"t1.1.0": "one", "t1.1.1": "two", "t1.1.2": "three"}


def test_a_denied_or_failing_call_does_not_take_its_siblings_along():
    """K11"""
    wanted = (wants("pay"), wants("look"), wants("mail"))
    played = play(GO, calls(*wanted), judge(DENY), raises(), returns("sent"), policy=LENIENT)

    assert list(results(played)) == ["t1.1.0", "t1.1.1", "t1.1.2"]
    assert results(played)["t1.1.2"] == "sent"


def test_each_result_is_saved_before_the_next_thing_happens():
    """K11, P5"""
    played = play(GO, calls(wants("look"), wants("pay"), wants("mail")), judge(), returns(), judge(), returns())

    assert played.story[2:] == snapshot(
        ["TOOL_COMPLETED SNAPSHOT_SAVED", "TOOL_STARTED SNAPSHOT_SAVED", "TOOL_COMPLETED TOOL_STARTED SNAPSHOT_SAVED"]
    )


# -- several questions -------------------------------------------------------------------------------------------------


def test_a_suspension_holds_a_question_for_every_call_that_needs_one_in_order():
    """A19, Y7: of mixed kinds; a call that needs none has none."""
    wanted = (wants("pay", n=1), wants("look"), wants("request_user_input", form_key="address"), wants("pay", n=2))
    played = play(GO, calls(*wanted), judge(ASK, ALLOW, ASK))

    assert [(q.id, q.type.value) for q in played.turn.questions] == [
        ("t1.1.0", "TOOL_APPROVAL"),
        ("t1.1.2", "USER_INPUT"),
        ("t1.1.3", "TOOL_APPROVAL"),
    ]
    assert [q["id"] for q in played.last("TURN_SUSPENDED")["questions"]] == ["t1.1.0", "t1.1.2", "t1.1.3"]
    assert played.turn.status is AgentStatus.WAITING_FOR_APPROVAL


def test_a_partial_answer_is_saved_and_the_turn_waits_on():
    """A19: its status is that of the first question left; the answered call does not run yet."""
    wanted = (wants("pay"), wants("request_user_input", form_key="address"))
    played = play(GO, calls(*wanted), judge(ASK), approve(by="ann"))

    assert played.story[-1] == snapshot("TURN_RESUMED SNAPSHOT_SAVED TURN_SUSPENDED")
    assert played.committed == played.turn
    assert (played.turn.status, ran(played)) == (AgentStatus.WAITING_FOR_USER, [])
    assert (played.last("TURN_RESUMED")["remaining"], played.last("TURN_SUSPENDED")["correlation_id"]) == (1, "t1.1.1")


def test_answers_may_come_in_any_order_and_calls_still_run_in_theirs():
    """A19, A6, P7: over a restart between the answers."""
    played = play(GO, calls(wants("pay", n=1), wants("pay", n=2)), judge(ASK, ASK), approve("t1.1.1"), Crash())
    assert [q.id for q in played.turn.questions] == ["t1.1.0"]

    played.say(reject("no"), GO, judge(), returns("paid"))
    assert json.loads(results(played)["t1.1.0"])["status"] == "DENIED"
    assert (ran(played), results(played)["t1.1.1"]) == (["t1.1.1"], "paid")


def test_questions_are_asked_once():
    """An open question is not told anew when another is answered."""
    wanted = [wants("pay", n=n) for n in range(3)]
    played = play(GO, calls(*wanted), judge(ASK, ASK, ASK), approve("t1.1.0"), approve("t1.1.1"), approve("t1.1.2"), GO)

    assert played.kinds.count("TOOL_APPROVAL_REQUESTED") == 3


# -- judged twice ------------------------------------------------------------------------------------------------------


def test_all_calls_of_a_reply_are_judged_when_it_arrives():
    """A19, Y7: also those that no policy guards, for their arguments; never what no function serves."""
    wanted = (wants("look"), wants("pay"), wants("nonsense"), wants("request_user_input", form_key="address"))
    played = play(GO, calls(*wanted, wants("pay", malformed="{")))

    assert isinstance(played.effect, CheckCalls)
    assert [call.id for call in played.effect.calls] == ["t1.1.0", "t1.1.1"]


def test_a_guarded_call_is_judged_again_just_before_it_runs():
    """A19"""
    played = play(*PAY, approve(), GO)
    assert [call.id for call in played.effect.calls] == ["t1.1.0"]

    assert isinstance(played.say(judge()).effect, RunTool)


def test_a_free_call_is_judged_once():
    assert isinstance(play(GO, calls(wants("look")), judge()).effect, RunTool)


def test_the_stricter_judgement_wins():
    """A19: denied at the second look, although a person had approved."""
    played = play(*PAY, approve(), GO, judge(DENY))

    assert ran(played) == []
    assert played.last("TOOL_DENIED")["reason"] == "never on Sundays"


def test_a_milder_second_judgement_opens_nothing():
    """A19: the first one asked; that nobody would ask today is no approval."""
    played = play(*PAY, approve(), GO, judge(ALLOW), returns("paid"))
    assert results(played) == {"t1.1.0": "paid"}

    wanted = (wants("look"), wants("pay"))
    waiting = play(GO, calls(*wanted), judge(ALLOW, ASK), returns(), Crash(), agent=SHOP)
    assert [q.id for q in waiting.turn.questions] == ["t1.1.1"]


def test_a_call_that_became_suspicious_is_asked_about_before_it_runs():
    """A19"""
    played = play(GO, calls(wants("pay")), judge(ALLOW), judge(ASK))
    assert (played.turn.status, ran(played)) == (AgentStatus.WAITING_FOR_APPROVAL, [])

    played.say(approve(), GO, judge(ASK), returns("paid"))
    assert results(played) == {"t1.1.0": "paid"}


def test_a_policy_over_all_tools_guards_the_unguarded_too():
    played = play(GO, calls(wants("look")), judge(), agent=replace(SHOP, guarded=True))

    assert isinstance(played.effect, CheckCalls)


# -- identity ----------------------------------------------------------------------------------------------------------


def test_a_reused_provider_id_is_another_call():
    """A14, A2, Z3, K24"""
    wanted = calls(wants("pay", provider_id="call_0"))
    played = play(GO, wanted, judge(ASK), approve(), GO, judge(ASK), returns("paid"), GO, wanted, judge(ASK))

    assert played.turn.status is AgentStatus.WAITING_FOR_APPROVAL
    ids = [call.id for message in played.turn.messages for call in message.tool_calls]
    assert ids == ["t1.1.0", "t1.3.0"]
    assert {call.provider_id for message in played.turn.messages for call in message.tool_calls} == {"call_0"}


def test_call_ids_tell_turn_step_and_position():
    """A2"""
    ids = [c.id for c in play(GO, calls(wants("look"), wants("look")), id="t7").turn.messages[-1].tool_calls]

    assert ids == ["t7.1.0", "t7.1.1"]


def test_the_answers_of_all_people_stay_readable():
    """A13: appended, with who and why, after completion."""
    wanted = calls(wants("pay", n=1), wants("pay", n=2))
    played = play(GO, wanted, judge(ASK, ASK), approve(by="ann", ticket=7), reject("late", by="bob"), GO, judge())
    played.say(returns(), GO, reply("Done."))

    told = [(a.question_id, a.command_type, a.by, a.reason) for a in played.turn.answers]
    assert told == [("t1.1.0", "APPROVE_TOOL", "ann", ""), ("t1.1.1", "REJECT_TOOL", "bob", "late")]
    assert played.turn.answers[0].metadata["ticket"] == 7
    assert played.every("TURN_RESUMED")[0]["metadata"] == {"by": "ann", "ticket": 7}


# -- what cannot run ---------------------------------------------------------------------------------------------------


def test_an_unknown_tool_fails_the_turn():
    """T7, K06: and every call is closed."""
    played = play(GO, calls(wants("serch"), wants("look")), judge())

    assert (played.turn.status, played.turn.error.code) == (AgentStatus.FAILED, "UNKNOWN_TOOL")
    assert "'shop' version '1' has no tool 'serch'" in played.turn.error.message
    assert len(results(played)) == 2


def test_an_unknown_tool_is_told_to_the_model_where_errors_are():
    """T7, Z24, K06: with the names that exist; its sibling runs; nobody is asked."""
    played = play(GO, calls(wants("serch"), wants("look")), judge(), returns("found"), policy=LENIENT)

    assert results(played) == snapshot(
        {
            "t1.1.0": "Error: agent 'shop' version '1' has no tool 'serch'; it has: look, pay, mail,"
            " request_user_input. Nothing was run.",
            "t1.1.1": "found",
        }
    )
    assert (played.last("TOOL_FAILED")["started"], ran(played)) == (False, ["t1.1.1"])


def test_malformed_arguments_are_told_to_the_model_with_what_was_expected():
    """T9, K07: even where errors fail the turn; the tool is neither run nor offered for approval."""
    played = play(GO, calls(wants("pay", malformed='{"amount": 7')))

    assert (played.turn.status, ran(played)) == (AgentStatus.RUNNING, [])
    assert results(played) == snapshot(
        {
            "t1.1.0": "Error: the arguments of pay are no JSON object: '{\"amount\": 7'. Nothing was run."
            ' Expected arguments: {"type": "object"}'
        }
    )


def test_of_long_malformed_arguments_the_beginning_is_shown():
    told = results(play(GO, calls(wants("look", malformed="x" * 5_000))))["t1.1.0"]

    assert "x" * 200 + "…" in told
    assert len(told) < 400


def test_arguments_that_do_not_fit_are_told_to_the_model():
    """T9"""
    told = results(play(GO, calls(wants("look")), judge(INVALID)))["t1.1.0"]

    assert told.startswith("Error: amount is missing. Nothing was run.")


def test_a_tool_error_fails_the_turn_where_the_policy_says_so():
    """X3"""
    played = play(GO, calls(wants("look"), wants("mail")), judge(), raises("no database"))

    assert (played.turn.status, played.turn.error.message) == (AgentStatus.FAILED, "no database")
    assert results(played) == snapshot(
        {"t1.1.0": "Error: ValueError: no database", "t1.1.1": "Not run: the turn failed: no database."}
    )


def test_a_tool_error_is_told_to_the_model_where_the_policy_says_so():
    """T8: under the id of its call."""
    played = play(GO, calls(wants("look")), judge(), raises("no database"), GO, policy=LENIENT)

    assert results(played) == {"t1.1.0": "Error: ValueError: no database"}
    assert isinstance(played.effect, CallModel)


def test_a_long_result_is_shortened_in_its_event_and_nowhere_else():
    """T14"""
    played = play(GO, calls(wants("look")), judge(), returns("x" * 5_000))

    told = played.last("TOOL_COMPLETED")
    assert (len(told["result"]), told["result_chars"]) == (2_000, 5_000)
    assert results(played) == {"t1.1.0": "x" * 5_000}


# -- forms -------------------------------------------------------------------------------------------------------------

ASKS = (GO, calls(wants("request_user_input", form_key="address", message="Where to?")))


def test_the_model_asks_for_a_form_by_its_key_and_the_schema_is_copied():
    """F1, F2, T16: no function runs, no policy is asked."""
    played = play(*ASKS)

    assert played.turn.status is AgentStatus.WAITING_FOR_USER
    assert played.turn.suspension.resume_phase is AgentPhase.TOOLS
    assert (played.question.form_key, played.question.schema) == ("address", FORM.schema)
    assert (played.question.message, ran(played)) == ("Where to?", [])
    assert "TOOL_INPUT_REQUESTED" in played.kinds


def test_without_a_message_the_form_speaks_for_itself():
    played = play(GO, calls(wants("request_user_input", form_key="address")))

    assert played.question.message == "Where to?" == FORM.description


@pytest.mark.parametrize("key", ["nowhere", None, 3, ["address"], {}])
def test_only_registered_forms_can_be_asked_for(key):
    """F1: whatever a model writes in its place."""
    played = play(GO, calls(wants("request_user_input", form_key=key)))

    assert played.turn.status is AgentStatus.RUNNING
    assert "choose one of: address" in results(played)["t1.1.0"]


def test_without_forms_there_is_no_such_tool():
    played = play(*ASKS, agent=replace(SHOP, forms=()))

    assert played.turn.error.code == "UNKNOWN_TOOL"


def test_a_submission_is_the_result_of_the_call():
    """F2: then the model goes on."""
    played = play(*ASKS, submit({"city": "Oslo"}, by="ann"), GO)

    assert json.loads(results(played)["t1.1.0"]) == {
        "status": "SUBMITTED",
        "form_key": "address",
        "data": {"city": "Oslo"},
    }
    assert (played.turn.phase, played.turn.tool_call_count) == (AgentPhase.MODEL, 0)


def test_an_empty_submission_is_a_submission():
    """F9, Z17"""
    played = play(*ASKS, submit({}), GO)

    assert json.loads(results(played)["t1.1.0"])["data"] == {}


def test_a_tool_that_asks_for_a_form_is_run_again_with_the_data():
    """F3, E19: counted once, under the same id; no failure, no completion before."""
    played = play(GO, calls(wants("look")), judge(), asks_for(FORM, "Whose?"))

    assert played.story[2:] == snapshot(["TOOL_INPUT_REQUESTED SNAPSHOT_SAVED STEP_COMPLETED TURN_SUSPENDED"])
    assert (played.question.message, played.question.tool_name) == ("Whose?", "look")

    played.say(submit({"city": "Oslo"}), GO)
    assert played.effect == RunTool(played.turn.pending[0].call, FrozenDict({"city": "Oslo"}))
    played.say(returns("found"))
    assert (played.turn.tool_call_count, ran(played)) == (1, ["t1.1.0", "t1.1.0"])
    assert results(played) == {"t1.1.0": "found"}


def test_an_empty_form_reaches_the_tool_as_data():
    """F9: None is what a tool has that asked for nothing."""
    played = play(GO, calls(wants("look")), judge())
    assert played.effect.form_data is None

    assert played.say(asks_for(), submit({}), GO).effect.form_data == {}


def test_a_guarded_tool_that_asked_for_a_form_is_judged_again():
    """A19, F3"""
    played = play(GO, calls(wants("pay")), judge(), judge(), asks_for(), submit({}), GO)

    assert isinstance(played.effect, CheckCalls)
    assert isinstance(played.say(judge()).effect, RunTool)


def test_a_tool_that_asks_twice_breaks_the_rules():
    """F4"""
    twice = (GO, calls(wants("look")), judge(), asks_for(), submit({}), GO, asks_for())

    assert play(*twice).turn.error.code == "FORM_ASKED_TWICE"
    assert "although it had been given one" in results(play(*twice, policy=LENIENT))["t1.1.0"]


def test_a_form_by_a_tool_asks_beside_the_questions_of_other_calls():
    """A19"""
    played = play(GO, calls(wants("look"), wants("pay")), judge(ALLOW, ASK), asks_for())

    assert [(q.id, q.form_key) for q in played.turn.questions] == [("t1.1.0", "address"), ("t1.1.1", "")]


def test_the_schema_of_a_question_stays_as_it_was_asked():
    """F8, P7: whatever today's agent says."""
    played = play(*ASKS, Crash())
    changed = replace(SHOP, forms=(AgentForm(key="address", description="?", schema=freeze({"type": "string"})),))
    played.definition = changed

    assert played.question.schema == FORM.schema
    assert json.loads(results(played.say(submit({"city": "Oslo"}), GO))["t1.1.0"])["data"] == {"city": "Oslo"}


# -- calls that run at the same time -----------------------------------------------------------------------------------


def runs(played: Played) -> list[str]:
    return [effect.call.id for effect in played.effects if isinstance(effect, RunTool)]


def together(*names: str, **how: Any) -> Played:
    return play(GO, calls(*[wants(name) for name in names]), judge(), agent=MARKET, **how)


def test_calls_that_are_declared_for_it_start_together_and_are_saved_before_any_runs():
    """P4, T6"""
    played = together("scan", "scan", "scan")

    assert runs(played) == ["t1.1.0", "t1.1.1", "t1.1.2"]
    assert played.story[-1].endswith("TOOL_STARTED TOOL_STARTED TOOL_STARTED SNAPSHOT_SAVED")


def test_their_results_stand_in_the_models_order_however_they_come():
    """T6, I1"""
    played = together("scan", "scan")

    played.say(ToolReturned("t1.1.1", "second"))
    assert results(played) == {}, "the first is still at work"
    assert played.committed == played.turn, "but what came is kept"
    played.say(ToolReturned("t1.1.0", "first"))
    assert list(results(played).items()) == [("t1.1.0", "first"), ("t1.1.1", "second")]


def test_a_call_that_is_not_declared_for_it_waits_for_those_before_it():
    """T6"""
    played = together("scan", "look", "scan")

    assert runs(played) == ["t1.1.0"]
    assert runs(played.say(returns())) == ["t1.1.1"]
    assert runs(played.say(returns())) == ["t1.1.2"]


def test_one_that_a_person_must_allow_does_not_start_with_the_others():
    """A6, A19"""
    played = play(GO, calls(wants("scan"), wants("pay"), wants("scan")), judge(ALLOW, ASK), agent=MARKET)

    assert runs(played) == ["t1.1.0"]
    played.say(returns())
    assert played.turn.status is AgentStatus.WAITING_FOR_APPROVAL


def test_one_whose_form_was_declined_does_not_start_again_with_the_others():
    """F10, F3"""
    played = together("scan", "scan")
    played.say(ToolAsked("t1.1.0", FORM), ToolAsked("t1.1.1", FORM))
    assert [question.id for question in played.turn.questions] == ["t1.1.0", "t1.1.1"]

    played.say(submit({"city": "Oslo"}, "t1.1.0"), decline("no", "t1.1.1"), GO)

    assert runs(played) == ["t1.1.0"]
    assert '"status": "DECLINED"' in results(played.say(returns()))["t1.1.1"]


def test_the_limit_on_calls_holds_for_those_that_start_together():
    """B4"""
    played = together("scan", "scan", "scan", policy=with_policy(budget=AgentBudget(max_tool_calls=2)))

    assert runs(played) == ["t1.1.0", "t1.1.1"]
    played.say(ToolReturned("t1.1.0", "done"), ToolReturned("t1.1.1", "done"))
    assert (played.turn.status, played.turn.tool_call_count) == (AgentStatus.BUDGET_EXCEEDED, 2)


def test_after_a_crash_each_of_them_is_asked_about():
    """P17"""
    played = together("scan", "scan").say(ToolReturned("t1.1.1", "second"), Crash(), GO)

    assert [(question.id, question.code) for question in played.turn.questions] == [("t1.1.0", "OUTCOME_UNKNOWN")]
    played.say(supply("first"), GO)
    assert list(results(played).items()) == [("t1.1.0", "first"), ("t1.1.1", "second")]


def test_a_failure_of_one_lets_the_others_finish_and_then_ends_the_turn():
    """T6, X3"""
    strict = with_policy(tool_errors=ToolErrorStrategy.FAIL_TURN)
    played = together("scan", "scan", policy=strict)
    error = ErrorSummary(kind="ValueError", message="boom")

    played.say(ToolFailed("t1.1.0", error, "Error: boom"))
    assert played.turn.status is AgentStatus.RUNNING
    played.say(ToolReturned("t1.1.1", "second"))

    assert (played.turn.status, played.turn.error) == (AgentStatus.FAILED, error)
    assert results(played) == {"t1.1.0": "Error: boom", "t1.1.1": "second"}


@pytest.mark.parametrize("policy", list(ToolErrorStrategy))
@pytest.mark.parametrize("own", [None, *ToolErrorStrategy])
def test_what_an_error_does_is_the_tools_to_say_and_else_the_policys(policy, own):
    """T8: the call keeps its id."""
    tools = tuple(replace(tool, on_error=own) for tool in SHOP.tools)
    played = play(
        GO, calls(wants("look")), judge(), raises("boom"),
        agent=replace(SHOP, tools=tools), policy=with_policy(tool_errors=policy),
    )  # fmt: skip

    fails = (own or policy) is ToolErrorStrategy.FAIL_TURN
    assert (played.turn.status is AgentStatus.FAILED) is fails
    assert results(played)["t1.1.0"] == "Error: ValueError: boom"
