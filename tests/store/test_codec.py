import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentflex_nb.core.agent import AgentBudget, AgentExecutionPolicy, AgentRetryPolicy, ClosingTexts, ToolDefinition
from agentflex_nb.core.errors import InvalidValueError, NewerFormatError, StoreDamagedError, StoreError
from agentflex_nb.core.events import AgentEvent
from agentflex_nb.core.frozen import FrozenDict, freeze
from agentflex_nb.core.messages import Message, Role, assistant, user
from agentflex_nb.core.turn import AgentSuspension, Turn
from agentflex_nb.store.codec import (
    FORMAT,
    decode_events,
    decode_message,
    decode_turn,
    encode_events,
    encode_message,
    encode_turn,
    event_rows,
    register_message,
)
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing.store_contract import ASK, Tale, told

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("v*.json"))

# -- any value that the core can hold ----------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
DATA = st.dictionaries(st.text(max_size=8), JSON, max_size=3).map(freeze)
TIMES = st.datetimes(timezones=st.just(UTC))
COUNTS = st.integers(0, 2**40)

for kind, values in (
    (FrozenDict, DATA),
    (datetime, TIMES),
    (AgentExecutionPolicy, st.builds(AgentExecutionPolicy, max_iterations=COUNTS, max_steps=COUNTS)),
):
    st.register_type_strategy(kind, values)

NAMES = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)
st.register_type_strategy(ToolDefinition, st.builds(ToolDefinition, name=NAMES, max_result_chars=COUNTS))

MESSAGES = st.builds(Message)
TURNS = st.builds(
    Turn,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    suspension=st.none() | st.builds(AgentSuspension),
)
EVENTS = st.builds(AgentEvent)

thorough = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def again(turn: Turn) -> Turn:
    """The turn after it was written and read."""
    state, instructions = encode_turn(turn)
    messages = [decode_message(encode_message(message).text) for message in turn.messages]
    return decode_turn(state, messages, dict([instructions] if instructions else []).get)


@thorough
@given(TURNS)
def test_any_turn_comes_back_equal(turn):
    """I4, P6, P8, P19."""
    assert again(turn) == turn


@thorough
@given(MESSAGES)
def test_any_message_comes_back_equal(message):
    assert decode_message(encode_message(message).text) == message


@thorough
@given(st.lists(EVENTS, max_size=4))
def test_any_events_come_back_equal(events):
    text = encode_events(events)

    assert decode_events(text) == events
    assert [row["sequence"] for row in event_rows(text)] == [event.sequence for event in events]


@given(JSON)
def test_data_comes_back_with_its_types(value):
    message = user("")
    data = freeze({"value": value})

    read = decode_message(encode_message(replace(message, provider_data=data)).text).provider_data

    assert repr(read) == repr(data)  # repr tells 1 from 1.0 and True, and -0.0 from 0.0


def test_what_comes_back_cannot_be_changed():
    """P3, E11."""
    turn = again(Tale(MemoryStore(), metadata=freeze({"a": {"b": [1]}})).call(ASK).turn)

    with pytest.raises(TypeError):
        turn.identity.metadata["a"]["b"] = 2
    assert type(turn.identity.metadata["a"]["b"]) is tuple


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_state_holds_neither_messages_nor_instructions():
    """P16: they are written once, apart."""
    turn = Tale(MemoryStore()).step().turn
    secret = replace(turn, identity=replace(turn.identity, instructions="SAID ONCE"))

    state, instructions = encode_turn(secret)

    assert "SAID ONCE" not in state
    assert "hello" not in state
    assert instructions.hash in state
    assert "SAID ONCE" in instructions.text


def test_a_small_turn_has_a_small_state():
    assert (
        len(encode_turn(Tale(MemoryStore()).finish().turn).state) < 720
    )  # a fifth of it says how often what failed is tried again


def test_equal_messages_have_one_hash_and_others_another():
    bodies = [encode_message(message) for message in (user("a"), user("a"), assistant("a"), user("a "))]

    assert bodies[0] == bodies[1]
    assert len({body.hash for body in bodies}) == 3


def test_the_first_event_tells_what_the_others_share():
    rows = json.loads(encode_events([told(1), told(2), replace(told(3), agent_version="2")]))

    assert [row.get("agent_version") for row in rows] == ["1", None, "2"]
    assert [row["agent_version"] for row in event_rows(json.dumps(rows))] == ["1", "1", "2"]


@pytest.mark.parametrize("content", ["\ud800", "a\udfffb"])
def test_text_that_is_no_text_is_a_store_error(content):
    with pytest.raises(StoreError, match="cannot be saved"):
        encode_message(user(content))


def test_a_value_of_another_type_than_its_field_says_is_a_store_error():
    with pytest.raises(StoreError, match="another type"):
        encode_message(Message(role="user"))


# -- kinds of messages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(Message):
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Message):
    pass


register_message("card", Card)


def test_a_registered_kind_comes_back_as_itself():
    """P10."""
    card = Card(role=Role.USER, content="x", title="T")

    text = encode_message(card).text

    assert type(decode_message(text)) is Card
    assert decode_message(text) == card
    assert json.loads(text)["kind"] == "card"


def test_a_kind_that_is_not_registered_is_not_written():
    """P10."""
    with pytest.raises(StoreError, match="register_message"):
        encode_message(Unknown(role=Role.USER))


def test_a_kind_that_is_not_registered_is_not_read():
    """P10: a class is never found by its name."""
    with pytest.raises(StoreError, match=r"'os\.system'"):
        decode_message('{"kind":"os.system","role":"user"}')


def test_a_class_may_be_registered_again_when_its_cell_runs_again():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Note(Message):
        page: int = 0

    newer = dataclass(frozen=True, kw_only=True)(
        type("Note", (Message,), {"__annotations__": {"page": int}, "page": 1})
    )
    newer.__module__, newer.__qualname__ = Note.__module__, Note.__qualname__

    register_message("note", Note)
    register_message("note", newer)

    assert type(decode_message('{"kind":"note","role":"user"}')) is newer


@pytest.mark.parametrize(("kind", "cls"), [("card", Unknown), ("", Unknown), ("m", Message), ("d", dict)])
def test_a_name_stands_for_one_subclass_of_message(kind, cls):
    with pytest.raises(InvalidValueError):
        register_message(kind, cls)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_newer_format_is_refused_with_what_to_do():
    """K34"""
    state, instructions = encode_turn(Tale(MemoryStore()).turn)
    newer = json.dumps(json.loads(state) | {"format": FORMAT + 1, "novelty": 1})

    with pytest.raises(NewerFormatError, match="upgrade agentflex-nb") as refusal:
        decode_turn(newer, [], dict([instructions]).get)

    assert (refusal.value.found, refusal.value.known) == (FORMAT + 1, FORMAT)


def damaged(**changes):
    state = json.loads(encode_turn(Tale(MemoryStore()).turn).state)
    return json.dumps({name: part for name, part in (state | changes).items() if part is not ...})


@pytest.mark.parametrize(
    "state",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "7",
        '{"format":1',
        damaged(format=0),
        damaged(format=...),
        damaged(format="1"),
        damaged(format=None),
        damaged(identity=...),
        damaged(identity=[]),
        damaged(status="DREAMING"),
        damaged(started_at="soon"),
        damaged(started_at=2**70),
        damaged(novelty=1),
        damaged(messages=[]),
        damaged(pending=[{"call": {"id": "c", "name": "n", "novelty": 1}}]),
    ],
)
def test_what_is_not_understood_is_never_half_read(state):
    """K34"""
    instructions = encode_turn(Tale(MemoryStore()).turn).instructions

    with pytest.raises(StoreDamagedError):
        decode_turn(state, [], dict([instructions]).get)


def test_a_turn_without_its_instructions_is_damaged():
    with pytest.raises(StoreDamagedError, match="instructions"):
        decode_turn(encode_turn(Tale(MemoryStore()).turn).state, [], {}.get)


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"sequence":1}]', '[{"turn_id":"t"}]', "[[]]"])
def test_events_that_are_not_understood_are_damaged(text):
    with pytest.raises(StoreDamagedError):
        decode_events(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '{"role":"ghost"}', '{"content":"x"}', '{"role":"user","tool_calls":[{}]}']
)
def test_messages_that_are_not_understood_are_damaged(text):
    with pytest.raises(StoreDamagedError):
        decode_message(text)


# -- yesterday's files -------------------------------------------------------------------------------------------------


def spelled_out(value):
    return json.loads(json.dumps(asdict(value), default=lambda at: at.isoformat()))


# fields that came later -> what they say of a turn that was saved before
SINCE = {
    "attempt": 1,
    "call_id": "t1.1.0",
    "when_expired": "REJECT",
    "retry": spelled_out(AgentRetryPolicy(max_retries=0)),
    "budget": spelled_out(AgentBudget()),
    "closing": spelled_out(ClosingTexts()),
}


def says(found, expected) -> bool:
    """Whether a value has all that was expected, and beyond that only fields that are empty, or as `SINCE` has them."""
    if isinstance(expected, dict) and isinstance(found, dict):
        beyond = [name for name in found.keys() - expected.keys() if found[name] and found[name] != SINCE.get(name)]
        return not beyond and all(name in found and says(found[name], expected[name]) for name in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(says, found, expected))
    return found == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_an_earlier_version_saved_still_means_the_same(path):
    """K34"""
    golden = json.loads(path.read_text("utf-8"))

    messages = [decode_message(text) for _, text in golden["messages"]]
    turn = decode_turn(golden["state"], messages, dict([golden["instructions"]]).get)

    assert says(spelled_out(turn), golden["turn"])
    assert says([spelled_out(event) for event in decode_events(golden["events"])], golden["log"])


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if path.name.startswith(f"v{FORMAT}_")], ids=lambda path: path.stem
)
def test_today_writes_what_this_format_always_wrote(path):
    """A changed text is a changed hash: the same message would be kept twice."""
    golden = json.loads(path.read_text("utf-8"))
    messages = [decode_message(text) for _, text in golden["messages"]]
    turn = decode_turn(golden["state"], messages, dict([golden["instructions"]]).get)

    state, instructions = encode_turn(turn)
    assert (state, list(instructions)) == (golden["state"], golden["instructions"])
    assert [list(encode_message(message)) for message in turn.messages] == golden["messages"]
    assert encode_events(decode_events(golden["events"])) == golden["events"]


def test_the_golden_files_are_there():
    assert len(GOLDEN) >= 9
