"""How the pieces of an answer become one reply (K07, K15, K22, K23, K25, K27, R7), and the text beat (E15, E16)."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.errors import EmptyReplyError, ModelError, TruncatedStreamError
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import DeltaKind, ModelReplied, Streamed
from agentflex_nb.core.messages import Usage
from agentflex_nb.core.model import Finish, ModelDelta, ReasoningDelta, TextDelta, ToolCallDelta, UsageDelta
from agentflex_nb.runtime.stream import ReplyAssembler, TextBeat, parse_arguments

START = datetime(2026, 1, 1, tzinfo=UTC)
STOP = Finish(reason="stop")


def assembled(*deltas: ModelDelta) -> tuple[list[Streamed], ModelReplied]:
    ticks = count()
    assembler = ReplyAssembler(now=lambda: START + timedelta(seconds=next(ticks)))
    shown = [piece for delta in deltas for piece in assembler.feed(delta)]
    shown += assembler.rest()
    return shown, assembler.finish()


def calls_of(*deltas: ModelDelta) -> list[tuple[str, str, dict[str, object]]]:
    message = assembled(*deltas, Finish(reason="tool_calls"))[1].message
    return [(call.provider_id, call.name, dict(call.arguments)) for call in message.tool_calls]


def text_of(shown: Sequence[Streamed], kind: DeltaKind = DeltaKind.TEXT) -> str:
    return "".join(piece.content for piece in shown if piece.kind is kind)


# -- text --------------------------------------------------------------------------------------------------------------


def test_text_and_reasoning_are_shown_as_they_come_each_of_its_own_kind():
    """E16."""
    shown, reply = assembled(ReasoningDelta("Hm, "), TextDelta("a"), ReasoningDelta("yes."), TextDelta("b"), STOP)

    assert [(piece.kind, piece.content) for piece in shown] == [
        (DeltaKind.REASONING, "Hm, "),
        (DeltaKind.TEXT, "a"),
        (DeltaKind.REASONING, "yes."),
        (DeltaKind.TEXT, "b"),
    ]
    assert (reply.message.content, reply.message.reasoning) == ("ab", "Hm, yes.")


def test_a_stream_of_one_final_text_is_shown_once():
    """E15."""
    shown, _ = assembled(TextDelta("all of it"), STOP)

    assert shown == [Streamed(DeltaKind.TEXT, "all of it")]


def test_the_halves_of_an_emoji_are_joined_before_anything_is_shown():
    """K22."""
    shown, reply = assembled(TextDelta("a\ud83d"), ReasoningDelta("\ud83d"), TextDelta("\ude00b"), STOP)

    assert [piece.content for piece in shown] == ["a", "\N{GRINNING FACE}b", "\ufffd"]
    assert reply.message.content == "a\N{GRINNING FACE}b"
    assert reply.message.reasoning == "\ufffd"


@given(st.text(st.characters(codec=None, exclude_categories=())), st.lists(st.integers(0, 20)))
def test_what_is_shown_is_the_reply_and_well_formed_however_the_text_is_cut(text: str, cuts: list[int]):
    units = [chr(unit) for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")]
    places = [0, *sorted(cut for cut in cuts if cut < len(units)), len(units)]
    pieces = ["".join(units[a:b]) for a, b in pairwise(places)]

    shown, reply = assembled(*map(TextDelta, pieces), STOP)

    assert text_of(shown) == reply.message.content
    assert reply.message.content == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_a_literal_escape_that_somebody_typed_stays_as_it_is():
    assert assembled(TextDelta(r"\ud83d"), STOP)[1].message.content == r"\ud83d"


def test_content_that_is_none_is_empty():
    """K27."""
    shown, reply = assembled(TextDelta(None), TextDelta("hi"), STOP)  # type: ignore[arg-type]

    assert text_of(shown) == reply.message.content == "hi"


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter", None])
def test_a_finish_without_content_is_an_empty_reply_with_its_reason(reason: str | None):
    """K27."""
    shown, reply = assembled(Finish(reason=reason))

    assert shown == []
    assert (reply.message.content, reply.message.tool_calls, reply.finish_reason) == ("", (), reason)
    assert reply.first_delta_at is None


@pytest.mark.parametrize("deltas", [(), (TextDelta(""),), (UsageDelta(Usage(input_tokens=3)),)])
def test_a_model_that_returns_nothing_is_an_error(deltas: tuple[ModelDelta, ...]):
    """R7."""
    with pytest.raises(EmptyReplyError, match="returned nothing"):
        assembled(*deltas)


def test_a_stream_without_a_finish_was_cut_and_gives_no_reply():
    """K25: half a tool call is never executed."""
    with pytest.raises(TruncatedStreamError, match="after 3 characters of text and 1 tool calls"):
        assembled(TextDelta("Ana"), ToolCallDelta(0, "c1", "pay", '{"amt":'))


def test_after_the_finish_only_usage_is_heard():
    """K15, K25: usage after the end, the end twice, chunks after the end."""
    shown, reply = assembled(
        TextDelta("par"),
        Finish(reason="length", model="m", response_id="r"),
        TextDelta("tial"),
        ToolCallDelta(0, "c", "f", "{}"),
        UsageDelta(Usage(output_tokens=1)),
        STOP,
    )

    assert text_of(shown) == reply.message.content == "par"
    assert reply.message.tool_calls == ()
    assert (reply.finish_reason, reply.model, reply.response_id) == ("length", "m", "r")
    assert reply.usage.output_tokens == 1


def test_the_first_delta_is_the_first_that_says_something():
    _, reply = assembled(UsageDelta(Usage(input_tokens=1)), TextDelta(""), TextDelta("a"), TextDelta("b"), STOP)

    assert reply.first_delta_at == START


def test_provider_data_of_the_finish_stays_with_the_message():
    data = FrozenDict(signature="xyz")

    assert assembled(Finish(provider_data=data))[1].message.provider_data == data


def test_what_is_no_delta_is_named_with_what_to_do():
    with pytest.raises(ModelError, match="yielded str: expected TextDelta"):
        ReplyAssembler(now=lambda: START).feed("plain text")  # type: ignore[arg-type]


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ([], Usage()),
        ([Usage(output_tokens=5)], Usage(output_tokens=5)),
        ([Usage(output_tokens=0), Usage(output_tokens=20)], Usage(output_tokens=20)),
        ([Usage(input_tokens=10), Usage(output_tokens=7)], Usage(input_tokens=10, output_tokens=7)),
        ([Usage(input_tokens="12")], Usage(input_tokens=12)),  # type: ignore[arg-type]
        ([Usage(input_tokens=4.0)], Usage(input_tokens=4)),  # type: ignore[arg-type]
        ([Usage(input_tokens=-1, output_tokens=3)], Usage(output_tokens=3)),
        ([Usage(input_tokens=8), Usage(input_tokens=-8)], Usage(input_tokens=8)),
        ([Usage(input_tokens="many")], Usage()),  # type: ignore[arg-type]
        ([Usage(input_tokens=float("nan"))], Usage()),  # type: ignore[arg-type]
        ([Usage(input_tokens=float("inf"))], Usage()),  # type: ignore[arg-type]
        ([Usage(input_tokens=True)], Usage()),
        ([Usage(input_tokens=10**30)], Usage()),
    ],
)  # fmt: skip
def test_usage_is_the_last_known_value_of_each_field_and_unknown_is_not_zero(told: list[Usage], known: Usage):
    """K15."""
    deltas = [UsageDelta(usage) for usage in told]

    assert assembled(*deltas[:1], TextDelta("x"), *deltas[1:], STOP)[1].usage == known


def test_usage_of_a_call_that_fails_is_known():
    """B9 needs it."""
    assembler = ReplyAssembler(now=lambda: START)
    assembler.feed(UsageDelta(Usage(input_tokens=7)))

    with pytest.raises(EmptyReplyError):
        assembler.finish()
    assert assembler.usage == Usage(input_tokens=7)


# -- tool calls --------------------------------------------------------------------------------------------------------

CITY = {"city": "X"}


@pytest.mark.parametrize(
    "deltas",
    [
        [(1, "c1", "get_weather", ""), (1, None, None, '{"'), (1, None, None, 'city":"X"}')],
        [(0, "c1", "get_", None), (0, None, "weather", '{"city":"X"}')],
        [(0, "c1", "get_", None), (0, None, "get_weather", '{"city":"X"}')],
        [(0, None, "get_weather", '{"city":'), (0, None, None, '"X"}'), (0, "c1", None, None)],
        [(0, "c1", "get_weather", '{"city":'), (0, "c1", "get_weather", '"X"}')],
        [(0, "", "get_weather", '{"city":'), (0, "c1", None, '"X"}')],
        [(0, "c1", None, '{"city":"X"}'), (0, None, "get_weather", None)],
        [(None, "c1", "get_weather", '{"city":'), (None, None, None, '"X"}')],
        [(None, "c1", "get_weather", '{"city":'), (None, "c1", "get_weather", '"X"}')],
        [(0, "c1", "get_weather", ""), (0, "c2", "get_weather", '{"city":'), (0, "c3", "get_weather", '"X"}')],
        [(0, "c1", "get_weather", '{"city":"X"}'), (1, None, None, None), (2, "c9", "", "  ")],
    ],
)
def test_one_call_is_one_call_however_its_pieces_come(
    deltas: list[tuple[int | None, str | None, str | None, str | None]],
):
    """K23: id, name and arguments whenever they arrive; repeated names are not doubled; no phantom call."""
    assert calls_of(*[ToolCallDelta(*delta) for delta in deltas]) == [("c1", "get_weather", CITY)]


@pytest.mark.parametrize(
    "deltas",
    [
        [(0, "a", "f", '{"n":1}'), (2, "b", "f", '{"n":2}')],
        [(2, "b", "f", None), (0, "a", "f", '{"n":'), (2, None, None, '{"n":2}'), (0, None, None, "1}")],
        [(0, "a", "f", '{"n":1}'), (0, "b", "f", '{"n":2}')],
        [(None, "a", "f", '{"n":1}'), (None, "b", "f", '{"n":2}')],
        [(None, "a", "f", '{"n":'), (None, None, None, "1}"), (None, "b", "f", ""), (None, None, None, '{"n":2}')],
    ],
)
def test_two_calls_stay_two_in_the_order_of_their_index(
    deltas: list[tuple[int | None, str | None, str | None, str | None]],
):
    """K23: gaps, no index, and servers that give index 0 to every call."""
    assert calls_of(*[ToolCallDelta(*delta) for delta in deltas]) == [("a", "f", {"n": 1}), ("b", "f", {"n": 2})]


def test_calls_without_ids_and_without_an_index_are_told_apart_when_each_comes_whole():
    assert calls_of(ToolCallDelta(name="f", arguments="{}"), ToolCallDelta(name="f", arguments="{}")) == [
        ("", "f", {}),
        ("", "f", {}),
    ]
    assert calls_of(ToolCallDelta(0, "a", "f", ""), ToolCallDelta(0, "b", "g", "")) == [("a", "f", {}), ("b", "g", {})]


def test_ids_are_left_for_the_turn_to_mint():
    """A2: the provider's id is kept beside the runtime's."""
    (call,) = assembled(ToolCallDelta(0, "call_0", "f", "{}"), STOP)[1].message.tool_calls

    assert (call.id, call.provider_id) == ("", "call_0")


def test_text_between_the_pieces_of_a_call_changes_neither():
    shown, reply = assembled(
        ToolCallDelta(0, "c", "f", '{"n'), TextDelta("wait"), ToolCallDelta(0, None, None, '":1}'), STOP
    )

    assert reply.message.content == "wait"
    assert dict(reply.message.tool_calls[0].arguments) == {"n": 1}
    assert text_of(shown, DeltaKind.TOOL_CALL) == '{"n":1}'


def test_each_piece_of_a_call_says_which_call_it_draws():
    """K23."""
    shown, _ = assembled(
        ToolCallDelta(0, "a", "get_", ""),
        ToolCallDelta(0, None, "weather", "{}"),
        ToolCallDelta(0, "b", "get_time", "{}"),
        STOP,
    )

    assert [dict(piece.data) for piece in shown] == [
        {"index": 0, "name": "get_"},
        {"index": 0, "name": "get_weather"},
        {"index": 1, "name": "get_time"},
    ]


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, "", "  ", "\n\t", "{}", " {} "])
def test_no_arguments_are_an_empty_object(raw: str | None):
    """K07."""
    assert parse_arguments(raw) == ({}, None)


@pytest.mark.parametrize(
    "raw",
    [
        '{"path": "x',
        '{"a":1}{"a":2}',
        "{'a':1}",
        '```json\n{"a":1}\n```',
        "\ufeff{}",
        '{"a":"x\ny"}',
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":2}}',
        "[1]",
        "null",
        '"text"',
        "3",
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a":' + "9" * 5_000 + "}",
        '{"a":' * 100_000,
        '{"a":' + "[" * 70 + "]" * 70 + "}",
    ],
    ids=lambda raw: raw[:14],
)
def test_anything_but_one_json_object_is_kept_as_it_was_written(raw: str):
    """K07: nothing is repaired, and nothing is run."""
    assert parse_arguments(raw) == ({}, raw)


def test_arguments_are_frozen_and_well_formed():
    """K22."""
    arguments, malformed = parse_arguments(r'{"p":"\ud83d","list":[1,{"deep":true}],"smile":"\ud83d\ude00"}')

    assert malformed is None
    assert arguments == {"p": "\ufffd", "list": (1, {"deep": True}), "smile": "\N{GRINNING FACE}"}
    with pytest.raises(TypeError, match="read-only"):
        arguments["p"] = "x"
    assert parse_arguments("\ud83d") == ({}, "\ufffd")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values))
def test_every_json_object_is_understood(arguments: dict[str, object]):
    parsed, malformed = parse_arguments(json.dumps(arguments))

    assert malformed is None
    assert json.loads(json.dumps(parsed)) == arguments


# -- the text beat -----------------------------------------------------------------------------------------------------


def text(content: str) -> Streamed:
    return Streamed(DeltaKind.TEXT, content)


def test_pieces_within_the_beat_are_joined_and_its_end_lets_go():
    """E15."""
    beat = TextBeat(0.04)

    assert [beat.add(text(word), now) for word, now in [("a", 1.0), ("b", 1.01), ("c", 1.039)]] == [(), (), ()]
    assert beat.due(1.039) == ()
    assert beat.ends_at == pytest.approx(1.04)
    assert beat.due(1.041) == (text("abc"),)
    assert beat.ends_at is None
    assert beat.due(9.0) == beat.flush() == ()


def test_a_piece_after_the_beat_lets_go_of_what_was_held():
    beat = TextBeat(0.04)
    beat.add(text("a"), 1.0)

    assert beat.add(text("b"), 1.05) == (text("a"),)
    assert beat.flush() == (text("b"),)


def test_a_piece_of_another_kind_lets_go_of_what_was_held():
    """E15, E16."""
    beat = TextBeat(0.04)
    beat.add(text("a"), 1.0)

    assert beat.add(Streamed(DeltaKind.REASONING, "hm"), 1.0) == (text("a"),)
    assert beat.add(text("b"), 1.0) == (Streamed(DeltaKind.REASONING, "hm"),)


def test_pieces_of_one_call_are_joined_and_those_of_two_are_not():
    first, second = FrozenDict(index=0, name="f"), FrozenDict(index=1, name="f")
    beat = TextBeat(0.04)
    beat.add(Streamed(DeltaKind.TOOL_CALL, '{"a"', first), 1.0)
    beat.add(Streamed(DeltaKind.TOOL_CALL, ":1}", FrozenDict(first)), 1.0)

    assert beat.add(Streamed(DeltaKind.TOOL_CALL, "{}", second), 1.0) == (
        Streamed(DeltaKind.TOOL_CALL, '{"a":1}', first),
    )


def test_a_beat_of_zero_lets_every_piece_through_at_once():
    """E15."""
    beat = TextBeat(0)

    assert [beat.add(text(word), 1.0) for word in "abc"] == [(text("a"),), (text("b"),), (text("c"),)]
    assert beat.ends_at is None


pieces = st.builds(Streamed, st.sampled_from(DeltaKind), st.text(min_size=1))


@given(st.lists(st.tuples(pieces, st.floats(0, 0.1), st.booleans())), st.sampled_from([0.0, 0.04]))
def test_nothing_is_lost_doubled_or_moved(said: list[tuple[Streamed, float, bool]], seconds: float):
    """E15: the concatenation is exact, kind by kind and in order."""
    beat, now, out = TextBeat(seconds), 0.0, []
    for piece, later, look in said:
        now += later
        out += beat.add(piece, now)
        out += beat.due(now) if look else ()
    out += beat.flush()

    def letters(pieces: Sequence[Streamed]) -> list[tuple[DeltaKind, str]]:
        return [(piece.kind, letter) for piece in pieces for letter in piece.content]

    assert letters(out) == letters([piece for piece, _, _ in said])
