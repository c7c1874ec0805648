"""Metrics: counts, durations and tokens by agent, version, tool and status; no ids, and no end of labels."""

import threading
from dataclasses import replace

import pandas as pd
import pytest

from agentflex_nb.core.events import EventType
from agentflex_nb.listeners.metrics import OTHER, SECONDS, UNKNOWN, Metric, MetricsListener
from agentflex_nb.models.scripted import ScriptedModel

call = ScriptedModel.call


def measured(*logs, **given):
    listener = MetricsListener(**given)
    for events in logs:
        for event in events:
            listener(event)
    return listener.snapshot()


def only(metrics, name, **labels):
    found = [m for m in metrics if m.name == name and all(getattr(m, k) == v for k, v in labels.items())]
    assert len(found) == 1, found
    return found[0]


def test_durations_are_those_of_the_events(stage):
    """Y5: three seconds for each reply, two for the tool."""
    stage.run([call("lookup", order="O-1")], "Done.")
    metrics = measured(stage.heard)

    model, tool = only(metrics, "model_seconds"), only(metrics, "tool_seconds")
    assert (model.count, model.status, model.agent_id, model.agent_version) == (2, "COMPLETED", "shop", "v1")
    assert model.total == pytest.approx(6, abs=0.1)
    assert (tool.count, tool.tool, tool.status) == (1, "lookup", "COMPLETED")
    assert tool.total == pytest.approx(2, abs=0.1)
    turn = only(metrics, "turn_seconds")
    assert (turn.status, turn.total) == ("COMPLETED", pytest.approx(8, abs=0.2))
    assert only(metrics, "first_piece_seconds").total == pytest.approx(6, abs=0.1)


def test_waiting_is_neither_tool_time_nor_model_time(stage):
    """Y5, B8: an hour for a person."""
    turn = stage.run([call("refund", order="O-1", amount=5.0)], "Done.")
    stage.clock.advance(3_600)
    turn.approve()
    metrics = measured(stage.heard)

    waited = only(metrics, "waiting_seconds")
    assert (waited.status, waited.total) == ("WAITING_FOR_APPROVAL", pytest.approx(3_600, abs=0.1))
    assert only(metrics, "tool_seconds").total == pytest.approx(4, abs=0.1)
    assert only(metrics, "turn_seconds").total == pytest.approx(10, abs=0.2)


def test_a_tool_that_was_cut_off_has_no_duration(stage):
    """Y5: its process died; the time until somebody says what became of it is a person's."""
    turn = stage.run([call("refund", order="O-1", amount=5.0)], "Done.")
    turn.approve()
    cut = next(n for n, event in enumerate(stage.heard) if event.type is EventType.TOOL_STARTED)
    asks = next(event for event in stage.heard if event.type is EventType.TURN_SUSPENDED)
    rest = [event for event in stage.heard if event.type is EventType.TOOL_COMPLETED]

    metrics = measured([*stage.heard[: cut + 1], asks, *rest])

    assert [metric for metric in metrics if metric.name == "tool_seconds"] == []


def test_tokens_and_failures_are_counted(stage):
    """Y5, B9"""
    stage.run("Hello.")
    stage.run("Hello again.")
    stage.run(ConnectionError("cut"))
    metrics = measured(stage.heard)

    assert only(metrics, "input_tokens", status="COMPLETED").total == 200
    assert only(metrics, "output_tokens", status="COMPLETED").mean == 10
    assert only(metrics, "turn_seconds", status="FAILED").count == 1
    failed = only(metrics, "events", status="MODEL_FAILED")
    assert only(metrics, "model_seconds", status="FAILED").count == failed.count == failed.total
    assert only(metrics, "waiting_seconds", status="RETRY_SCHEDULED").count == failed.count - 1


def test_no_id_is_a_label(stage):
    """Y5: a thousand turns are no more series than one."""
    stage.run([call("lookup", order="O-1")], "Done.")
    once = measured(stage.heard)
    copies = [[replace(event, turn_id=f"x{n}", root_turn_id=f"x{n}") for event in stage.heard] for n in range(1_000)]

    many = measured(*copies)

    def labels(metrics):
        return [(m.name, m.agent_id, m.agent_version, m.tool, m.status) for m in metrics]

    assert labels(many) == labels(once)
    assert [m.count for m in many] == [1_000 * m.count for m in once]
    assert not any("t1" in label for metric in labels(once) for label in metric)


def test_a_tool_that_a_model_made_up_is_no_label(stage):
    """Y5, T7"""
    for n in range(20):
        stage.run([call(f"invented_{n}", order="1")], "Done.")
    metrics = measured(stage.heard)

    assert {metric.tool for metric in metrics} == {"", UNKNOWN}
    assert only(metrics, "events", status="TOOL_FAILED").count == 20


def test_beyond_so_many_series_the_rest_is_one(stage):
    """Y5: a notebook makes versions without end."""
    stage.run([call("lookup", order="O-1")], "Done.")
    versions = [[replace(event, agent_version=f"v{n}", turn_id=f"x{n}") for event in stage.heard] for n in range(200)]

    metrics = measured(*versions, most_series=50)

    assert only(metrics, "turn_seconds", agent_version=OTHER).count > 190
    assert sum(metric.count for metric in metrics if metric.name == "turn_seconds") == 200
    assert len(metrics) < 50 + len({(m.name, m.status, bool(m.tool)) for m in metrics}) + 1


def test_turns_that_never_end_are_bounded(stage, monkeypatch):
    monkeypatch.setattr("agentflex_nb.listeners.metrics._MOST_TURNS", 10)
    stage.run([call("refund", order="O-1", amount=5.0)])
    listener = MetricsListener()
    for n in range(100):
        for event in stage.heard:
            listener(replace(event, turn_id=f"x{n}"))

    assert len(listener._turns) == 10


def test_quantiles_are_right_to_their_bucket():
    listener = MetricsListener()
    values = [0.001 * n**2 for n in range(1, 301)]
    for value in values:
        listener._add("model_seconds", SHOP, value, SECONDS, "", "COMPLETED")
    (metric,) = listener.snapshot()

    for share in (0.01, 0.25, 0.5, 0.9, 0.99):
        exact = values[min(len(values) - 1, int(share * len(values)))]
        assert exact / 2 <= metric.quantile(share) <= exact * 2
    assert (metric.quantile(0), metric.quantile(1)) == (pytest.approx(min(values)), pytest.approx(max(values)))
    assert metric.mean == pytest.approx(sum(values) / len(values))


def test_what_lies_beyond_the_last_bucket_is_measured_too():
    listener = MetricsListener()
    listener._add("waiting_seconds", SHOP, 10_000_000, SECONDS, "", "WAITING_FOR_USER")
    (metric,) = listener.snapshot()

    assert metric.buckets[-1] == 1
    assert metric.quantile(0.5) == 10_000_000


class Shop:
    """As much of an event as its labels need."""

    agent_id, agent_version = "shop", "v1"


SHOP = Shop()


def test_a_snapshot_is_a_frame(stage):
    stage.run("Hello.")

    frame = pd.DataFrame(measured(stage.heard))

    assert list(frame.columns)[:6] == ["name", "agent_id", "agent_version", "tool", "status", "count"]
    assert frame.set_index(["name", "status"]).loc[("turn_seconds", "COMPLETED"), "count"] == 1


def test_threads_lose_nothing(stage):
    """Y3"""
    stage.run([call("lookup", order="O-1")], "Done.")
    listener = MetricsListener()

    def hear(n):
        for event in [replace(event, turn_id=f"x{n}") for event in stage.heard] * 1:
            listener(event)
            listener.snapshot()

    threads = [threading.Thread(target=hear, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    alone = measured(stage.heard)
    assert [(m.name, m.count) for m in listener.snapshot()] == [(m.name, 16 * m.count) for m in alone]


def test_a_metric_shows_itself_without_its_buckets(stage):
    stage.run("Hello.")

    shown = repr(next(metric for metric in measured(stage.heard) if metric.name == "turn_seconds"))

    assert isinstance(measured(stage.heard)[0], Metric)
    assert "buckets" not in shown
