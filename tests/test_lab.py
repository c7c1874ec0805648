"""The lab: one file, one runner, tables for everything; it only delegates."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import agentflex_nb as af
from agentflex_nb.testing import check

script = af.ScriptedModel


@af.tool(approval=lambda call: call.arguments["amount"] > 50)
def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:g}"


def desk(amount: float = 80, **rest) -> af.Agent:
    return af.Agent(
        "desk",
        instructions="Be kind.",
        model=script(script.call("refund", order_id="O-1", amount=amount), "Done."),
        tools=[refund],
        **rest,
    )


@pytest.fixture
def lab(tmp_path: Path):
    with af.Lab(tmp_path / "lab.duckdb", user="alice", display=False, durability="process") as lab:
        yield lab


def test_a_run_an_answer_and_the_tables_agree(lab):
    turn = lab.run(desk(), "My lamp broke.")
    assert turn.status == "WAITING_FOR_APPROVAL"

    turn.approve(ticket="T-1")

    assert (turn.status, turn.text) == ("COMPLETED", "Done.")
    [row] = lab.suspensions(turn=turn).to_dict("records")
    assert (row["outcome"], row["answered_by"]) == ("APPROVED", "alice")
    assert '"ticket":"T-1"' in row["answer_metadata"]
    assert list(lab.turns()["status"]) == ["COMPLETED"]
    assert len(lab.events(turn=turn)) == len(turn.events())
    assert lab.sql("select count(*) as n from tool_calls where status = 'COMPLETED'")["n"].item() == 1


def test_the_same_path_twice_is_the_same_lab(lab):
    assert af.Lab(lab.path) is lab
    assert af.Lab(lab.path).user == "alice"


def test_after_a_close_the_path_opens_a_new_lab_with_everything_in_it(tmp_path):
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as first:
        waiting = first.run(desk(), "My lamp broke.")
    assert [file.name for file in tmp_path.iterdir()] == ["lab.duckdb"]

    with af.Lab(path, display=False) as second:
        assert second is not first
        assert list(second.inbox()["turn_id"]) == [waiting.id]
        second.register(desk())
        turn = second.restore(waiting.id).reject("not today")

        assert turn.status == "COMPLETED"
        assert second.inbox().empty
        assert list(second.tool_calls()["status"]) == ["DENIED"]


def test_a_turn_needs_its_own_agent_to_go_on(tmp_path):
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        waiting = lab.run(desk(), "My lamp broke.").id

    with af.Lab(path, display=False) as lab:
        with pytest.raises(af.AgentVersionNotFoundError, match="register"):
            lab.restore(waiting)
        lab.register(desk().with_(instructions="Be strict."))
        with pytest.raises(af.AgentVersionNotFoundError):
            lab.restore(waiting)


def test_every_version_that_ran_is_written_down_once(lab):
    one = desk(amount=1)
    lab.run(one, "a")
    lab.run(one, "b")
    lab.run(one.with_(instructions="Be strict."), "c")

    versions = lab.sql("select agent_version, instructions from agent_versions order by instructions")
    assert list(versions["instructions"]) == ["Be kind.", "Be strict."]
    assert set(versions["agent_version"]) == set(lab.turns()["agent_version"])


def test_a_version_that_ran_through_the_labs_runner_is_written_down_too(lab):
    lab.runner.run(desk(amount=1), "a")

    assert list(lab.sql("select agent_id from agent_versions")["agent_id"]) == ["desk"]


def test_a_given_version_with_another_definition_is_refused_also_in_another_kernel(tmp_path):
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        lab.run(desk(amount=1, version="1"), "a")

    with af.Lab(path, display=False) as lab:
        with pytest.raises(af.AgentDriftError, match="new version"):
            lab.run(desk(amount=1, version="1").with_(instructions="Be strict.", version="1"), "b")
        assert len(lab.turns()) == 1


def test_a_responder_answers_until_the_turn_has_ended(lab):
    turn = lab.run(desk(), "My lamp broke.", responder={"refund": True})

    assert turn.status == "COMPLETED"
    assert lab.suspensions(turn=turn)["answered_by"].item() == "responder"


def test_fail_if_asked_leaves_the_question_open_and_says_so(lab):
    with pytest.raises(af.UnansweredError, match="refund"):
        lab.run(desk(), "My lamp broke.", responder=af.fail_if_asked)

    assert len(lab.inbox()) == 1


def test_start_returns_at_once_and_wait_ends_with_the_turn(lab):
    turn = lab.start(desk(amount=1), "My lamp broke.")

    assert turn.wait(10).status == "COMPLETED"


async def _await(lab):
    return await lab.arun(desk(), "My lamp broke.", responder={"refund": False})


def test_arun_does_the_same_in_a_coroutine(lab):
    turn = asyncio.run(_await(lab))

    assert turn.status == "COMPLETED"
    assert lab.suspensions(turn=turn)["outcome"].item() == "REJECTED"


def test_a_stop_before_the_first_step_cancels_the_turn_and_is_felt(lab):
    def press(event):
        if event.sequence == 1:
            signal.raise_signal(signal.SIGINT)

    lab.runner.add_event_listener(press, key="stop")

    with pytest.raises(KeyboardInterrupt):
        lab.run(desk(amount=1), "My lamp broke.", conversation_id="c")

    assert list(lab.turns()["status"]) == ["CANCELLED"]
    lab.runner.remove_event_listener(press, key="stop")
    assert lab.run(desk(amount=1), "Again.", conversation_id="c").status == "COMPLETED"


def test_a_second_process_is_told_who_holds_the_lab(lab):
    code = f"import agentflex_nb as af; af.Lab({lab.path!r})"

    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert other.returncode != 0
    assert "LabLockedError" in other.stderr
    assert "held by" in other.stderr


@pytest.mark.parametrize(("path", "left"), [("lab.duckdb", ["lab.duckdb"]), (":memory:", [])])
def test_a_script_that_ends_without_a_close_leaves_a_lab_at_rest(tmp_path, path, left):
    code = f"""
import agentflex_nb as af
lab = af.Lab({path!r})
print(lab.run(af.Agent("a", model=af.ScriptedModel("hello")), "hi").status)
"""

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "COMPLETED\n", "")
    assert [file.name for file in tmp_path.iterdir()] == left


def test_a_lab_in_memory_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with af.Lab(display=False) as lab:
        lab.run(desk(amount=1), "a")
        assert len(lab.turns()) == 1

    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def shown(tmp_path: Path, capsys):
    """A lab whose panels are printed; `press` is a click, and waits for what follows."""
    with af.Lab(tmp_path / "lab.duckdb", user="alice", display=True, durability="process") as lab:
        yield lab


def press(lab, turn, verb, until=lambda turn: turn.status.is_terminal, **data):
    lab._listener.panel(turn.id).press(verb, **data)
    deadline = time.monotonic() + 10
    while not until(turn) and time.monotonic() < deadline:
        time.sleep(0.005)
    turn.wait(10)


def test_a_click_approves_with_changed_arguments(shown):
    """A15"""
    turn = shown.run(desk(), "My lamp broke.")

    press(shown, turn, "approve", arguments={"order_id": "O-1", "amount": 10})

    assert [message.content for message in turn.messages if message.role == "tool"] == ["refunded 10"]
    assert shown.suspensions(turn=turn)["answered_by"].item() == "alice"


def test_changed_arguments_that_do_not_fit_come_back_to_their_fields_and_the_turn_waits(shown):
    """A15"""
    turn = shown.run(desk(), "My lamp broke.")
    panel = shown._listener.panel(turn.id)

    press(
        shown,
        turn,
        "approve",
        lambda _: panel._answering[turn.questions[0].id]["phase"] == "refused",
        arguments={"amount": "x"},
    )

    errors = panel._answering[turn.questions[0].id]["errors"]
    assert [error["pointer"] for error in errors] == ["/order_id", "/amount"]
    assert turn.status == "WAITING_FOR_APPROVAL"


def test_a_click_interrupts_with_a_message(shown):
    """X5"""
    turn = shown.run(desk(), "My lamp broke.")

    press(shown, turn, "interrupt", message="Never mind.")

    assert (turn.status, turn.text) == ("COMPLETED", "Done.")
    assert "Never mind." in [message.content for message in turn.messages if message.role == "user"]


def test_a_click_that_comes_too_late_lets_the_turn_go_on(shown):
    """A16"""
    rules = af.ApprovalRules([af.ApprovalRule(decision="ASK", expires_in=0.05)])
    turn = shown.run(desk(amount=1, approval_policy=rules), "My lamp broke.")
    time.sleep(0.06)

    press(shown, turn, "approve", correlation_id=f"{turn.id}.1.0")

    assert (turn.status, shown.suspensions(turn=turn)["outcome"].item()) == ("COMPLETED", "EXPIRED")


def test_a_panel_knows_the_schema_of_a_tool_only_of_agents_that_are_here(shown):
    agent = shown.register(desk())

    assert shown._parameters(agent.id, agent.version, "refund")["required"] == ("order_id", "amount")
    assert shown._parameters(agent.id, agent.version, "gone") is None
    assert shown._parameters(agent.id, "another", "refund") is None


def test_the_inbox_says_what_is_asked_for_and_when_it_resolves_by_itself(lab):
    """A16"""
    rules = af.ApprovalRules([af.ApprovalRule(decision="ASK", expires_in=3_600, when_expired="APPROVE")])
    lab.run(desk(amount=1, approval_policy=rules), "a")
    later = af.AgentRetryPolicy(initial_delay=3_600, max_delay=3_600)
    policy = af.AgentExecutionPolicy(retry=later)
    lab.run(af.Agent("b", model=script(af.RateLimitError("slow down")), execution_policy=policy), "b")

    inbox = lab.inbox()

    assert list(inbox["type"]) == ["TOOL_APPROVAL", "RETRY"]
    assert (inbox["expires_at"] > inbox["asked_at"]).all()
    assert inbox["when_expired"].iloc[0] == "APPROVE"


# -- versions ----------------------------------------------------------------------------------------------------------


def test_the_agents_of_a_lab_are_a_frame_with_a_row_a_version(lab):
    one = desk(amount=1, version="1")
    lab.run(one, "a")
    lab.run(one, "b")
    lab.register(one.with_(version="2", instructions="Be strict."))

    agents = lab.agents()

    assert list(agents.columns) == [
        "agent_id", "agent_version", "name", "model", "tools", "first_seen_at", "fingerprint", "turns",
    ]  # fmt: skip
    assert list(agents["agent_version"]) == ["1", "2"]
    assert list(agents["turns"]) == [2, 0]
    assert list(agents["tools"]) == ["refund", "refund"]
    assert agents["fingerprint"].nunique() == 2
    assert list(lab.agents(where={"agent_version": "2"})["agent_id"]) == ["desk"]


def test_what_a_version_was_is_shown_months_later(tmp_path):
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        lab.register(desk(version="1"))
        lab.register(desk(version="1").with_(version="2", instructions="Be strict."))

    with af.Lab(path, display=False) as lab:
        text = lab.agent_source("desk", "1")
        for part in ("Be kind.", "def refund(order_id: str, amount: float)", "lambda call:", "max_iterations: 20"):
            assert part in text
        assert repr(text) == text  # a cell shows lines, not one line with \\n in it
        diff = lab.agent_diff("desk", "1", "2")
        assert {"-    Be kind.", "+    Be strict."} <= set(diff.splitlines())
        assert lab.agent_diff("desk", "1", "1") == ""
        with pytest.raises(af.AgentVersionNotFoundError, match="known versions: 1, 2"):
            lab.agent_source("desk", "3")


def test_drift_in_another_kernel_says_what_has_changed(tmp_path):
    """K34."""
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        waiting = lab.run(desk(version="1"), "My lamp broke.")

    @af.tool(approval=True)
    def refund(order_id: str, amount: int) -> str:
        """Refund an order."""
        return "refunded"

    with af.Lab(path, display=False) as lab:
        changed = desk(version="1").with_(version="1", tools=[refund])
        with pytest.raises(af.AgentDriftError) as refused:
            lab.register(changed)
        told = {(difference.part, difference.pointer) for difference in refused.value.differences}
        assert told == {
            ("tool refund", "/parameters/properties/amount/type"),
            ("tool refund", "/source"),
            ("tool refund", "/approval"),
        }
        assert list(lab.inbox()["turn_id"]) == [waiting.id]
        lab.register(desk(version="1"))
        assert lab.restore(waiting.id).approve().status == "COMPLETED"


def test_a_turn_is_migrated_and_the_lab_says_who_did_it(tmp_path):
    """P11, K34."""
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        waiting = lab.run(desk(version="1"), "My lamp broke.")

    with af.Lab(path, user="bob", display=False) as lab:
        two = desk(version="2", description="Newer.")
        lab.restore(waiting.id, migrate_to=two).approve()
        [turn] = lab.turns().to_dict("records")
        assert (turn["status"], turn["agent_version"], turn["migrated_from"]) == ("COMPLETED", "2", "1")
        [event] = lab.events(where={"type": "TURN_MIGRATED"}).to_dict("records")
        assert (event["agent_version"], '"by":"bob"' in event["data"]) == ("2", True)
        assert list(lab.agents()["turns"]) == [0, 1]
        assert list(lab.steps(order="step")["agent_version"]) == ["1", "2", "2"]


def test_a_lab_refuses_to_migrate_to_what_it_knows_otherwise(lab):
    waiting = lab.run(desk(version="1"), "My lamp broke.")
    lab.register(desk(version="2"))

    with pytest.raises(af.AgentDriftError, match="is known to this lab"):
        lab.restore(waiting, migrate_to=desk(version="2", description="Newer."))

    assert waiting.to_snapshot().identity.agent_version == "1"
    assert waiting.approve().status == "COMPLETED"


def test_a_turn_over_three_kernels_is_one_row_and_its_sums_are_those_of_its_state(tmp_path):
    """K29"""

    def agent():
        calls = [script.call("refund", order_id="O-1", amount=80), script.call("refund", order_id="O-2", amount=90)]
        return af.Agent("desk", version="1", model=script(calls, "Done."), tools=[refund])

    with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
        id = lab.run(agent(), "Both broke.").id
    for number in range(2):
        with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
            lab.register(agent())
            turn = lab.restore(id)
            turn.approve(turn.questions[0].id)
            assert len(lab.turns()) == 1, number

            row = lab.turns().iloc[0]
            assert row["total_tokens"] == turn.usage.total_tokens
            assert row["total_tokens"] == lab.model_calls()["total_tokens"].sum()
            events = lab.events()
            assert events["sequence"].is_monotonic_increasing
            assert events["sequence"].is_unique
            assert events["occurred_at"].is_monotonic_increasing
    assert turn.status == "COMPLETED"
    assert row["tool_call_count"] == 2


# -- what is told ------------------------------------------------------------------------------------------------------


def test_a_stream_shows_its_turn_and_ends_with_it(tmp_path, capsys):
    with af.Lab(tmp_path / "lab.duckdb", display=True, durability="process") as lab:
        stream = lab.stream(desk(), "My lamp broke.")
        events = list(stream)

        assert events[-1].type == "TURN_SUSPENDED"
        assert events == stream.turn.events()
        assert "WAITING_FOR_APPROVAL" in capsys.readouterr().out


def test_a_cell_that_awaits_reads_the_same_stream(lab):
    async def main():
        return [event async for event in await lab.astream(desk(amount=5), "My lamp broke.")]

    assert asyncio.run(main())[-1].type == "TURN_COMPLETED"


def test_a_display_policy_bounds_what_is_shown_and_not_what_is_kept(tmp_path, capsys):
    """Y6"""
    policy = af.DisplayPolicy(redact=r"O-\d+")
    with af.Lab(tmp_path / "lab.duckdb", display=True, durability="process") as lab:
        assert af.Lab(lab.path, display=policy) is lab
        turn = lab.run(desk(), "My lamp O-7 broke.")

        printed = capsys.readouterr().out
        assert "WAITING_FOR_APPROVAL" in printed
        assert "[hidden]" in printed
        assert "O-" not in printed
        assert turn.questions[0].arguments["order_id"] == "O-1"
        assert "O-1" in "".join(lab.events()["data"])
        assert "O-7" in "".join(lab.messages()["content"])

        assert af.Lab(lab.path, display=af.DisplayPolicy(sample=0)) is lab
        lab.run(desk(), "Another.")
        assert capsys.readouterr().out == ""


def test_a_listener_that_raises_is_told_in_the_panel_also_at_the_last_event(tmp_path, capsys):
    """E9"""

    def only_at_the_end(event):
        if event.type == "TURN_COMPLETED":
            raise LookupError

    agent = af.Agent("a", model=script("Hi."))
    with af.Lab(tmp_path / "lab.duckdb", display=True, durability="process") as lab:
        lab.run(agent, "first")
        lab.runner.add_event_listener(only_at_the_end, key="the report")
        lab.run(agent, "second")

    first, second = capsys.readouterr().out.split("second")
    assert "raised" not in first
    assert "Listeners that raised: the report (1 time)" in second


def test_a_cell_that_opens_its_lab_again_measures_and_tells_once(lab):
    told = []
    for _ in range(2):
        metrics = af.MetricsListener()
        assert af.Lab(lab.path, listeners=[told.append, metrics, af.LogListener()]) is lab

    turn = lab.run(desk(), "My lamp broke.")

    assert told == turn.events()
    assert sum(metric.count for metric in metrics.snapshot() if metric.name == "events") == len(told)
    assert len([key for key in lab.runner._publisher._listeners if isinstance(key, tuple)]) == 3


def test_every_lab_keeps_its_promises(lab):
    """I1 to I7."""
    lab.run(desk(), "one").approve()
    lab.run(desk(), "two").cancel()
    lab.run(desk(), "three")

    check(lab)


def test_what_a_tool_returned_outlives_its_kernel_and_is_a_row_of_the_lab(tmp_path):
    """T14, K08: the next cell, the next lab and SQL all have the whole table."""
    orders = pd.DataFrame({"order": [f"O-{n}" for n in range(500)], "amount": range(500)})

    @af.tool
    def load() -> pd.DataFrame:
        """Load the orders."""
        return orders

    agent = af.Agent("loader", model=script(script.call("load"), "Done."), tools=[load])
    path = tmp_path / "lab.duckdb"
    with af.Lab(path, display=False) as lab:
        turn = lab.run(agent, "load")
        (address,) = turn.results
        assert turn.results[address] is orders

    with af.Lab(path, display=False) as lab:
        pd.testing.assert_frame_equal(lab.result(f"result:{address}"), orders)
        lab.register(agent)
        pd.testing.assert_frame_equal(lab.restore(turn.id).results[address], orders)
        row = lab.sql("select tool_call_id, media_type, bytes > 1000 as large from kept_results").to_dict("records")
        assert row == [{"tool_call_id": address, "media_type": "application/vnd.apache.arrow.stream", "large": True}]


def test_run_inside_an_async_tool_names_its_twin_and_leaves_nothing_behind(lab):
    """Y8"""
    told = []

    @af.tool
    async def nested() -> str:
        """Nested."""
        try:
            lab.run(desk(), "inner", conversation_id="c1")
        except af.WrongThreadError as error:
            told.append(str(error))
        return "went on"

    lab.run(af.Agent("outer", model=script(script.call("nested"), "Done."), tools=[nested]), "go")

    assert ["await lab.arun" in text for text in told] == [True]
    assert len(lab.turns(where={"conversation_id": "c1"})) == 0


def test_a_panel_of_yesterdays_turn_shows_what_was_asked(shown, capsys):
    turn = shown.run(desk(), "My lamp broke.")
    capsys.readouterr()
    shown._listener = None

    shown.restore(turn.id)

    assert "My lamp broke." in capsys.readouterr().out


def test_an_agent_that_was_edited_is_told_so(lab):
    """P12, K34"""
    turn = lab.run(desk(), "My lamp broke.")
    other = af.AgentRunner(lab.store)
    other.loader.register(desk().with_(instructions="Be short."))

    with pytest.raises(af.AgentVersionNotFoundError, match="a definition that changed is another version"):
        other.restore(turn.id)
