"""The log listener: a record an event, short and honest; a text from outside is never a line or a field of its own."""

import io
import json
import logging
import re

import pytest

from agentflex_nb.core.events import EventType
from agentflex_nb.listeners.log import JsonLines, LogListener
from agentflex_nb.listeners.policy import HIDDEN, DisplayPolicy
from agentflex_nb.models.scripted import ScriptedModel

call = ScriptedModel.call


@pytest.fixture
def logger():
    logger = logging.Logger("test", logging.DEBUG)
    logger.handlers = [Kept()]
    return logger


class Kept(logging.Handler):
    """Keeps every record."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def records(logger, stage, **given):
    listener = LogListener(logger, **given)
    for event in stage.heard:
        listener(event)
    return logger.handlers[0].records


def test_each_event_is_a_record_with_its_fields(stage, logger):
    """Y5"""
    stage.run([call("lookup", order="O-1")], "Done.")

    told = records(logger, stage)

    assert [(r.turn_id, r.sequence, r.event_type) for r in told] == [
        ("t1", event.sequence, event.type.value) for event in stage.heard
    ]
    last = told[-1]
    assert (last.agent_id, last.agent_version, last.turn_status) == ("shop", "v1", "COMPLETED")
    assert last.occurred_at == stage.heard[-1].occurred_at.isoformat()
    assert last.event_data == stage.heard[-1].data
    assert last.getMessage() == f"TURN_COMPLETED turn=t1 agent=shop seq={last.sequence} status=COMPLETED"


def test_what_failed_is_louder_and_pieces_are_quiet(stage, logger):
    """Y5"""
    stage.run("Hello.")
    stage.run([call("explode", order="O-9")])

    levels = {record.event_type: record.levelno for record in records(logger, stage)}

    assert levels["MODEL_TEXT_DELTA"] == levels["SNAPSHOT_SAVED"] == logging.DEBUG
    assert levels["TURN_STARTED"] == levels["TURN_COMPLETED"] == logging.INFO
    assert levels["TOOL_FAILED"] == logging.WARNING
    assert levels["TURN_FAILED"] == logging.ERROR


def test_the_level_of_everyday_events_can_be_chosen(stage, logger):
    """Y5"""
    logger.setLevel(logging.WARNING)
    stage.run("Hello.")
    assert records(logger, stage) == []

    told = records(logger, stage, level=logging.WARNING)

    assert "TURN_COMPLETED" in {record.event_type for record in told}


EVIL = [
    "x\nTURN_COMPLETED turn=t9",
    "x\r\x1b[31mred",
    'x" turn=t9 status="OK',
    "x turn=t9",
    "x\u2028\u202e\u0085y",
    "\\",
    "\ud800",
]


@pytest.mark.parametrize("evil", EVIL)
def test_a_text_from_outside_stays_in_its_quotes(stage, logger, evil):
    """Y5: neither a second line nor a field that nobody set."""
    stage.run([call(evil, order=evil)])
    stage.run(ConnectionError(evil))

    for record in records(logger, stage):
        message = record.getMessage()
        assert message.isprintable()
        assert len(message.splitlines()) == 1
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', message)
        assert re.findall(r"turn=\S+", bare) == [f"turn={record.turn_id}"]
        assert re.findall(r"status=\S+", bare) == [f"status={record.turn_status}"]


def test_a_long_text_is_cut_in_the_message_and_whole_in_the_fields(stage, logger):
    stage.run(ConnectionError("x" * 5_000))

    (failed,) = [record for record in records(logger, stage) if record.event_type == "TURN_FAILED"]

    assert len(failed.getMessage()) < 400
    assert failed.event_data["error"]["message"] == "x" * 5_000


def test_a_policy_has_its_say_before_anything_is_logged(stage, logger):
    """Y6"""
    stage.run("my key is sk-12")

    told = records(logger, stage, policy=DisplayPolicy(redact=r"sk-\d+"))

    assert "sk-" not in repr([record.__dict__ for record in told])
    assert HIDDEN in repr([record.__dict__ for record in told])


def test_json_lines_hold_every_field_on_one_line(stage):
    """Y5"""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("test", logging.DEBUG)
    logger.addHandler(handler)
    stage.run([call("lookup", order="two\nlines \u2028 and ünïcode")], "Done.")
    records_of = LogListener(logger)
    for event in stage.heard:
        records_of(event)
    logger.error("something else\nhappened", exc_info=ValueError("not ours"))

    *lines, last = [json.loads(line) for line in out.getvalue().splitlines()]

    assert [line["sequence"] for line in lines] == [event.sequence for event in stage.heard]
    replied = next(line for line in lines if line["event_type"] == EventType.MODEL_COMPLETED)
    assert replied["event_data"]["tool_calls"][0]["arguments"] == {"order": "two\nlines \u2028 and ünïcode"}
    assert (last["level"], last["message"]) == ("ERROR", "something else\nhappened")
    assert "ValueError: not ours" in last["exception"]
    assert out.getvalue().isascii()


def test_by_default_records_go_to_a_logger_of_this_package(stage, caplog):
    with caplog.at_level(logging.INFO, "agentflex_nb.events"):
        stage.runner.add_event_listener(LogListener())
        stage.run("Hello.")

    assert {record.name for record in caplog.records} == {"agentflex_nb.events"}
    assert caplog.records[-1].event_type == "TURN_COMPLETED"
