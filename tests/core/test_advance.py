"""One turn from its first event to its last: what is told, in which order, what is committed, what is asked for."""

from dataclasses import replace
from datetime import timedelta

import pytest
from inline_snapshot import snapshot

from agentflex_nb.core.advance import advance, open_turn, pick_up, save_turn
from agentflex_nb.core.effects import CallModel, CheckCalls, RunTool
from agentflex_nb.core.errors import CommandRefusedError, ErrorSummary, IllegalTransitionError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import (
    CallsChecked,
    Cancel,
    CheckFailed,
    DeltaKind,
    Interrupted,
    StepFailed,
    Suspend,
    ToolReturned,
)
from agentflex_nb.core.machine import AgentPhase, AgentStatus
from agentflex_nb.core.messages import Origin, Usage, user

from .play import (
    ALLOW,
    ASK,
    DENY,
    FORM,
    GO,
    LENIENT,
    SHOP,
    START,
    Crash,
    approve,
    asks_for,
    breaks,
    calls,
    judge,
    opened,
    piece,
    play,
    progress,
    raises,
    reject,
    reply,
    results,
    returns,
    sent,
    submit,
    supply,
    wants,
    with_policy,
)

BOOM = ErrorSummary(kind="ValueError", message="boom")
LOOK = (GO, calls(wants("look", order=1)), judge())


# -- the shortest ways -------------------------------------------------------------------------------------------------


def test_a_plain_answer():
    """E1"""
    assert play(GO, reply("hi")).story == snapshot(
        [
            "SNAPSHOT_SAVED",
            "TURN_STARTED STEP_STARTED MODEL_STARTED MODEL_COMPLETED SNAPSHOT_SAVED STEP_COMPLETED TURN_COMPLETED",
        ]
    )


def test_one_tool_call_is_on_disk_before_it_runs():
    """E28, E2, P4: one line a commit."""
    played = play(*LOOK, returns("shipped"), GO, reply("It is shipped."))

    assert played.story == snapshot(
        [
            "SNAPSHOT_SAVED",
            "TURN_STARTED STEP_STARTED MODEL_STARTED MODEL_COMPLETED TOOL_STARTED SNAPSHOT_SAVED",
            "TOOL_COMPLETED SNAPSHOT_SAVED STEP_COMPLETED",
            "STEP_STARTED MODEL_STARTED MODEL_COMPLETED SNAPSHOT_SAVED STEP_COMPLETED TURN_COMPLETED",
        ]
    )


def test_a_new_turn_is_saved_and_nothing_of_it_runs():
    """E21, P1"""
    played = opened()

    assert played.story == ["SNAPSHOT_SAVED"]
    assert (played.turn.status, played.turn.version, played.effects) == (AgentStatus.READY, 0, ())


def test_the_model_is_sent_the_instructions_the_history_and_the_tools():
    played = play(GO, messages=(user("hello"),))

    assert sent(played) == [("system", "Be kind."), ("user", "hello")]
    request = played.effect.request
    assert [tool.name for tool in request.tools] == ["look", "pay", "mail", "request_user_input"]
    assert (request.turn_id, request.step, request.iteration, request.attempt) == ("t1", 1, 1, 1)


def test_an_agent_without_instructions_sends_no_system_message():
    assert sent(play(GO, agent=replace(SHOP, instructions=""))) == [("user", "hello")]


def test_the_answer_is_the_output_and_its_usage_is_kept():
    """P6"""
    turn = play(*LOOK, returns(), GO, reply("Done.", tokens=(7, 3))).turn

    assert (turn.status, turn.phase, turn.output) == (AgentStatus.COMPLETED, AgentPhase.FINISHED, "Done.")
    assert turn.usage == Usage(input_tokens=17, output_tokens=8)
    assert (turn.step_count, turn.iteration_count, turn.tool_call_count) == (2, 2, 1)


def test_an_empty_answer_completes_with_an_empty_output():
    """K27: a silent finish is a finish, not a fault."""
    turn = play(GO, reply("")).turn

    assert (turn.status, turn.output) == (AgentStatus.COMPLETED, "")


# -- what events carry -------------------------------------------------------------------------------------------------


def test_every_event_names_its_turn_and_where_the_turn_stands():
    """E12"""
    played = play(*LOOK, returns(), GO, reply("Done."), root_turn_id="t0", parent_turn_id="t0")

    for event in played.events:
        assert (event.turn_id, event.root_turn_id, event.parent_turn_id) == ("t1", "t0", "t0")
        assert (event.agent_id, event.agent_version) == ("shop", "1")
        assert event.data.keys() >= {"status", "phase", "step_count", "max_steps"}
    assert [event.data["status"] for event in played.events][:3] == ["READY", "RUNNING", "RUNNING"]
    assert played.events[-1].data["status"] == "COMPLETED"


def test_turns_are_numbered_on_their_own():
    """E3"""
    one, two = opened(id="t1"), opened(id="t2")
    for move in (GO, reply("hi")):
        one.say(move)
        two.say(move)

    assert [event.sequence for event in one.events] == [event.sequence for event in two.events] == [*range(1, 9)]


def test_the_model_is_started_with_its_iteration_and_what_remains():
    """E13"""
    played = play(*LOOK, returns(), GO, policy=with_policy(max_iterations=5))

    told = [(data["iteration"], data["remaining_iterations"]) for data in played.every("MODEL_STARTED")]
    assert told == [(1, 4), (2, 3)]
    assert play(GO, policy=with_policy(max_iterations=0)).last("MODEL_STARTED")["remaining_iterations"] is None


def test_a_completed_reply_tells_all_that_a_table_needs():
    said = replace(reply("Let me see.", wants("look", order=1, provider_id="call_0")), response_id="r1")
    said = replace(said, first_delta_at=START + timedelta(seconds=1))

    assert {**play(GO, said).last("MODEL_COMPLETED")} == snapshot(
        {
            "iteration": 1,
            "attempt": 1,
            "finish_reason": "stop",
            "model": "m-1",
            "response_id": "r1",
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "total_tokens": 15,
                "reasoning_tokens": None,
                "cache_read_tokens": None,
                "cache_write_tokens": None,
            },
            "message_position": 1,
            "first_delta_at": "2026-01-01T00:00:01+00:00",
            "content": None,
            "tool_calls": (
                {"id": "t1.1.0", "name": "look", "arguments": {"order": 1}, "malformed": None, "provider_id": "call_0"},
            ),
            "status": "RUNNING",
            "phase": "MODEL",
            "step_count": 1,
            "max_steps": 100,
        }
    )


def test_without_streaming_the_reply_stands_in_its_event():
    assert play(GO, reply("hi"), streaming=False).last("MODEL_COMPLETED")["content"] == "hi"


# -- streams -----------------------------------------------------------------------------------------------------------


def test_pieces_have_the_type_of_what_they_belong_to():
    """E16, E15 (types)"""
    played = play(
        GO,
        piece("hm", DeltaKind.REASONING),
        piece("Hel"),
        piece("lo"),
        piece("{", DeltaKind.TOOL_CALL, index=0, name="look"),
        reply("Hello"),
    )

    assert [(e.type.value, e.data["content"], e.data["attempt"]) for e in played.events if "DELTA" in e.type] == [
        ("MODEL_REASONING_DELTA", "hm", 1),
        ("MODEL_TEXT_DELTA", "Hel", 1),
        ("MODEL_TEXT_DELTA", "lo", 1),
        ("MODEL_TOOL_CALL_DELTA", "{", 1),
    ]
    assert (played.last("MODEL_TOOL_CALL_DELTA")["index"], played.last("MODEL_TOOL_CALL_DELTA")["name"]) == (0, "look")


def test_a_piece_changes_nothing_but_the_number():
    played = play(GO)
    before = played.turn
    played.say(piece("Hel"))

    assert played.turn == replace(before, sequence=before.sequence + 1)


def test_text_before_a_break_stays_and_the_failure_follows():
    """E14, R7, B9: and what it used is counted."""
    played = play(GO, piece("Hel"), breaks("connection lost", tokens=3))

    assert played.story[-1] == snapshot(
        "TURN_STARTED STEP_STARTED MODEL_STARTED MODEL_TEXT_DELTA "
        "MODEL_FAILED SNAPSHOT_SAVED STEP_COMPLETED TURN_FAILED"
    )
    failed = played.last("MODEL_FAILED")
    assert (failed["attempt"], failed["error"]["message"]) == (1, "connection lost")
    assert failed["usage"]["input_tokens"] == played.turn.usage.input_tokens == 3
    assert played.turn.error == ErrorSummary(kind="ConnectionError", message="connection lost")


@pytest.mark.parametrize("moves", [(GO, reply("hi")), (GO, breaks()), (*LOOK, returns()), (*LOOK,)])
def test_a_late_piece_is_refused_and_changes_nothing(moves):
    """E8: after the end, between two steps, and while a tool runs."""
    played = play(*moves)
    before = played.turn

    with pytest.raises(IllegalTransitionError):
        played.say(piece("late"))
    assert played.turn is before


@pytest.mark.parametrize(
    "late", [reply("again"), breaks(), ToolReturned("t1.1.0", "late"), CallsChecked({}), CheckFailed(BOOM)]
)
@pytest.mark.parametrize("moves", [(GO, reply("hi")), (*LOOK, returns()), (GO, calls(wants("pay")), judge(ASK))])
def test_what_comes_back_late_is_not_heard(moves, late):
    """Z8, C10: a result that nobody waits for any more changes nothing, whatever the turn does now."""
    played = play(*moves)
    before = played.turn

    with pytest.raises(IllegalTransitionError, match="met"):
        played.say(late)
    assert played.turn is before


def test_a_tool_result_for_a_call_that_does_not_run_is_not_heard():
    played = play(*LOOK)

    with pytest.raises(IllegalTransitionError, match=r"ToolReturned of call t1\.1\.9; it knows t1\.1\.0"):
        played.say(ToolReturned("t1.1.9", "whose?"))


def test_a_verdict_is_not_heard_while_a_tool_runs_nor_on_a_call_that_does_not_wait():
    asked = play(GO, calls(wants("look")))

    with pytest.raises(IllegalTransitionError, match=r"verdicts on t1\.9\.9; it knows t1\.1\.0"):
        asked.say(CallsChecked({"t1.9.9": ALLOW}))
    with pytest.raises(IllegalTransitionError, match="nothing of the kind"):
        asked.say(judge()).say(CallsChecked({"t1.1.0": DENY}))


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_is_told_beside_the_result():
    """E17"""
    played = play(*LOOK, progress("half", percent=50), returns("shipped"))

    told = played.last("TOOL_PROGRESS")
    assert (told["tool_call_id"], told["tool_name"], told["message"], told["percent"]) == ("t1.1.0", "look", "half", 50)
    assert results(played) == {"t1.1.0": "shipped"}


def test_progress_may_use_any_word():
    """E17: a field that is called like one of the event's own is kept under another name, and hides nothing."""
    words = {"status": "fine", "phase": 2, "type": "x", "self": 1, "waits_for": "y", "message": "inner", "data": 3}
    told = play(*LOOK, lambda played: replace(progress("half")(played), data=freeze(words))).last("TOOL_PROGRESS")

    assert (told["status"], told["phase"], told["message"]) == ("RUNNING", "TOOLS", "half")
    assert (told["tool_status"], told["tool_phase"], told["tool_message"]) == ("fine", 2, "inner")
    assert (told["type"], told["self"], told["waits_for"], told["data"]) == ("x", 1, "y", 3)


# -- the end of a turn -------------------------------------------------------------------------------------------------


def test_cancelled_before_the_first_model_call_none_is_made():
    """X1, E22"""
    played = play(Cancel(reason="changed my mind", metadata=freeze({"by": "ann"})))

    assert played.story == snapshot(["SNAPSHOT_SAVED", "CANCELLATION_REQUESTED SNAPSHOT_SAVED TURN_CANCELLED"])
    assert played.last("CANCELLATION_REQUESTED")["metadata"] == {"by": "ann"}
    assert played.history == [("user", "hello"), ("assistant", "[The turn was cancelled: changed my mind.]")]


def test_cancelled_during_a_tool_its_result_is_kept_and_no_model_is_called():
    """X2, E22: who asked, and why, is saved at once."""
    played = play(*LOOK, Cancel(reason="enough"), returns("shipped"))

    assert played.story[2:] == snapshot(
        ["CANCELLATION_REQUESTED SNAPSHOT_SAVED", "TOOL_COMPLETED SNAPSHOT_SAVED STEP_COMPLETED TURN_CANCELLED"]
    )
    assert (played.turn.status, played.effects) == (AgentStatus.CANCELLED, ())
    assert results(played) == {"t1.1.0": "shipped"}
    assert played.turn.messages[-1].origin is Origin.RUNTIME


def test_cancelled_during_a_tool_the_calls_behind_it_are_closed():
    """X3"""
    played = play(GO, calls(wants("look"), wants("mail")), judge(), Cancel(), returns("shipped"))

    assert results(played) == {"t1.1.0": "shipped", "t1.1.1": "Not run: the turn was cancelled."}
    assert [message.origin for message in played.turn.messages[-3:]] == ["", "runtime", "runtime"]


def test_a_tool_that_stops_because_it_was_asked_to_cancels_the_turn():
    """X2: its error is told, but it is not why the turn ends."""
    played = play(*LOOK, Cancel(), raises("stopped"))

    assert (played.turn.status, played.turn.error) == (AgentStatus.CANCELLED, None)
    assert played.last("TOOL_FAILED")["error"]["message"] == "stopped"


def test_a_form_asked_for_after_a_cancel_is_not_put_to_anybody():
    """A17"""
    played = play(*LOOK, Cancel(), asks_for(FORM))

    assert (played.turn.status, played.turn.questions) == (AgentStatus.CANCELLED, ())
    assert played.story[-1] == "TOOL_INTERRUPTED SNAPSHOT_SAVED STEP_COMPLETED TURN_CANCELLED"


def test_cancelled_during_a_model_call_the_reply_is_booked_and_its_calls_closed():
    """X3, Z1, Z11"""
    played = play(GO, Cancel(), reply("", wants("look"), tokens=(5000, 1)))

    assert played.turn.status is AgentStatus.CANCELLED
    assert played.turn.usage.input_tokens == 5000
    assert results(played) == {"t1.1.0": "Not run: the turn was cancelled."}


def test_a_model_that_breaks_off_because_of_a_cancel_does_not_fail_the_turn():
    played = play(GO, Cancel(), breaks())

    assert (played.turn.status, played.kinds.count("MODEL_FAILED")) == (AgentStatus.CANCELLED, 1)


def test_a_second_cancel_says_nothing_and_saves_nothing():
    """P13, core side"""
    played = play(*LOOK, Cancel(reason="first"))
    before = played.turn
    played.say(Cancel(reason="second"))

    assert played.turn == before
    assert played.kinds.count("CANCELLATION_REQUESTED") == 1


def test_a_cancelled_turn_leaves_no_question_open():
    """A17, X3, Z7"""
    played = play(GO, calls(wants("pay"), wants("look")), judge(ASK), Cancel(reason="too late"))

    assert (played.turn.status, played.turn.questions) == (AgentStatus.CANCELLED, ())
    with pytest.raises(CommandRefusedError, match="has ended"):
        played.say(approve("t1.1.0"))


def test_the_stop_button_closes_what_runs():
    """X3: the tool that was left is told as interrupted; whether it took effect nobody knows."""
    played = play(GO, calls(wants("look"), wants("mail")), judge(), Interrupted("stopped by the user"))

    assert played.story[-1] == snapshot(
        "CANCELLATION_REQUESTED TOOL_INTERRUPTED SNAPSHOT_SAVED STEP_COMPLETED TURN_CANCELLED"
    )
    assert results(played) == snapshot(
        {
            "t1.1.0": "Started, but its outcome is not known: the turn was cancelled: stopped by the user.",
            "t1.1.1": "Not run: the turn was cancelled: stopped by the user.",
        }
    )


def test_the_stop_button_ends_a_model_call():
    played = play(GO, piece("Hel"), Interrupted("stopped"))

    assert played.story[-1] == snapshot(
        "TURN_STARTED STEP_STARTED MODEL_STARTED MODEL_TEXT_DELTA "
        "CANCELLATION_REQUESTED MODEL_FAILED SNAPSHOT_SAVED STEP_COMPLETED TURN_CANCELLED"
    )
    assert played.last("MODEL_FAILED")["error"]["code"] == "INTERRUPTED"


def test_the_stop_button_before_anything_has_run():
    assert play(Interrupted("stopped")).story == snapshot(
        ["SNAPSHOT_SAVED", "TURN_STARTED CANCELLATION_REQUESTED SNAPSHOT_SAVED TURN_CANCELLED"]
    )


def test_a_failing_policy_fails_the_turn():
    """A18, Z19"""
    played = play(GO, calls(wants("pay")), CheckFailed(replace(BOOM, code="APPROVAL_POLICY_FAILED")))

    assert (played.turn.status, played.turn.error.code) == (AgentStatus.FAILED, "APPROVAL_POLICY_FAILED")
    assert results(played) == {"t1.1.0": "Not run: the turn failed: boom."}


@pytest.mark.parametrize("moves", [(), (GO,), LOOK, (*LOOK, returns())])
def test_a_failing_middleware_fails_the_turn_with_all_its_events(moves):
    """T3, Z14: from every place where a step can be."""
    played = play(*moves, StepFailed(BOOM))

    assert played.turn.status is AgentStatus.FAILED
    assert played.last("TURN_FAILED")["error"]["message"] == "boom"
    assert played.kinds.count("MODEL_STARTED") == sum(map(played.kinds.count, ("MODEL_COMPLETED", "MODEL_FAILED")))
    assert played.kinds.count("TOOL_STARTED") == sum(map(played.kinds.count, ("TOOL_COMPLETED", "TOOL_INTERRUPTED")))


def test_an_ended_turn_hears_nothing_more():
    """P14, E8"""
    for played in (play(GO, reply("hi")), play(Cancel()), play(GO, breaks())):
        before = played.turn
        for said in (GO, Cancel(), Suspend(correlation_id="q", message="?"), Interrupted("x"), StepFailed(BOOM)):
            with pytest.raises(IllegalTransitionError, match="nothing of the kind"):
                played.say(said)
        assert played.turn is before


# -- plain questions ---------------------------------------------------------------------------------------------------

QUESTION = Suspend(correlation_id="t1.ask.1", message="Which order?", metadata=freeze({"why": "two match"}))


def test_a_turn_can_be_asked_to_wait_for_a_plain_answer():
    """Y1, F5, E18"""
    played = play(QUESTION)

    assert played.story == snapshot(["SNAPSHOT_SAVED", "SNAPSHOT_SAVED TURN_SUSPENDED"])
    assert {**played.last("TURN_SUSPENDED")} == snapshot(
        {
            "suspension_type": "USER_INPUT",
            "correlation_id": "t1.ask.1",
            "message": "Which order?",
            "resume_phase": "MODEL",
            "metadata": {"why": "two match"},
            "next_runnable_at": None,
            "questions": (
                {
                    "id": "t1.ask.1",
                    "type": "USER_INPUT",
                    "message": "Which order?",
                    "code": "",
                    "reason": "",
                    "tool_name": "",
                    "arguments": {},
                    "form_key": "",
                    "schema": None,
                    "call_id": "",
                    "expires_at": None,
                    "when_expired": "",
                    "metadata": {"why": "two match"},
                },
            ),
            "status": "WAITING_FOR_USER",
            "phase": "MODEL",
            "step_count": 0,
            "max_steps": 100,
        }
    )

    played.say(submit("The second."), GO)
    assert sent(played)[-1] == ("user", "The second.")
    assert played.turn.answers[0].data == "The second."


def test_a_running_turn_waits_at_the_end_of_its_step():
    """Y1, E7: the question is on disk at once."""
    played = play(*LOOK, QUESTION)

    assert (played.committed.asked, played.turn.status) == (QUESTION, AgentStatus.RUNNING)
    assert played.say(returns()).story[2:] == snapshot(
        ["SNAPSHOT_SAVED", "TOOL_COMPLETED SNAPSHOT_SAVED STEP_COMPLETED TURN_SUSPENDED"]
    )


def test_a_question_asked_during_the_last_step_comes_before_the_end():
    """Y1: the answer of the model is no output yet."""
    played = play(GO, QUESTION, reply("Which one do you mean?"))

    assert (played.turn.status, played.turn.output) == (AgentStatus.WAITING_FOR_USER, None)
    assert played.say(submit("The red one."), GO, reply("Ah.")).turn.output == "Ah."


def test_a_question_asked_of_an_approved_call_waits_until_the_call_has_its_result():
    """Y1, I1: no word may come between a call and its result."""
    played = play(GO, calls(wants("pay")), judge(ASK), approve(), QUESTION)

    assert (played.turn.status, played.turn.phase) == (AgentStatus.READY, AgentPhase.TOOLS)
    played.say(GO, judge(), returns("paid"))
    assert (played.turn.status, played.question.message) == (AgentStatus.WAITING_FOR_USER, "Which order?")


def test_a_question_survives_an_approval_that_comes_first():
    played = play(GO, QUESTION, calls(wants("pay")), judge(ASK))

    assert played.question.tool_name == "pay"
    assert played.say(reject(), GO).question.message == "Which order?"


def test_a_second_question_is_refused_while_one_waits_for_the_end_of_the_step():
    played = play(GO, QUESTION)

    with pytest.raises(IllegalTransitionError, match="second Suspend"):
        played.say(replace(QUESTION, correlation_id="t1.ask.2"))
    assert played.turn.asked is QUESTION


def test_a_waiting_turn_cannot_be_suspended_again():
    with pytest.raises(IllegalTransitionError):
        play(QUESTION, replace(QUESTION, correlation_id="t1.ask.2"))


# -- after a crash -----------------------------------------------------------------------------------------------------


def test_pending_calls_are_run_after_a_crash_without_a_model_call():
    """P4"""
    played = play(GO, calls(wants("pay"), wants("look")), judge(ASK), Crash(), approve(), Crash(), GO, judge())

    assert isinstance(played.effect, RunTool)
    assert played.kinds.count("MODEL_STARTED") == 1


def test_a_tool_that_finished_before_a_crash_is_not_run_again():
    """P5: the result is on disk before the agent's own code is asked about the next call."""
    played = play(GO, calls(wants("look"), wants("pay")), judge(), returns("shipped"))
    assert isinstance(played.effect, CheckCalls)

    played.say(Crash(), GO)
    assert isinstance(played.effect, CheckCalls)
    assert results(played) == {"t1.1.0": "shipped"}


@pytest.mark.parametrize("logged", [True, False])
def test_a_turn_whose_process_died_in_its_first_model_call_asks_again(logged):
    """E6, I7, Z21: it began once, its step began once, and the attempt tells which pieces belong to the lost one."""
    played = play(GO, piece("Hel"), Crash(logged=logged), GO)

    assert played.kinds.count("TURN_STARTED") == played.kinds.count("STEP_STARTED") == 1
    assert played.effect.request.attempt == (2 if logged else 1)
    assert played.say(reply("Hello")).turn.status is AgentStatus.COMPLETED


def test_calls_of_a_lost_reply_share_no_id_with_those_of_the_next():
    """A2: a reply may be logged and lost, again and again."""
    lost = (calls(wants("look")), Crash(), GO)
    played = play(GO, *lost, *lost, calls(wants("look")))

    ids = [data["tool_calls"][0]["id"] for data in played.every("MODEL_COMPLETED")]
    assert len({*ids}) == 3
    assert [pending.call.id for pending in played.turn.pending] == ids[-1:]


def test_a_cancel_that_was_acknowledged_survives_a_crash():
    """E4, P13: a decision is never lost."""
    played = play(*LOOK, Cancel(reason="enough"), Crash(), GO)

    assert (played.turn.status, played.turn.cancel.reason) == (AgentStatus.CANCELLED, "enough")
    assert results(played) == snapshot(
        {"t1.1.0": "Started, but its outcome is not known: the turn was cancelled: enough."}
    )


def test_numbers_go_on_above_what_may_have_been_used():
    """E4"""
    turn = play(GO).turn

    assert pick_up(turn, reserved=1000, logged=4).sequence == 1000
    assert pick_up(turn, reserved=0, logged=7).sequence == 7
    assert pick_up(turn, reserved=0, logged=0).sequence == turn.sequence


@pytest.mark.parametrize("moves", [(QUESTION,), (GO, reply("hi")), (*LOOK,), (*LOOK, returns())])
def test_a_turn_that_lost_nothing_is_picked_up_as_it_is(moves):
    turn = play(*moves).turn

    assert pick_up(turn, reserved=turn.sequence, logged=turn.sequence) == turn


def test_a_call_that_was_running_when_the_process_died_is_asked_about():
    """P17"""
    played = play(*LOOK, Crash(), GO)

    assert played.story[-1] == snapshot("TOOL_APPROVAL_REQUESTED SNAPSHOT_SAVED STEP_COMPLETED TURN_SUSPENDED")
    assert (played.turn.status, played.question.code) == (AgentStatus.WAITING_FOR_APPROVAL, "OUTCOME_UNKNOWN")
    assert played.question.arguments == {"order": 1}


def test_an_unknown_outcome_can_be_run_again():
    """P17, F3: counted once, under the same id."""
    played = play(*LOOK, Crash(), GO, approve(), GO, returns("shipped"))

    assert results(played) == {"t1.1.0": "shipped"}
    assert (played.turn.tool_call_count, played.kinds.count("TOOL_STARTED")) == (1, 2)


def test_an_unknown_outcome_can_be_supplied():
    """P17"""
    played = play(*LOOK, Crash(), GO, supply({"state": "shipped"}), GO)

    assert results(played) == {"t1.1.0": '{"state": "shipped"}'}
    assert played.kinds.count("TOOL_STARTED") == played.kinds.count("TOOL_COMPLETED") == 1


def test_an_unknown_outcome_can_be_supplied_as_an_error():
    """P17"""
    played = play(*LOOK, Crash(), GO, supply(error="card declined"), GO)

    assert results(played) == {"t1.1.0": "Error: card declined"}
    assert played.last("TOOL_FAILED")["error"]["code"] == "REPORTED"


def test_an_unknown_outcome_can_be_rejected_and_the_model_learns_that_it_may_have_taken_effect():
    """P17, I2: told that it was denied, a model would try again."""
    played = play(*LOOK, Crash(), GO, reject("never mind"), GO)

    assert results(played) == snapshot(
        {"t1.1.0": '{"status": "OUTCOME_UNKNOWN", "code": "REJECTED", "reason": "never mind"}'}
    )
    assert (played.last("TOOL_DENIED")["started"], played.kinds.count("TOOL_STARTED")) == (True, 1)


def test_a_supplied_outcome_is_kept_when_the_turn_is_cancelled_before_it_goes_on():
    """X2"""
    assert results(play(*LOOK, Crash(), GO, supply("shipped"), Cancel())) == {"t1.1.0": "shipped"}
    assert results(play(*LOOK, Crash(), GO, supply(error="no"), Cancel())) == {"t1.1.0": "Error: no"}


def test_an_idempotent_tool_is_run_again_without_a_question():
    """P17"""
    played = play(GO, calls(wants("mail")), judge(), Crash(), GO)

    assert isinstance(played.effect, RunTool)
    assert played.say(returns("sent")).turn.tool_call_count == 1


# -- snapshots ---------------------------------------------------------------------------------------------------------


def test_a_turn_can_be_saved_again_as_it_is():
    """P20, core side"""
    turn = play(QUESTION).turn
    saved = save_turn(SHOP, turn, START)

    assert (saved.turn.version, saved.commits) == (turn.version + 1, True)
    assert saved.turn == replace(turn, version=turn.version + 1, sequence=turn.sequence + 1)


def test_what_a_turn_was_made_with_goes_with_it():
    """P8, B6, T17, P19: today's agent has other limits and other instructions; the turn keeps its own."""
    changed = replace(SHOP, instructions="Be rude.", execution_policy=with_policy(max_iterations=1))
    played = opened(policy=with_policy(max_iterations=7), streaming=False, metadata=freeze({"ticket": 4}))
    result = advance(changed, played.turn, GO, START)

    (effect,) = result.effects
    assert isinstance(effect, CallModel)
    assert effect.request.messages[0].content == "Be kind."
    assert (effect.request.streaming, result.turn.identity.metadata) == (False, {"ticket": 4})
    assert result.events[-1].data["remaining_iterations"] == 6


def test_advance_leaves_the_turn_it_was_given_alone():
    """P3"""
    played = play(GO)
    before, kept = played.turn, replace(played.turn)
    advance(SHOP, before, reply("hi"), START)
    advance(SHOP, before, Cancel(), START)

    assert before == kept


def test_equal_words_at_equal_times_lead_to_equal_turns():
    moves = (GO, calls(wants("pay")), judge(ASK), approve(by="ann"), GO, judge(), raises(), GO, reply("Sorry."))

    one, two = play(*moves, policy=LENIENT), play(*moves, policy=LENIENT)
    assert (one.turn, one.events) == (two.turn, two.events)


def test_a_turn_may_open_with_a_history_of_its_own():
    messages = (user("first"), user("second"))
    opening = open_turn(SHOP, opened().turn.identity, messages, START)

    assert opening.turn.messages is messages
