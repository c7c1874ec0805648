"""Commit before publish, and what holds when a commit fails: E4, E27, P2, P13, P15, P18."""

import pytest

from agentflex_nb.core.errors import CommandRefusedError, StoreError, VersionConflictError
from agentflex_nb.core.events import EventType
from agentflex_nb.core.inputs import AgentResumeCommand, Cancel
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.tools import tool
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.store.sqlite import SqliteStore

call = ScriptedModel.call


class Failing(MemoryStore):
    """A store that fails at its n-th commit, and at every one after it."""

    def __init__(self, number, error=None):
        super().__init__()
        self.left, self.error = number, error or StoreError("the disk is full")

    def commit(self, *args, **kwargs):
        self.left -= 1
        if self.left <= 0:
            raise self.error
        super().commit(*args, **kwargs)


def heard_and_ran(desk, number):
    heard, ran = [], []

    @tool
    def act() -> str:
        """Act."""
        ran.append(1)
        return "acted"

    desk.store = Failing(number)
    runner = desk.another_runner(store=desk.store, listeners=[heard.append])
    agent = desk.agent(call("act"), call("act"), "Done.", tools=[act])
    with pytest.raises(StoreError, match="disk is full"):
        runner.run(agent, "go", conversation_id=desk.conversation())
    return runner, heard, ran


@pytest.mark.parametrize(("number", "runs"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)])
def test_a_failed_commit_stops_all_effects_and_raises(memory_desk, number, runs):
    """P18, E27, K32: what was told by a commit is on disk; the tool that was to follow does not run."""
    _, heard, ran = heard_and_ran(memory_desk, number)

    assert len(ran) == runs
    saved = [event.data["version"] for event in heard if event.type is EventType.SNAPSHOT_SAVED]
    assert saved == list(range(number - 1))
    assert EventType.TURN_COMPLETED not in [event.type for event in heard]
    for stored in memory_desk.store.find(list(AgentStatus)):
        memory_desk.unfinished.add(stored.turn.id)
        assert stored.turn.version == number - 2


@pytest.mark.parametrize(("number", "asks"), [(2, False), (3, True), (4, False), (5, True), (6, False)])
def test_after_a_failed_commit_the_turn_goes_on_from_the_last_one_that_won(memory_desk, number, asks):
    """P18, P5, P17, I1 to I7 when the disk has space again: a tool whose end was not saved is not run again unasked."""
    runner, _, ran = heard_and_ran(memory_desk, number)
    memory_desk.store.left = 1_000
    before = len(ran)

    turn = runner.run_until_blocked("t1")

    assert (turn.status is AgentStatus.WAITING_FOR_APPROVAL) == asks
    if asks:
        assert (turn.questions[0].code, len(ran)) == ("OUTCOME_UNKNOWN", before)
        turn.supply("acted")
    assert (turn.output, len(ran)) == ("Done.", 2)


def test_after_a_failed_commit_the_handle_shows_what_is_saved(memory_desk):
    """P15, I4."""
    memory_desk.store = Failing(3)
    runner = memory_desk.another_runner(store=memory_desk.store)
    turn = runner.create(memory_desk.agent(call("f"), tools=[tool(name="f")(lambda: "x")]), "go")
    memory_desk.unfinished.add(turn.id)

    with pytest.raises(StoreError):
        runner.run_until_blocked(turn)

    assert turn.to_snapshot() == memory_desk.store.load(turn.id).turn


def test_whoever_loses_against_another_process_shows_the_newest_state(tmp_path, desk):
    """P15, P2: two records of one file, as two processes have them."""
    path = tmp_path / "two.sqlite"
    here, there = SqliteStore(path, "process"), SqliteStore(path, "process")
    mine, other = desk.another_runner(store=here), desk.another_runner(store=there)

    @tool
    def act() -> str:
        """Be overtaken."""
        other.cancel("t1", "from elsewhere")
        return "acted"

    agent = desk.agent(call("act"), "Done.", tools=[act])
    turn = mine.create(agent, "go")

    with pytest.raises(VersionConflictError):
        mine.run_until_blocked(turn)

    assert turn.status is AgentStatus.CANCELLED
    assert turn.to_snapshot() == there.load("t1").turn
    numbers = [event.sequence for event in there.events("t1")]
    assert numbers == sorted(set(numbers))
    here.close()
    there.close()


def test_the_cancel_flag_survives_a_saver_that_knows_nothing_of_it(desk):
    """P13, Z9."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    turn = desk.run(call("ask"), "Done.", tools=[ask])
    assert desk.store.request_cancel(turn.id)
    assert not desk.store.request_cancel(turn.id)

    turn.approve()

    assert turn.status is AgentStatus.CANCELLED
    assert desk.store.load(turn.id).cancel_requested


def test_a_listener_hears_only_of_what_is_saved(desk):
    """E27: of whatever asks, decides or ends; what can be done again is saved with the next commit."""
    missing = []
    soft = {EventType.STEP_STARTED, EventType.MODEL_STARTED, EventType.MODEL_COMPLETED, EventType.TOOL_PROGRESS}

    def listener(event):
        if event.type not in soft and event not in desk.store.events(event.turn_id, after=event.sequence - 1):
            missing.append(event.type)

    @tool
    def work() -> str:
        """Work."""
        AgentToolContext.current().emit_progress("half")
        return "worked"

    desk.runner.add_event_listener(listener)
    desk.run(call("work"), "Done.", tools=[work])

    assert missing == []


def test_numbers_are_set_aside_before_they_are_told(desk):
    """E4: at any moment that a listener sees, what a crash would leave behind lies below what is set aside."""
    beyond = []

    def listener(event):
        stored = desk.store.load(event.turn_id)
        if event.sequence > max(stored.reserved, stored.logged):
            beyond.append(event.type)

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        AgentToolContext.current().emit_progress("half")
        return "asked"

    desk.runner.add_event_listener(listener)
    desk.run(call("ask"), "Done.", tools=[ask]).approve()

    assert beyond == []


def test_writing_is_serial_even_where_everybody_speaks_at_once(desk, at_once):
    """E3, E5: one turn, one writer at a time: progress, cancels, questions and saves from eight threads."""

    @tool
    def busy() -> str:
        """Be spoken to from everywhere."""
        context = AgentToolContext.current()
        runner = desk.another_runner()

        def speak():
            for _ in range(10):
                context.emit_progress("x")
                runner.events("t1")
                runner.reload("t1")
            runner.cancel("t1", "enough")

        at_once(*[context.carry(speak)] * 8)
        return "busy"

    turn = desk.run(call("busy"), "Never said.", tools=[busy])

    assert turn.status is AgentStatus.CANCELLED
    assert desk.log(turn).count("TOOL_PROGRESS") == 80
    assert desk.log(turn).count("CANCELLATION_REQUESTED") == 1


def test_an_answer_that_does_not_fit_changes_nothing(desk):
    """A7: neither version, nor log, nor handle."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    turn = desk.run(call("ask"), tools=[ask])
    before, log = turn.to_snapshot(), desk.log(turn)
    with pytest.raises(CommandRefusedError):
        desk.runner.submit_resume(turn, AgentResumeCommand.retry(turn.questions[0].id))

    assert turn.to_snapshot() == before
    assert desk.log(turn) == log


def test_cancel_says_who_and_why(desk):
    """X3: kept with the turn, in the log and in the history."""

    @tool(approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    turn = desk.run(call("ask"), tools=[ask])
    desk.runner.cancel(turn, "too dear", by="alice")

    assert turn.to_snapshot().cancel == Cancel(reason="too dear", metadata={"by": "alice"})
    assert "too dear" in turn.text
