"""Conversations played again: which messages become turns, how they end, and that all that was recorded stands."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.messages import Message, Origin, Role
from agentflex_nb.experiments.chat import Where, read_messages
from agentflex_nb.experiments.recordings import Recording, read_recordings
from agentflex_nb.experiments.replay import ConversationExistsError, Replay, Spoken, parts_of, play
from agentflex_nb.lab import Lab
from agentflex_nb.runtime.runner import AgentRunner
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing import check

ROOT = Path(__file__).parents[2]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*names: str, arguments: str = '{"n": 1}') -> dict[str, Any]:
    listed = [{"id": "call_0", "function": {"name": name, "arguments": arguments}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def gives(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": "call_0"}


def recording(*raw: dict[str, Any], id: str = "c") -> Recording:
    return Recording(id=id, messages=read_messages([(item, Where(Path("x"))) for item in raw], id))


def played(*recordings: Recording) -> tuple[Replay, MemoryStore]:
    store = MemoryStore()
    return play(recordings, AgentRunner(store), progress=False), store


def kept(store: MemoryStore, id: str = "c") -> list[tuple[int | None, str, str]]:
    """What stands in a conversation: the number of its turn, the role, the text."""
    said = store.conversation(id)
    turns = list(dict.fromkeys(turn_id for turn_id, _ in said if turn_id))
    return [(turns.index(turn) if turn else None, _labelled(message), message.content) for turn, message in said]


def _labelled(message: Message) -> str:
    return f"{message.role.value} by the runtime" if message.origin is Origin.RUNTIME else message.role.value


def test_every_answered_message_is_a_turn_of_its_conversation():
    replay, store = played(
        recording(system("Help."), user("a"), says("A"), user("b"), calls("f"), gives("1"), says("B"))
    )

    assert kept(store) == [
        (None, "system", "Help."),
        (0, "user", "a"),
        (0, "assistant", "A"),
        (1, "user", "b"),
        (1, "assistant", ""),
        (1, "tool", "1"),
        (1, "assistant", "B"),
    ]
    assert (replay.turns, replay.tool_calls) == ({"COMPLETED": 2}, 1)
    assert (replay.messages, replay.unchanged, replay.unanswered) == (7, 7, 0)


def test_a_message_that_nobody_answered_stands_without_a_turn():
    replay, store = played(recording(user("a"), user("b"), says("B"), user("c")))

    assert kept(store) == [(None, "user", "a"), (0, "user", "b"), (0, "assistant", "B"), (None, "user", "c")]
    assert (replay.unanswered, replay.unchanged) == (2, 4)


def test_a_conversation_that_stops_at_a_result_ends_failed_with_a_labelled_closing_message():
    """X3."""
    replay, store = played(recording(user("a"), calls("f"), gives("1")))

    *recorded, closing = kept(store)
    assert recorded == [(0, "user", "a"), (0, "assistant", ""), (0, "tool", "1")]
    assert closing[:2] == (0, "assistant by the runtime")
    assert "recording ended: conversation 'c' has no reply after its message 3" in closing[2]
    assert (replay.turns, replay.unchanged) == ({"FAILED": 1}, 3)


def test_a_user_who_speaks_before_the_answer_begins_the_next_turn():
    replay, store = played(recording(user("a"), calls("f"), gives("1"), user("stop"), says("ok")))

    assert [entry[:2] for entry in kept(store)] == [
        (0, "user"),
        (0, "assistant"),
        (0, "tool"),
        (0, "assistant by the runtime"),
        (1, "user"),
        (1, "assistant"),
    ]
    assert (replay.turns, replay.unchanged) == ({"FAILED": 1, "COMPLETED": 1}, 5)


def test_an_assistant_that_begins_and_one_that_goes_on_stand_without_a_turn():
    replay, store = played(recording(says("Hello!"), user("a"), says("A"), says("And?"), user("b"), says("B")))

    assert [turn for turn, *_ in kept(store)] == [None, 0, 0, None, 1, 1]
    assert replay.unchanged == 6


def test_results_come_by_position_where_one_id_names_every_call():
    """K24, T6: parallel calls, and the same call again in the next round."""
    replay, store = played(
        recording(user("a"), calls("f", "f"), gives("1"), gives("2"), calls("f"), gives("3"), says("A"))
    )

    assert [text for _, role, text in kept(store) if role == "tool"] == ["1", "2", "3"]
    assert (replay.tool_calls, replay.unchanged) == (3, 7)


def test_a_call_whose_result_is_missing_fails_its_turn_and_the_rest_stands():
    replay, store = played(recording(user("a"), calls("f", "g"), gives("1"), says("A"), user("b"), says("B")))

    assert [entry[:2] for entry in kept(store)] == [
        (0, "user"),
        (0, "assistant"),
        (0, "tool"),
        (0, "tool"),
        (0, "assistant by the runtime"),
        (None, "assistant"),
        (1, "user"),
        (1, "assistant"),
    ]
    assert "it has no result of this call of g" in kept(store)[3][2]
    assert (replay.turns, replay.unchanged) == ({"FAILED": 1, "COMPLETED": 1}, 6)


def test_a_call_that_is_no_json_is_answered_by_the_runtime_and_counted_as_changed():
    """K07: the tool is not run; the recording's own answer gives way, and the summary says so."""
    broken_call = calls("f", arguments="{half")
    replay, store = played(recording(user("a"), broken_call, gives("bad JSON"), calls("f"), gives("1"), says("A")))

    assert kept(store)[2][2].startswith("Error: the arguments of f are no JSON object: '{half'")
    assert kept(store)[4][2] == "1"
    assert (replay.turns, replay.messages, replay.unchanged) == ({"COMPLETED": 1}, 6, 5)


def test_text_is_played_exactly():
    """K22: also empty answers, odd characters, and more rounds than an agent's usual limit."""
    rounds = [message for n in range(30) for message in (calls("f"), gives(f"\0 {n} \u202e"))]
    replay, _ = played(recording(user(""), says(""), user("\ufeff<b>"), *rounds, says("'; drop table turns; --")))

    assert (replay.turns, replay.tool_calls) == ({"COMPLETED": 2}, 30)
    assert replay.unchanged == replay.messages == 64


def test_the_instructions_are_the_system_messages_at_the_beginning():
    store = MemoryStore()
    runner = AgentRunner(store)
    seen: list[tuple[str, str]] = []
    runner.add_event_listener(lambda event: seen.append((event.turn_id, event.agent_version)))
    play(
        [
            recording(system("A"), user("a"), says("A"), id="1"),
            recording(system("A"), user("b"), says("B"), id="2"),
            recording(system("A"), system("B"), user("c"), says("C"), id="3"),
        ],
        runner,
        progress=False,
    )

    turns = {id: store.conversation(id)[-1][0] or "" for id in "123"}
    versions = dict(seen)
    instructions = {id: store.load(turn).turn.identity.instructions for id, turn in turns.items()}  # type: ignore[union-attr]
    assert instructions == {"1": "A", "2": "A", "3": "A\n\nB"}
    assert versions[turns["1"]] == versions[turns["2"]] != versions[turns["3"]]


def test_a_conversation_that_stands_there_already_is_refused_before_anything_is_played():
    store = MemoryStore()
    play([recording(user("a"), says("A"), id="b")], AgentRunner(store), progress=False)

    with pytest.raises(ConversationExistsError, match="'b' stands in this lab already") as caught:
        play([recording(user("a"), says("A"), id=id) for id in "ab"], AgentRunner(store), progress=False)
    assert caught.value.conversation_id == "b"
    assert store.conversation("a") == []


def test_the_same_id_twice_is_refused():
    with pytest.raises(ConversationExistsError):
        played(recording(user("a"), says("A")), recording(user("b"), says("B")))


def test_a_tool_name_that_no_tool_can_have_is_refused_before_anything_is_played():
    store = MemoryStore()

    with pytest.raises(InvalidAgentError, match="create_task_plan"):
        play([recording(user("a"), calls("create_task_plan"), gives("1"))], AgentRunner(store), progress=False)
    assert store.conversation("c") == []


def test_nothing_is_lost_or_doubled_when_a_conversation_is_taken_apart():
    for conversation in read_recordings(ROOT / "datasets" / "support_chats.jsonl"):
        parts = list(parts_of(conversation.messages))
        begun = [part.message for part in parts if isinstance(part, Spoken)]
        silent = [message for part in parts if isinstance(part, list) for message in part]

        assert all(message.role is Role.USER for message in begun)
        assert [message for message in conversation.messages if message in (*begun, *silent)] == sorted(
            [*begun, *silent], key=conversation.messages.index
        )


def source_of(lab: Lab, id: str) -> list[tuple[str, str]]:
    query = "select role, content from conversations where conversation_id = ? and origin = '' order by position"
    return list(lab.sql(query, [id]).itertuples(index=False, name=None))


def test_the_authored_file_gives_what_its_readme_says(tmp_path: Path):
    """I1 to I7, in SQL."""
    recordings = list(read_recordings(ROOT / "datasets" / "support_chats.jsonl"))
    with Lab(tmp_path / "chats.duckdb", durability="process", display=False) as lab:
        replay = play(recordings, lab.runner, progress=False)

        assert "it gives 13 turns, of which one ends FAILED" in (ROOT / "datasets" / "README.md").read_text("utf-8")
        assert Counter(lab.turns().status) == replay.turns == {"COMPLETED": 12, "FAILED": 1}
        assert len(lab.tool_calls()) == replay.tool_calls == 12
        assert replay.unchanged == replay.messages
        assert [source_of(lab, recording.id) for recording in recordings] == [
            [(message.role.value, message.content) for message in recording.messages] for recording in recordings
        ]
        check(lab)


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("durability", ["process", "power"])
def test_real_conversations_stand_again_message_by_message(data_dir: Path, tmp_path: Path, durability: str):
    """The main job: 200 conversations of a real model, and every invariant, in SQL."""
    recordings = list(read_recordings(data_dir / "taubench_airline_gpt4o_messages.parquet"))
    with Lab(tmp_path / "airline.duckdb", durability=durability, display=False) as lab:
        replay = play(recordings, lab.runner, progress=False)

        assert Counter(lab.turns().status) == replay.turns == {"COMPLETED": 1_290, "FAILED": 51}
        assert len(lab.tool_calls()) == replay.tool_calls == 1_164
        assert (replay.messages, replay.unchanged, replay.unanswered) == (5_308, 5_308, 149)
        assert [source_of(lab, recording.id) for recording in recordings] == [
            [(message.role.value, message.content) for message in recording.messages] for recording in recordings
        ]
        added = lab.sql("select role, count(*) as n from conversations where origin = 'runtime' group by all")
        assert added.to_dict("records") == [{"role": "assistant", "n": 51}]
        alone = lab.sql(
            "select role, count(*) as n from conversations where turn_id is null group by all order by role"
        )
        assert alone.to_dict("records") == [{"role": "system", "n": 200}, {"role": "user", "n": 149}]
        failures = lab.sql("select distinct error_kind from turns where status = 'FAILED'")
        assert list(failures.error_kind) == ["RecordingEndedError"]
        check(lab)
