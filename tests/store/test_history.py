"""What comes back from the archive equals what was saved."""

from contextlib import closing

import pytest

from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    CallsChecked,
    Expired,
    Interrupt,
    ModelReplied,
    Proceed,
    Suspend,
    ToolReturned,
)
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import Role, ToolCall, assistant, user
from agentflex_nb.core.verdicts import ALLOWED, ToolApprovalDecision
from agentflex_nb.store import history
from agentflex_nb.store.archive import Archive
from agentflex_nb.store.fold import fold
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.testing.store_contract import ASK, Postcard, Tale
from agentflex_nb.testing.time import START


@pytest.fixture
def record(tmp_path):
    with closing(SqliteStore(tmp_path / "live", "process")) as store:
        yield store


@pytest.fixture
def archive():
    with closing(Archive()) as opened:
        yield opened


AWKWARD = (
    'a "quoted" \\ back\\slash',
    "nul\0byte",
    "line\u2028separator, tab\t, bell\x07",
    "emoji 🧪 and 漢字",
    "'); drop table events; --",
    "{}",
    "null",
    " ",
)


@pytest.mark.parametrize("text", AWKWARD)
def test_every_text_comes_back_to_the_letter(record, archive, text):
    reply = ModelReplied(
        message=assistant(
            text,
            reasoning=text,
            tool_calls=(ToolCall(id="", name="refund", arguments=freeze({text: text}), provider_id=text),),
            provider_data=freeze({"signature": text, "number": 10**30, "float": 1e22, "none": None}),
        )
    )
    tale = Tale(record, attached=[user(text)], metadata=freeze({"note": text})).say(Proceed(), reply)
    record.append("t1", tale.unsaved, reserved=100)
    saved, events = record.load("t1"), record.events("t1")
    fold(record, archive)

    (stored,) = history.load(archive, ["t1"])
    assert stored == saved
    assert history.events(archive, "t1") == events


def test_what_a_runner_needs_to_go_on_comes_back_too(record, archive):
    Tale(record).call(ASK)
    record.request_cancel("t1")
    saved = record.load("t1")
    fold(record, archive)

    assert history.load(archive, ["t1"]) == [saved]
    assert saved.cancel_requested
    assert saved.reserved > saved.logged > 0


def test_a_registered_kind_of_message_comes_back_as_what_it_was(record, archive):
    """P10."""
    card = Postcard(role=Role.USER, content="hi", stamp="PR-9", read_at=START)
    tale = Tale(record, attached=[card])
    fold(record, archive)

    (stored,) = history.load(archive, ["t1"])
    assert stored.turn.messages[0] == card
    assert stored.turn == tale.turn


def test_turns_are_found_by_status_oldest_first(record, archive):
    Tale(record, "b").call(ASK)
    Tale(record, "a", created_at=START.replace(year=2025)).call(ASK)
    Tale(record, "c").finish()
    fold(record, archive)

    assert [stored.turn.id for stored in history.find(archive, [AgentStatus.WAITING_FOR_APPROVAL])] == ["a", "b"]
    assert [stored.turn.id for stored in history.unfinished(archive)] == ["a", "b"]
    assert history.find(archive, []) == []


def test_events_are_read_from_a_number_on(record, archive):
    tale = Tale(record).step().finish()
    Tale(record, "t2").finish()
    fold(record, archive)

    assert history.events(archive, "t1", after=5) == tale.events[5:]
    assert history.events(archive, "t3") == []


def test_a_conversation_comes_back_in_order(record, archive):
    one = Tale(record, "t1", conversation_id="c").finish()
    record.remember("c", [user("and?")])
    said = record.said("c")
    fold(record, archive)

    assert history.said(archive, "c") == said
    assert history.said(archive, "c", before=1) == said[:1]
    assert history.length_of(archive, "c") == len(one.turn.messages) + 1
    assert history.length_of(archive, "another") == 0


def test_the_newest_state_is_read_not_the_first(record, archive):
    tale = Tale(record).call(ASK)
    fold(record, archive)
    tale.say(AgentResumeCommand.reject_tool(tale.turn.questions[0].id, "no", by="bob"))
    fold(record, archive)

    (stored,) = history.load(archive, ["t1"])
    assert stored.turn == tale.turn
    assert stored.turn.answers[0].by == "bob"


def test_answers_come_back_from_the_log(record, archive):
    """A13: given, refused, run out, and taken back by an interruption."""
    soon = ToolApprovalDecision.require_approval("May I?", expires_in=1)
    tale = Tale(record).call(ASK)
    tale.say(AgentResumeCommand.approve_tool(tale.turn.questions[0].id, arguments={"order": "O-2"}, by="alice"))
    tale.say(Proceed(), CallsChecked({tale.turn.pending[0].call.id: ASK}))
    tale.say(ToolReturned(tale.turn.pending[0].call.id, "paid")).call(soon)
    tale.clock.advance(2)
    tale.say(Expired(tale.turn.questions[0].id), Proceed()).call(ASK)
    tale.say(Interrupt(message="Stop that.", metadata=freeze({"by": "bob"})))
    tale.say(Suspend(correlation_id="q1", message="Well?"), AgentResumeCommand.user_input("q1", "words"))
    fold(record, archive)

    (stored,) = history.load(archive, ["t1"])

    assert [answer.command_type for answer in stored.turn.answers] == [
        "APPROVE_TOOL",
        "EXPIRED",
        "INTERRUPT",
        "USER_INPUT",
    ]
    assert stored == record.load("t1")
    assert stored.turn == tale.turn


def test_a_turn_is_known_as_it_was_when_each_of_its_replies_had_come(record, archive):
    """What was said and answered later is not in it."""
    tale = Tale(record, "t1").step().call(ASK)
    tale.say(AgentResumeCommand.approve_tool(tale.turn.questions[0].id, by="alice"))
    tale.say(Proceed(), CallsChecked({tale.turn.pending[0].call.id: ALLOWED}))
    tale.say(ToolReturned(tale.turn.pending[0].call.id, "refunded")).step().finish()
    fold(record, archive)

    known = history.at_replies(archive, ["t1"])

    assert list(known) == [("t1", 1), ("t1", 2), ("t1", 4)]  # step 3 ran the approved call
    assert [len(turn.answers) for turn in known.values()] == [0, 0, 1]
    assert [turn.messages[-1].role for turn in known.values()] == ["assistant"] * 3
    assert [len(turn.messages) for turn in known.values()] == [2, 4, 6]
    assert {turn.identity.instructions for turn in known.values()} == {"Be brief."}
