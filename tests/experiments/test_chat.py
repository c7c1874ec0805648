"""OpenAI chat messages in every shape in which people save them, and what is refused with its place."""

from pathlib import Path
from typing import Any

import pytest

from agentflex_nb.core.frozen import EMPTY
from agentflex_nb.core.messages import Message, Role
from agentflex_nb.experiments.chat import RecordingFormatError, Where, parse_json, read_messages

LINE = Where(Path("chats.jsonl"), "line 3", "messages")


def read(*raw: Any) -> tuple[Message, ...]:
    return read_messages([(item, LINE.at(number)) for number, item in enumerate(raw)], "c")


def calling(*calls: tuple[str | None, str, Any]) -> dict[str, Any]:
    listed = [{"id": id, "function": {"name": name, "arguments": arguments}} for id, name, arguments in calls]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def result(content: str, id: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": id}


@pytest.mark.parametrize(
    ("role", "ours"),
    [("system", Role.SYSTEM), ("developer", Role.SYSTEM), ("user", Role.USER), ("assistant", Role.ASSISTANT)],
)
def test_a_plain_message_is_taken_as_it_stands(role: str, ours: Role):
    assert read({"role": role, "content": "hi"}) == (Message(role=ours, content="hi"),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("a\ud83d\ude00b \udcaf", "a\N{GRINNING FACE}b \ufffd"),
        ([], ""),
        ([{"type": "text", "text": "a "}, "b", {"type": "input_text", "text": "c"}], "a bc"),
    ],
)
def test_content_is_text_nothing_or_parts_of_text(content: Any, text: str):
    assert read({"role": "user", "content": content})[0].content == text


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_under_both_of_its_names(field: str):
    assert read({"role": "assistant", "content": "x", field: "hm"})[0].reasoning == "hm"


def test_what_else_a_message_holds_is_kept():
    message = {"role": "assistant", "content": None, "refusal": "I cannot.", "audio": None, "annotations": [1]}

    assert read(message)[0].provider_data == {"refusal": "I cannot.", "annotations": (1,)}
    assert read({"role": "user", "content": "x", "audio": None})[0].provider_data is not None
    assert read({"role": "user", "content": "x", "audio": None})[0].provider_data == EMPTY


def test_calls_get_ids_of_their_own_and_keep_the_saved_ones_beside():
    (message, *_) = read(calling(("call_0", "f", '{"a": 1}'), ("call_0", "g", "")), result("1"), result("2"))

    assert [(call.id, call.provider_id, call.name, dict(call.arguments)) for call in message.tool_calls] == [
        ("c.0.0", "call_0", "f", {"a": 1}),
        ("c.0.1", "call_0", "g", {}),
    ]


@pytest.mark.parametrize(
    ("written", "kept"), [({"a": 1}, None), ("{half", "{half"), ('{"a":1,"a":2}', '{"a":1,"a":2}')]
)
def test_arguments_are_an_object_or_kept_as_they_were_written(written: Any, kept: str | None):
    """K07."""
    assert read(calling(("x", "f", written)))[0].tool_calls[0].malformed == kept


@pytest.mark.parametrize(
    ("ids", "results", "answers"),
    [
        (("a", "b"), (("a", "1"), ("b", "2")), ["1", "2"]),
        (("a", "b"), (("b", "2"), ("a", "1")), ["1", "2"]),
        (("x", "x"), (("x", "1"), ("x", "2")), ["1", "2"]),
        ((None, None), ((None, "1"), (None, "2")), ["1", "2"]),
        (("a", "b"), (("b", "2"),), [None, "2"]),
        (("a", "b"), (("other", "1"),), ["1", None]),
    ],
)
def test_a_result_belongs_to_a_call_by_id_where_ids_differ_else_by_position(
    ids: tuple[Any, ...], results: tuple[tuple[Any, str], ...], answers: list[Any]
):
    """K24: 49 of 200 real conversations repeat an id."""
    message, *given = read(calling(*[(id, "f", "") for id in ids]), *[result(text, id) for id, text in results])

    found = {message.tool_call_id: message.content for message in given}
    assert [found.get(call.id) for call in message.tool_calls] == answers


def test_a_repeated_id_belongs_to_the_nearest_message_before_it():
    """K24."""
    rounds = [message for n in range(3) for message in (calling(("call_0", "f", "")), result(str(n), "call_0"))]
    messages = read(*rounds)

    assert [message.tool_call_id for message in messages if message.role is Role.TOOL] == ["c.0.0", "c.2.0", "c.4.0"]


def test_the_shape_of_before_tools_had_ids_is_read_too():
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    message, answer = read(asked, {"role": "function", "name": "f", "content": "done"})

    assert [(call.id, call.name, dict(call.arguments)) for call in message.tool_calls] == [("c.0.0", "f", {"a": 1})]
    assert (answer.role, answer.content, answer.tool_call_id, answer.tool_name) == (Role.TOOL, "done", "c.0.0", "f")


def test_calls_may_stand_as_json_text_in_a_column():
    assert read({"role": "assistant", "tool_calls": '[{"id": "x", "function": {"name": "f", "arguments": "{}"}}]'})[
        0
    ].tool_calls[0].name == ("f")
    assert read({"role": "assistant", "content": "x", "tool_calls": ""})[0].tool_calls == ()


@pytest.mark.parametrize(
    ("raw", "field", "met"),
    [
        ("hi", "messages[0]", "a str"),
        ({"content": "x"}, "messages[0].role", "None"),
        ({"role": "bot", "content": "x"}, "messages[0].role", "'bot'"),
        ({"role": ["user"], "content": "x"}, "messages[0].role", "a list"),
        ({"role": "user", "content": 3}, "messages[0].content", "a int"),
        ({"role": "user", "content": {"text": "x"}}, "messages[0].content", "a dict"),
        (
            {"role": "user", "content": ["x", {"type": "image_url"}]},
            "messages[0].content[1]",
            "a part of type image_url",
        ),
        ({"role": "user", "content": [3]}, "messages[0].content[0]", "a part of type int"),
        ({"role": "assistant", "tool_calls": "[{]"}, "messages[0].tool_calls", "no JSON"),
        ({"role": "assistant", "tool_calls": {"id": "x"}}, "messages[0].tool_calls", "a dict"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "messages[0].tool_calls[0]", "no function in it"),
        (calling(("x", "", "")), "messages[0].tool_calls[0].function.name", "no name"),
        (calling(("x", "f", [1])), "messages[0].tool_calls[0].function.arguments", "a list"),
        ({"role": "assistant", "function_call": "f"}, "messages[0].function_call", "no function in it"),
        ({"role": "user", "tool_calls": [{"function": {"name": "f"}}]}, "messages[0].tool_calls", "role user"),
        (result("x"), "messages[0]", "a tool's result without a call"),
    ],
)
def test_what_is_no_such_message_is_refused_with_file_place_and_field(raw: Any, field: str, met: str):
    with pytest.raises(RecordingFormatError) as caught:
        read(raw)

    error = caught.value
    assert (error.path, error.place, error.field) == (Path("chats.jsonl"), "line 3", field)
    assert met in error.met
    assert str(error).startswith(f"chats.jsonl, line 3, {field}: {error.met}; expected ")


@pytest.mark.parametrize("before", [[], [{"role": "user", "content": "x"}], [calling(("a", "f", "")), result("1")]])
def test_a_result_without_an_open_call_is_refused(before: list[Any]):
    with pytest.raises(RecordingFormatError, match="a tool's result without a call"):
        read(*before, result("2", "a"))


@pytest.mark.parametrize("text", ["{", "", "1 2", "[" * 200_000])
def test_text_that_is_no_json_is_refused(text: str):
    with pytest.raises(RecordingFormatError, match="no JSON"):
        parse_json(text, LINE)
