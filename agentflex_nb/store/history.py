"""What an archive knows of turns, as values of the core: the way back from tables.

Rule 1: whatever was folded comes back equal to what was saved: the texts that the codec reads are made from columns.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from ..core.events import AgentEvent
from ..core.frozen import changed
from ..core.machine import AgentStatus
from ..core.messages import Message
from ..core.turn import Answer, Turn
from ..core.values import PackedValue
from ..runtime.ports import StoredTurn
from .archive import Archive, sql
from .codec import decode_answer, decode_events, decode_message, decode_turn
from .shapes import moment

# the columns of table messages that stand in a message's text, and whether they are JSON there already
_TEXT = {
    "role": False, "content": False, "reasoning": False, "tool_calls": True, "tool_call_id": False, "tool_name": False,
    "origin": False, "provider_data": True,
}  # fmt: skip


def load(archive: Archive, turn_ids: Sequence[str]) -> list[StoredTurn]:
    """The newest states of these turns, as far as the archive has them, oldest first.

    Raises:
        StoreDamagedError: a state or a message is not understood.
    """
    heads = archive.rows(sql("read_turns"), {"turns": list(turn_ids)})
    messages = _messages(archive, turn_ids) if heads else {}
    body = _bodies(archive, [state for _, state, *_ in heads])
    answers = _answers(archive, turn_ids) if heads else {}
    return [
        StoredTurn(
            turn=_answered(decode_turn(state, messages.get(turn_id, ()), body), answers.get(turn_id, ())),
            cancel_requested=bool(cancel),
            reserved=reserved or 0,
            logged=logged,
        )
        for turn_id, state, cancel, reserved, logged, _ in heads
    ]


def at_replies(archive: Archive, turn_ids: Sequence[str]) -> dict[tuple[str, int], Turn]:
    """These turns as each was saved next after a reply with calls, by turn and step; the reply is its last message.

    Raises:
        StoreDamagedError: a state or a message is not understood.
    """
    found = archive.rows(sql("read_states_at_replies"), {"turns": list(turn_ids)})
    messages = _messages(archive, turn_ids) if found else {}
    body = _bodies(archive, [state for *_, state in found])
    answers = _answers(archive, turn_ids) if found else {}
    return {
        (turn_id, step): _answered(
            decode_turn(state, messages[turn_id][: position + 1], body),
            tuple(answer for answer in answers.get(turn_id, ()) if answer.at <= moment(replied_at)),
        )
        for turn_id, step, position, replied_at, state in found
    }


def _messages(archive: Archive, turn_ids: Sequence[str]) -> dict[str, list[Message]]:
    used = archive.rows(sql("read_turn_messages"), {"turns": list(turn_ids)})
    return {id: [decode_message(_text(row[1:])) for row in rows] for id, rows in groupby(used, lambda row: row[0])}


def _bodies(archive: Archive, states: Iterable[str]) -> Callable[[str], str | None]:
    """The texts of the instructions that these states name, by their hash."""
    named = {json.loads(state)["identity"].get("instructions", "") for state in states} - {""}
    found = archive.rows(sql("read_messages"), {"hashes": sorted(named)}) if named else []
    texts: dict[str, str] = {row[0]: _text(row[1:]) for row in found}
    return texts.get


_ANSWER = ("command_type", "reason", "data", "metadata")


def _answers(archive: Archive, turn_ids: Sequence[str]) -> dict[str, tuple[Answer, ...]]:
    """The answers of these turns: the log has them, the states do not."""
    found: dict[str, tuple[Answer, ...]] = {}
    for turn_id, at, text in archive.rows(sql("read_answers"), {"turns": list(turn_ids)}):
        told = json.loads(text)
        kept = {
            name: told[name] for name in ("command_type", "reason", "data", "metadata") if told.get(name) is not None
        }
        for question_id in told.get("resolved") or [told["correlation_id"]]:
            answer = decode_answer(json.dumps({**kept, "question_id": question_id, "at": at}))
            found[turn_id] = (*found.get(turn_id, ()), answer)
    return found


def _answered(turn: Turn, answers: tuple[Answer, ...]) -> Turn:
    return turn if turn.answers else changed(turn, answers=answers)  # an earlier version has them in the state


def find(archive: Archive, statuses: Iterable[AgentStatus]) -> list[StoredTurn]:
    """The turns in one of these statuses, oldest first."""
    words = [str(status) for status in statuses]
    found = archive.rows("select turn_id from turns where status in (select unnest($words))", {"words": words})
    return load(archive, [turn_id for (turn_id,) in found])


def unfinished(archive: Archive) -> list[StoredTurn]:
    """The turns that have not ended, oldest first."""
    return find(archive, [status for status in AgentStatus if not status.is_terminal])


def events(archive: Archive, turn_id: str, after: int = 0) -> list[AgentEvent]:
    """The turn's events with a number above `after`, in order."""
    rows = archive.rows(sql("read_events"), {"turn": turn_id, "after": after})
    return decode_events(f"[{','.join(map(_event_text, rows))}]") if rows else []


def said(archive: Archive, conversation_id: str, before: int | None = None) -> list[tuple[int, str | None, Message]]:
    """What the archive has of a conversation, in order, up to a position: position, turn, message."""
    rows = archive.rows(sql("read_conversation"), {"conversation": conversation_id, "before": before})
    return [(row[0], row[1], decode_message(_text(row[2:]))) for row in rows]


def result(archive: Archive, call_id: str) -> PackedValue | None:
    """The whole value that a call returned, if it was kept."""
    rows = archive.rows("select media_type, body from kept_results where tool_call_id = $call", {"call": call_id})
    return PackedValue(*rows[0]) if rows else None


def length_of(archive: Archive, conversation_id: str) -> int:
    """How many messages of a conversation the archive has."""
    count = "select count(*) from conversation_messages where conversation_id = $conversation"
    return int(archive.rows(count, {"conversation": conversation_id})[0][0])


def _text(row: Sequence[Any]) -> str:
    """The text of a message, from a row of table messages without its hash."""
    *columns, body = row
    if body is not None:
        return str(body)
    parts = [
        f'"{name}":{part if is_json else json.dumps(part)}'
        for (name, is_json), part in zip(_TEXT.items(), columns, strict=False)
        if part is not None and part != ""
    ]
    return f"{{{','.join(parts)}}}"


_EVENT = ("turn_id", "root_turn_id", "parent_turn_id", "agent_id", "agent_version", "sequence", "type", "occurred_at")


def _event_text(row: Sequence[Any]) -> str:
    parts = [f'"{name}":{json.dumps(part)}' for name, part in zip(_EVENT, row, strict=False)]
    return f'{{{",".join(parts)},"data":{row[-1]}}}'
