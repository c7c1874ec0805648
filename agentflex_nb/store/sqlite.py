"""The record of live turns in one SQLite file.

Rule 1: a commit is one transaction: the head (compare-and-set), one journal row with all its events, new messages.
Rule 2: every change of a head has a journal row, whose id the head bears (`changed`): one number orders everything.
Rule 3: text is made before the file's lock is taken, and understood after it is let go.
"""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import ConversationBusyError, StoreDamagedError, TurnNotFoundError, VersionConflictError
from ..core.events import AgentEvent
from ..core.frozen import changed
from ..core.machine import AgentStatus
from ..core.messages import Message
from ..core.turn import Turn
from ..core.values import PackedValue
from ..runtime.ports import StoredTurn
from .codec import (
    Body,
    decode_answer,
    decode_events,
    decode_message,
    decode_turn,
    encode_answer,
    encode_events,
    encode_message,
    encode_turn,
)
from .shapes import microseconds
from .sqlite_file import Durability, SqliteFile
from .unfolded import FoldCursor, Unfolded, read_unfolded
from .values import pack, unpack

_HERE = Path(__file__).parent
_MIGRATIONS = tuple((_HERE / f"sqlite_schema_{version}.sql").read_text("utf-8") for version in (1, 2))
_NAMED = re.split(r"^-- name: (\w+)\n", (_HERE / "sqlite.sql").read_text("utf-8"), flags=re.MULTILINE)[1:]
_SQL = dict(zip(_NAMED[::2], _NAMED[1::2], strict=True))

_SWEEP_AFTER = 1_000  # new messages, at least, between two sweeps for those that no turn uses any more


class SqliteStore:
    """Implements AgentTurnStore. Many threads and processes may use one file, each process with a store of its own."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: Durability = "power",
        *,
        length_of: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """Open the record at this path, or begin one.

        `durability` says what an acknowledged commit survives: "power" a power cut, "process" the end of the process
        only, at a tenth of the price. `length_of` is asked when the file meets a conversation for the first time: how
        many messages of it lie elsewhere, in an archive. Its next message has that number as its position.

        Raises:
            NewerFormatError: a newer version of this package wrote the file.
            StoreDamagedError: the file is no such record, or cannot be read.
            StoreError: it cannot be opened.
        """
        self._file = SqliteFile(path, durability, _MIGRATIONS)
        self._counts: dict[str, _Counts] = {}
        self._length_of = length_of
        self._forgotten = FoldCursor()
        self._swept, self._kept = 0, 0  # up to which message was swept, and how many were left
        with self._file.read() as connection:
            self.record_id = str(connection.execute(_SQL["record_id"]).fetchone()[0])
        """Names this file's numbering: a cursor of one record says nothing about another."""

    # -- the record ----------------------------------------------------------------------------------------------------

    def load(self, turn_id: str) -> StoredTurn | None:
        with self._file.read() as connection:
            rows = _turns(connection, "head", turn_id)
        return _stored(*rows[0]) if rows else None

    def find(self, statuses: Sequence[AgentStatus]) -> list[StoredTurn]:
        with self._file.read() as connection:
            rows = _turns(connection, "find", json.dumps([str(status) for status in statuses]))
        return [_stored(*row) for row in rows]

    def commit(
        self,
        turn: Turn,
        events: Sequence[AgentEvent],
        *,
        expected: int,
        reserved: int,
        results: Sequence[tuple[str, PackedValue]] = (),
    ) -> None:
        turn_id, identity, status = turn.id, turn.identity, turn.status
        state, instructions = encode_turn(_without_answers(turn))
        told, last = encode_events(events), events[-1].sequence if events else 0
        (_, first, answered), count = self._count(turn_id, expected), len(turn.messages)
        bodies = [encode_message(message) for message in turn.messages[first:]]
        places = [(turn_id, first + n, body.hash, turn.step_count) for n, body in enumerate(bodies)]
        kept = [*bodies, instructions] if instructions and (expected < 0 or turn.migrations) else bodies
        answers = [(turn_id, answered + n, encode_answer(answer)) for n, answer in enumerate(turn.answers[answered:])]
        opens, conversation, ended = expected < 0, identity.conversation_id, status.is_terminal
        elsewhere = self._elsewhere(conversation) if ended and conversation is not None else 0

        def save(connection: sqlite3.Connection) -> None:
            execute = connection.execute
            found = execute(_SQL["version"], (turn_id,)).fetchone()
            if (found[0] if found else -1) != expected:
                raise VersionConflictError(turn_id, expected, found[0] if found else None)
            if opens and conversation is not None:
                active = [row[0] for row in execute(_SQL["active_turns"], (conversation,))]
                if active:
                    raise ConversationBusyError(conversation, active)
            previous, logged = (found[2], max(last, found[3])) if found else (None, last)
            row = execute(_SQL["log"], (turn_id, turn.version, previous, logged, state, told)).lastrowid
            if opens:
                execute(_SQL["open_head"], _head(turn, instructions, reserved, logged, 0, row))
            else:
                moved = (turn.version, status._value_, ended, count, reserved, logged, row, row, turn_id)
                execute(_SQL["move_head"], moved)
            if turn.migrations:  # what else never changes about a head
                named = instructions.hash if instructions else None
                execute(_SQL["migrate_head"], (identity.agent_version, named, turn_id))
            if kept:
                connection.executemany(_SQL["keep_message"], kept)
                connection.executemany(_SQL["add_turn_message"], places)
            if answers:
                connection.executemany(_SQL["add_answer"], answers)
            if results:
                whole = [(call_id, row, turn_id, value.media_type, value.data) for call_id, value in results]
                connection.executemany(_SQL["keep_result"], whole)
            if ended and conversation is not None and not (found and found[1]):
                said = count - identity.attached
                length = _lengthen(connection, conversation, elsewhere, said)
                execute(_SQL["project"], (conversation, length, turn_id, identity.attached))

        self._file.write(save)
        if ended:
            self._counts.pop(turn_id, None)
        else:
            self._counts[turn_id] = _Counts(turn.version, count, len(turn.answers))

    def append(self, turn_id: str, events: Sequence[AgentEvent], *, reserved: int) -> None:
        told, last = encode_events(events), events[-1].sequence if events else 0

        def save(connection: sqlite3.Connection) -> None:
            found = connection.execute(_SQL["version"], (turn_id,)).fetchone()
            if found is None:
                raise TurnNotFoundError(turn_id)
            logged = max(last, found[3])
            row = connection.execute(_SQL["log"], (turn_id, None, found[2], logged, None, told)).lastrowid
            connection.execute(_SQL["log_head"], (reserved, logged, row, turn_id))

        self._file.write(save)

    def request_cancel(self, turn_id: str) -> bool:
        def save(connection: sqlite3.Connection) -> bool:
            found = connection.execute(_SQL["cancel_requested"], (turn_id,)).fetchone()
            if found is None:
                raise TurnNotFoundError(turn_id)
            if found[0]:
                return False
            row = connection.execute(_SQL["log"], (turn_id, None, found[1], found[2], None, "[]")).lastrowid
            connection.execute(_SQL["raise_cancel"], (row, turn_id))
            return True

        return self._file.write(save)

    def is_cancel_requested(self, turn_id: str) -> bool:
        with self._file.read() as connection:
            found = connection.execute(_SQL["cancel_requested"], (turn_id,)).fetchone()
        return bool(found and found[0])

    def events(self, turn_id: str, *, after: int = 0) -> list[AgentEvent]:
        with self._file.read() as connection:
            rows = connection.execute(_SQL["events"], (turn_id, after)).fetchall()
        return [event for (text,) in rows for event in decode_events(text) if event.sequence > after]

    def active_turns(self, conversation_id: str) -> list[str]:
        with self._file.read() as connection:
            return [row[0] for row in connection.execute(_SQL["active_turns"], (conversation_id,))]

    def conversation(self, conversation_id: str) -> list[tuple[str | None, Message]]:
        return [(turn_id, message) for _, turn_id, message in self.said(conversation_id)]

    def remember(self, conversation_id: str, messages: Sequence[Message]) -> None:
        bodies = [encode_message(message) for message in messages]
        elsewhere = self._elsewhere(conversation_id)

        def save(connection: sqlite3.Connection) -> None:
            length = _lengthen(connection, conversation_id, elsewhere, len(bodies))
            places = [(conversation_id, length + n, body.hash) for n, body in enumerate(bodies)]
            connection.executemany(_SQL["keep_message"], bodies)
            connection.executemany(_SQL["remember"], places)

        self._file.write(save)

    def result(self, call_id: str) -> PackedValue | None:
        with self._file.read() as connection:
            found = connection.execute(_SQL["result"], (call_id,)).fetchone()
        return PackedValue(*found) if found else None

    def pack(self, value: Any) -> PackedValue | None:
        return pack(value)

    def unpack(self, packed: PackedValue) -> Any:
        return unpack(packed)

    def close(self) -> None:
        self._file.close()

    # -- for the archive -----------------------------------------------------------------------------------------------

    def said(self, conversation_id: str) -> list[tuple[int, str | None, Message]]:
        """What lies here of a conversation, in order: position, turn, message."""
        with self._file.read() as connection:
            rows = connection.execute(_SQL["conversation"], (conversation_id,)).fetchall()
        return [(position, turn_id, decode_message(body)) for position, turn_id, body in rows]

    def unfolded(self, cursor: FoldCursor, *, rows: int = 50_000, text: int = 50_000_000) -> Unfolded:
        """What lies beyond the cursor, at most about `rows` rows and `text` characters of each table."""
        with self._file.read() as connection:
            return read_unfolded(connection, _SQL, cursor, rows, text)

    def reach(self) -> tuple[int, int]:
        """The journal row up to which this file has let go, and the newest row that it ever had."""
        with self._file.read() as connection:
            forgotten, newest = connection.execute(_SQL["reach"]).fetchone()
        return forgotten, newest

    def forget(self, cursor: FoldCursor) -> None:
        """Let go of what an archive has up to this cursor: journal, conversations, and the turns that have ended.

        A turn that has not ended keeps its head and its messages.
        """

        before, self._forgotten = self._forgotten, cursor
        if cursor == before:
            return

        def drop(connection: sqlite3.Connection) -> None:
            connection.execute(_SQL["note_forgotten"], (str(cursor.journal),))
            connection.execute(_SQL["forget_turn_messages"], (before.journal, cursor.journal, cursor.turn_messages))
            connection.execute(_SQL["forget_answers"], (before.journal, cursor.journal))
            connection.execute(_SQL["forget_results"], (cursor.journal,))
            connection.execute(_SQL["forget_heads"], (before.journal, cursor.journal))
            connection.execute(_SQL["forget_journal"], (cursor.journal,))
            connection.execute(_SQL["forget_conversations"], (cursor.conversation_messages,))
            if cursor.messages - self._swept > max(self._kept, _SWEEP_AFTER):
                connection.execute(_SQL["forget_messages"], (cursor.messages,))
                self._swept = cursor.messages
                self._kept = connection.execute(_SQL["count_messages"]).fetchone()[0]

        self._file.write(drop)

    def import_turn(self, stored: StoredTurn) -> bool:
        """Take a turn back from an archive as it was. It counts as folded: no cursor will meet it until it changes.

        False, and nothing is done, if the turn is here already.
        """
        turn = stored.turn
        state, instructions = encode_turn(_without_answers(turn))
        bodies = [encode_message(message) for message in turn.messages]
        answers = [(turn.id, n, encode_answer(answer)) for n, answer in enumerate(turn.answers)]
        places = [(turn.id, n, body.hash, turn.step_count) for n, body in enumerate(bodies)]

        def save(connection: sqlite3.Connection) -> bool:
            if connection.execute(_SQL["version"], (turn.id,)).fetchone():
                return False
            row = connection.execute(_SQL["import_state"], (turn.id, turn.version, state)).lastrowid
            head = _head(turn, instructions, stored.reserved, stored.logged, stored.cancel_requested, row)
            connection.execute(_SQL["open_head"], head)
            connection.executemany(_SQL["import_message"], [*bodies, *([instructions] if instructions else [])])
            connection.executemany(_SQL["import_turn_message"], places)
            connection.executemany(_SQL["add_answer"], answers)
            return True

        return self._file.write(save)

    def _count(self, turn_id: str, version: int) -> "_Counts":
        """What is stored with this version of a turn: that never changes once it is committed."""
        known = self._counts.get(turn_id)
        if known and known.version == version:
            return known
        if version < 0:
            return _Counts(version, 0, 0)
        with self._file.read() as connection:
            found = connection.execute(_SQL["message_count"], (turn_id, version)).fetchone()
            answers = connection.execute(_SQL["answer_count"], (turn_id,)).fetchone()[0]
        return _Counts(version, int(found[0]) if found else 0, answers)

    def _elsewhere(self, conversation_id: str) -> int:
        """How long a conversation is that this file has never met; 0 for one that it knows."""
        with self._file.read() as connection:
            known = connection.execute(_SQL["length"], (conversation_id,)).fetchone()
        return 0 if known else self._length_of(conversation_id)


class _Counts(NamedTuple):
    """How many messages and answers are stored with a version of a turn."""

    version: int
    messages: int
    answers: int


def _without_answers(turn: Turn) -> Turn:
    return changed(turn, answers=()) if turn.answers else turn


def _lengthen(connection: sqlite3.Connection, conversation_id: str, elsewhere: int, more: int) -> int:
    """Make room for more messages; how many there were before."""
    known = connection.execute(_SQL["length"], (conversation_id,)).fetchone()
    connection.execute(_SQL["lengthen"], (conversation_id, elsewhere, more))
    return int(known[0]) if known else elsewhere


def _head(
    turn: Turn, instructions: Body | None, reserved: int, logged: int, cancel: int, row: int | None
) -> tuple[Any, ...]:
    """A new head, saved and changed by this journal row."""
    identity = turn.identity
    return (
        turn.id, turn.version, turn.status._value_, turn.status.is_terminal, identity.conversation_id,
        identity.agent_id, identity.agent_version, len(turn.messages), reserved, logged, cancel,
        microseconds(identity.created_at), row, row, instructions.hash if instructions else None,
    )  # fmt: skip


def _turns(connection: sqlite3.Connection, name: str, key: str) -> list[tuple[Any, ...]]:
    """Heads, each with the text of its instructions and the texts of its messages and answers."""
    heads = connection.execute(_SQL[name], (key,)).fetchall()
    return [
        (
            *head,
            [row[0] for row in connection.execute(_SQL["turn_messages"], (head[0],))],
            [row[0] for row in connection.execute(_SQL["answers"], (head[0],))],
        )
        for head in heads
    ]


def _stored(
    turn_id: str,
    state: str,
    count: int,
    cancel: int,
    reserved: int,
    logged: int,
    instructions: str | None,
    texts: Sequence[str],
    answers: Sequence[str],
) -> StoredTurn:
    if len(texts) != count:
        mend = "keep a copy of the file and restore the last good one"
        raise StoreDamagedError(f"turn {turn_id}", f"{len(texts)} of its {count} messages are there", mend)
    turn = decode_turn(state, [decode_message(text) for text in texts], lambda _: instructions)
    if answers:  # else they stand in the state, if an earlier version wrote it
        turn = changed(turn, answers=tuple([decode_answer(text) for text in answers]))
    return StoredTurn(turn=turn, cancel_requested=bool(cancel), reserved=reserved, logged=logged)
