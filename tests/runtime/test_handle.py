"""What a notebook variable holds: the newest state of a turn that this process knows."""

import gc
import threading
import traceback

import pytest

from agentflex_nb.core.errors import (
    AgentFlexError,
    CommandRefusedError,
    ConversationBusyError,
    TurnFailedError,
    UnansweredError,
)
from agentflex_nb.core.machine import AgentPhase, AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.handle import turn_id_of
from agentflex_nb.runtime.tools import Tool, tool

call, say = ScriptedModel.call, ScriptedModel.say


@tool(approval=True)
def ask() -> str:
    """Ask."""
    return "asked"


def test_every_handle_of_a_turn_shows_the_newest_state(desk):
    turn = desk.run([say("Shall I?"), call("ask")], "Done.", tools=[ask])
    same = desk.another_runner().restore(turn.id)
    assert (turn.text, turn.phase) == ("Shall I?", AgentPhase.TOOLS)

    same.approve()

    assert turn.status is same.status is AgentStatus.COMPLETED
    assert (turn.text, turn.output, turn.error, turn.questions) == ("Done.", "Done.", None, ())
    assert turn.version == desk.store.load(turn.id).turn.version
    assert turn.usage.total_tokens == desk.store.load(turn.id).turn.usage.total_tokens
    assert turn.events() == desk.store.events(turn.id)


def test_a_handle_looks_into_the_store_for_what_another_process_left(tmp_path, desk):
    from agentflex_nb.store.sqlite import SqliteStore

    here, there = (SqliteStore(tmp_path / "two.sqlite", "process") for _ in range(2))
    turn = desk.another_runner(store=here).run(desk.agent(call("ask"), "Done.", tools=[ask]), "go")
    desk.another_runner(store=there).restore(turn.id).approve()
    assert turn.status is AgentStatus.WAITING_FOR_APPROVAL

    with pytest.raises(CommandRefusedError, match="already answered"):
        turn.approve()
    assert turn.status is AgentStatus.COMPLETED
    assert turn.refresh().output == "Done."
    here.close()
    there.close()


def test_output_and_check_raise_what_stands_in_the_way(desk):
    waiting = desk.run(call("ask"), tools=[ask])
    failed = desk.run(ValueError("no model"))
    ready = desk.runner.create(desk.agent("x"), "go", conversation_id=desk.conversation())

    for turn, error, said in [
        (waiting, UnansweredError, "waits for an answer"),
        (failed, TurnFailedError, "ValueError: no model"),
        (ready, TurnFailedError, "READY"),
    ]:
        with pytest.raises(error, match=said):
            turn.check()
        with pytest.raises(error, match=said):
            _ = turn.output
    waiting.cancel("too long")
    with pytest.raises(TurnFailedError, match="CANCELLED: too long"):
        waiting.check()


def test_its_repr_is_short_and_says_how_it_stands(desk):
    """K20."""
    done = desk.run("x" * 100_000)
    waiting = desk.run(call("ask"), tools=[ask])
    failed = desk.run(ValueError("y" * 100_000))

    assert repr(done).startswith(f"<AgentTurn {done.id} COMPLETED; 'xxx")
    assert f"waits: {waiting.questions[0].id} (TOOL_APPROVAL) ask" in repr(waiting)
    assert "FAILED; ValueError: yyy" in repr(failed)
    assert max(map(len, map(repr, (done, waiting, failed)))) < 2_000


def test_waiting_for_oneself_is_refused(desk):
    """Y8's sibling: a tool that waits for the turn that runs it."""

    @tool
    def impatient() -> str:
        """Wait for oneself."""
        handle = desk.runner.restore(AgentToolContext.current().turn_id)
        with pytest.raises(CommandRefusedError, match="this very thread"):
            handle.wait()
        with pytest.raises(CommandRefusedError, match="this very thread"):
            desk.runner.run_until_blocked(handle)
        return "refused"

    assert desk.run(call("impatient"), "Done.", tools=[impatient]).messages[2].content == "refused"


def test_answers_bear_the_runners_signature_unless_they_say_otherwise(desk):
    runner = desk.another_runner(signature={"by": "lab", "where": "here"})
    agent = desk.agent([call("ask"), call("ask")], "Done.", tools=[ask])
    turn = runner.run(agent, "go", conversation_id=desk.conversation())

    turn.approve("t1.1.0")
    turn.approve("t1.1.1", by="alice")

    assert [dict(answer.metadata) for answer in turn.to_snapshot().answers] == [
        {"by": "lab", "where": "here"},
        {"by": "alice", "where": "here"},
    ]


def test_whatever_stands_for_a_turn_has_its_id(desk):
    turn = desk.run("Done.")

    assert turn_id_of(turn) == turn_id_of(turn.to_snapshot()) == turn_id_of(turn.id) == turn.id
    with pytest.raises(AgentFlexError, match="no turn"):
        turn_id_of(7)


def test_a_handle_that_is_dropped_is_forgotten_and_found_again(desk):
    turn_id = desk.runner.run(desk.agent(call("ask"), "Done.", tools=[ask]), "go", conversation_id="c0").id
    gc.collect()
    assert desk.runner._turns.known(turn_id) is None

    assert desk.runner.restore(turn_id).approve().output == "Done."


def test_handles_can_be_made_and_read_from_many_threads(desk, at_once):
    turn = desk.run(call("ask"), "Done.", tools=[ask])
    stop = threading.Event()

    def look():
        while not stop.is_set():
            same = desk.runner.restore(turn.id)
            assert (same.text, bool(same.questions)) in (("", True), ("", False), ("Done.", False))
        return "looked"

    def answer():
        try:
            return turn.approve().output
        finally:
            stop.set()

    assert at_once(look, look, look, answer) == ["looked", "looked", "looked", "Done."]


def test_a_turn_that_nobody_moves_says_so_and_has_a_verb(memory_desk):
    """P17, I3: it was made and not run, or its kernel is gone."""
    turn = memory_desk.runner.create(memory_desk.agent("Done."), "go", conversation_id="c1")

    with pytest.raises(CommandRefusedError, match=r"turn\.run_until_blocked\(\)"):
        turn.wait()
    with pytest.raises(CommandRefusedError, match=r"turn\.run_until_blocked\(\)"):
        turn.approve()
    with pytest.raises(ConversationBusyError, match=r"run_until_blocked\(\)"):
        memory_desk.runner.run(memory_desk.agent("No.", id="other"), "and?", conversation_id="c1")

    assert turn.run_until_blocked().output == "Done."


def test_what_failed_a_turn_is_raised_with_its_traceback_while_its_process_lives(memory_desk):
    def breaks() -> str:
        raise KeyError("host")

    agent = memory_desk.agent(
        ScriptedModel.call("breaks"), tools=[Tool(name="breaks", description="", function=breaks)]
    )
    turn = memory_desk.runner.run(agent, "go")

    with pytest.raises(TurnFailedError) as failed:
        turn.check()

    frames = traceback.extract_tb(failed.value.__cause__.__traceback__)
    assert frames[-1].name == "breaks"


def test_a_question_may_stand_for_its_id(memory_desk):
    ask = Tool(name="ask", description="", function=lambda n: f"asked {n}", approval=True)
    turn = memory_desk.run([ScriptedModel.call("ask", n=1), ScriptedModel.call("ask", n=2)], "Done.", tools=[ask])
    assert "ask(n=1)" in str(turn.questions[0])

    turn.approve(turn.questions[1])

    assert "ask(n=1)" in str(turn.questions[0])
