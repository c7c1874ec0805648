import json
from dataclasses import replace

import pytest

from agentflex_nb.core.inputs import Cancel, ToolReturned
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.messages import assistant, user
from agentflex_nb.core.values import PackedValue
from agentflex_nb.store import sqlite
from agentflex_nb.store.codec import decode_events, decode_message, decode_turn
from agentflex_nb.store.sqlite import SqliteStore
from agentflex_nb.store.unfolded import FoldCursor
from agentflex_nb.testing.store_contract import ASK, Tale, loaded, told

START = FoldCursor()
TABLES = ("messages", "turn_messages", "conversation_messages", "journal", "results", "heads")
WHOLE = PackedValue("text/plain", b"x" * 300)


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "turns", "process")
    yield store
    store.close()


def batches(store, cursor=START, **limits):
    """All that is unfolded, batch by batch."""
    while True:
        found = store.unfolded(cursor, **limits)
        yield found
        if found.complete:
            return
        assert found.cursor != cursor
        cursor = found.cursor


# -- reading -----------------------------------------------------------------------------------------------------------


def test_everything_can_be_told_from_what_is_handed_over(store):
    tale = Tale(store, conversation_id="c1").step().finish()

    found = store.unfolded(START)

    bodies = {named: body for _, named, body in found.messages}
    turns = sorted(found.turn_messages, key=lambda row: row[2])
    messages = [decode_message(bodies[named]) for _, _, _, named, _ in turns]
    (head,) = found.heads
    assert decode_turn(head[6], messages, bodies.get) == tale.turn
    assert [event for row in found.journal for event in decode_events(row[4])] == tale.events
    assert [row[2] for row in found.journal] == list(range(tale.turn.version + 1))
    assert decode_turn(found.journal[-1][3], messages, bodies.get) == tale.turn
    assert [decode_message(bodies[row[4]]) for row in found.conversation_messages] == list(tale.turn.messages)
    assert found.complete


def test_beyond_the_cursor_is_only_what_is_new(store):
    tale = Tale(store)
    before = store.unfolded(START)
    tale.step()

    after = store.unfolded(before.cursor)

    assert [row[2] for row in after.journal] == [1, 2]
    assert [row[2] for row in after.turn_messages] == [1, 2]
    assert [head[1] for head in after.heads] == [2]
    assert not any(getattr(store.unfolded(after.cursor), table) for table in TABLES)


def test_a_cancel_request_brings_its_head_again(store):
    Tale(store)
    cursor = store.unfolded(START).cursor

    store.request_cancel("t1")

    assert [head[10] for head in store.unfolded(cursor).heads] == [1]


@pytest.mark.parametrize("limits", [{"rows": 1}, {"rows": 7}, {"text": 1}, {"text": 900}, {"rows": 3, "text": 500}])
def test_in_small_batches_nothing_is_left_out_and_nothing_points_ahead(store, limits):
    for n in range(4):
        tale = Tale(store, f"t{n}", conversation_id="c1", attached=[user("again")]).call()
        tale.say(ToolReturned(f"t{n}.1.0", "x…", kept=WHOLE)).finish()
    store.remember("c1", [assistant("later")])
    whole = store.unfolded(START)

    seen = {table: [] for table in TABLES}
    for found in batches(store, **limits):
        for table in TABLES:
            seen[table] += getattr(found, table)
        hashes = {named for _, named, _ in seen["messages"]}
        assert {row[3] for row in seen["turn_messages"]} <= hashes
        assert {row[4] for row in seen["conversation_messages"]} <= hashes
        places = {(row[1], row[2]) for row in seen["turn_messages"]}
        for head in found.heads:
            assert all((head[0], position) in places for position in range(head[7]))
            assert head[12] <= found.cursor.journal
            assert json.loads(head[6])["identity"]["instructions"] in hashes

    assert {table: seen[table] for table in TABLES[:5]} == {table: getattr(whole, table) for table in TABLES[:5]}
    assert {head[0]: head for head in seen["heads"]} == {head[0]: head for head in whole.heads}


# -- forgetting --------------------------------------------------------------------------------------------------------


def test_what_is_folded_is_let_go_of_and_what_waits_stays(store):
    waiting = Tale(store, "t1", conversation_id="c1").call(ASK)
    ended = Tale(store, "t2", conversation_id="c2").step().finish()
    cursor = store.unfolded(START).cursor

    store.forget(cursor)

    assert loaded(store, "t1").turn == waiting.turn
    assert loaded(store, "t1").logged == waiting.turn.sequence
    assert store.load(ended.turn.id) is None
    assert store.events("t2") == store.conversation("c2") == []
    assert store.active_turns("c1") == ["t1"]
    assert [row[1] for row in store.unfolded(START).journal] == ["t1"]  # its newest state
    assert not any(getattr(store.unfolded(cursor), table) for table in TABLES)


def test_what_came_after_the_cursor_stays(store):
    one, two = Tale(store, "t1"), Tale(store, "t2", conversation_id="c1")
    cursor = store.unfolded(START).cursor
    one.finish()
    two.finish()

    store.forget(cursor)

    assert loaded(store, "t1").turn == one.turn
    assert store.events("t1") == one.events[1:]
    assert [message for _, message in store.conversation("c1")] == list(two.turn.messages)
    assert [row[2] for row in store.unfolded(cursor).journal] == [1, 1]


def test_a_turn_goes_on_after_its_past_is_let_go_of(store):
    tale = Tale(store, conversation_id="c1").call(ASK)
    store.forget(store.unfolded(START).cursor)

    tale.say(Cancel(reason="enough"))

    assert loaded(store).turn == tale.turn
    assert [event.sequence for event in store.events("t1")][-1] == tale.turn.sequence
    assert [message for _, message in store.conversation("c1")] == list(tale.turn.messages)


def test_numbers_are_never_used_twice(store):
    Tale(store, "t1").finish()
    before = store.unfolded(START).cursor
    store.forget(before)

    Tale(store, "t2", attached=[user("new")]).finish()

    found = store.unfolded(before)
    assert [row[0] for row in found.journal] == [before.journal + 1, before.journal + 2]
    assert min(row[0] for row in found.messages) > before.messages
    assert min(row[0] for row in found.turn_messages) > before.turn_messages


def test_positions_of_a_conversation_go_on_after_it_is_let_go_of(store):
    for n in range(3):
        Tale(store, f"t{n}", conversation_id="c1").finish()
        found = store.unfolded(START)
        assert [row[2] for row in found.conversation_messages] == [2 * n, 2 * n + 1]
        store.forget(found.cursor)


def test_messages_that_no_turn_uses_are_swept_out(store, monkeypatch):
    monkeypatch.setattr(sqlite, "_SWEEP_AFTER", 0)
    waiting = Tale(store, "waits", attached=[user("kept")]).call(ASK)
    Tale(store, "ends", attached=[user("kept"), user("swept")]).finish()

    store.forget(store.unfolded(START).cursor)

    left = [decode_message(body) for _, _, body in store.unfolded(START).messages]
    assert user("kept") in left
    assert user("swept") not in left
    assert loaded(store, "waits").turn == waiting.turn


def test_a_message_that_was_swept_out_can_be_said_again(store, monkeypatch):
    monkeypatch.setattr(sqlite, "_SWEEP_AFTER", 0)
    Tale(store, "t1", attached=[user("again")]).finish()
    cursor = store.unfolded(START).cursor
    store.forget(cursor)

    tale = Tale(store, "t2", attached=[user("again")])

    assert loaded(store, "t2").turn == tale.turn
    assert user("again") in [decode_message(body) for _, _, body in store.unfolded(cursor).messages]


# -- coming back from an archive ---------------------------------------------------------------------------------------


@pytest.fixture
def archived(tmp_path):
    """A turn that waits, as another file had it."""
    elsewhere = SqliteStore(tmp_path / "elsewhere", "process")
    Tale(elsewhere, conversation_id="c1", attached=[user("before")]).call(ASK)
    elsewhere.append("t1", [told(40)], reserved=300)
    elsewhere.request_cancel("t1")
    yield loaded(elsewhere)
    elsewhere.close()


def test_a_turn_comes_back_as_it_was(store, archived):
    """E4, P13."""
    assert store.import_turn(archived)

    assert loaded(store) == archived
    assert (archived.reserved, archived.logged, archived.cancel_requested) == (300, 40, True)
    assert store.active_turns("c1") == ["t1"]


def test_a_turn_that_came_back_is_not_folded_again_until_it_changes(store, archived):
    store.import_turn(archived)
    assert not any(getattr(store.unfolded(START), table) for table in TABLES)

    turn = replace(archived.turn, version=archived.turn.version + 1, messages=(*archived.turn.messages, user("new")))
    store.commit(turn, [told(301)], expected=archived.turn.version, reserved=400)

    found = store.unfolded(START)
    assert [row[0] for row in found.journal] == [row[0] for row in found.turn_messages] == [1]
    assert [decode_message(body) for _, _, body in found.messages] == [user("new")]
    assert [head[7] for head in found.heads] == [len(turn.messages)]
    assert loaded(store).turn == turn


def test_a_turn_that_is_here_already_is_not_overwritten(store, archived):
    tale = Tale(store)

    assert not store.import_turn(archived)

    assert loaded(store).turn == tale.turn


def test_a_turn_that_came_back_and_ended_is_let_go_of(store, archived):
    store.import_turn(archived)
    ended = replace(archived.turn, version=archived.turn.version + 1, suspension=None, status=AgentStatus.CANCELLED)
    store.commit(ended, [told(301)], expected=archived.turn.version, reserved=400)

    store.forget(store.unfolded(START).cursor)

    assert store.load("t1") is None
    assert store.find([ended.status]) == []


def test_a_conversation_goes_on_at_the_length_that_the_archive_knows(tmp_path):
    """V5."""
    asked = []

    def length_of(conversation_id):
        asked.append(conversation_id)
        return 7

    store = SqliteStore(tmp_path / "turns", "process", length_of=length_of)
    Tale(store, "t1", conversation_id="c1").finish()
    store.remember("c1", [user("x")])
    Tale(store, "t2").finish()

    assert [row[2] for row in store.unfolded(START).conversation_messages] == [7, 8, 9]
    assert asked == ["c1"]
    assert [position for position, _, _ in store.said("c1")] == [7, 8, 9]
    store.close()


def test_a_record_has_a_name_of_its_own(tmp_path):
    one, other = SqliteStore(tmp_path / "one"), SqliteStore(tmp_path / "other")
    name = one.record_id
    assert name != other.record_id
    one.close()
    other.close()

    again = SqliteStore(tmp_path / "one")

    assert again.record_id == name
    again.close()
