"""Pieces of what a model streams: which belong together, and how they become one."""

from agentflex_nb.core.agent import AgentDefinition
from agentflex_nb.core.deltas import DELTAS, Joining, block_of
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import DeltaKind, Proceed, Streamed
from agentflex_nb.testing import play

TEXT, REASONING, CALL = DeltaKind.TEXT, DeltaKind.REASONING, DeltaKind.TOOL_CALL


def pieces(*said: Streamed):
    events = play(AgentDefinition(id="a", version="1", name="a"), Proceed(), *said).events
    return [event for event in events if event.type in DELTAS]


def test_a_block_is_one_kind_of_one_attempt_and_one_call():
    first = Streamed(CALL, '{"a"', FrozenDict(index=0, name="pay"))
    second = Streamed(CALL, '{"b"', FrozenDict(index=1, name="pay"))
    blocks = [block_of(event) for event in pieces(Streamed(TEXT, "a"), Streamed(REASONING, "b"), first, second)]

    assert len(set(blocks)) == 4
    assert blocks[0] == block_of(pieces(Streamed(TEXT, "again"))[0])


def test_other_events_are_no_pieces():
    (began, *_) = play(AgentDefinition(id="a", version="1", name="a"), Proceed()).events

    assert block_of(began) is None


def test_joined_pieces_stand_where_the_last_stood_with_the_name_of_the_first():
    first, last = pieces(
        Streamed(CALL, '{"amount"', FrozenDict(index=0, name="pay")),
        Streamed(CALL, ": 5}", FrozenDict(index=0, name="")),
    )
    joining = Joining(first)

    assert joining.takes(last)
    assert (joining.whole.sequence, joining.whole.occurred_at) == (last.sequence, last.occurred_at)
    assert (joining.whole.data["name"], joining.whole.data["content"]) == ("pay", '{"amount": 5}')


def test_nothing_joins_what_is_no_piece_or_of_another_block():
    (began, *_) = play(AgentDefinition(id="a", version="1", name="a"), Proceed()).events
    text, reasoning = pieces(Streamed(TEXT, "a"), Streamed(REASONING, "b"))

    assert not Joining(began).takes(began)
    assert not Joining(text).takes(reasoning)
    assert Joining(text).whole is text
