"""What a record of live turns hands to an archive, and how far the archive has taken it.

Rule 1: tables are read in an order in which nothing points at a row that is not there: messages first, heads last.
Rule 2: a cursor belongs to one record (`record_id`): another file numbers its rows anew.
"""

import sqlite3
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class FoldCursor(NamedTuple):
    """The highest row of each table that is folded."""

    journal: int = 0
    messages: int = 0
    turn_messages: int = 0
    conversation_messages: int = 0


@dataclass(slots=True, kw_only=True)
class Unfolded:
    """Rows beyond a cursor, all from one moment, in the order of their commits. Texts are those of the codec."""

    cursor: FoldCursor
    """Where to go on when these rows are folded."""
    complete: bool = True
    """Whether this is all there is; else ask again from the new cursor."""
    messages: list[Row] = field(default_factory=list)
    """(id, hash, body). A message may come again after it was forgotten: its hash tells."""
    turn_messages: list[Row] = field(default_factory=list)
    """(id, turn_id, position, hash, step)"""
    conversation_messages: list[Row] = field(default_factory=list)
    """(id, conversation_id, position, turn_id, hash). Positions count the whole conversation, what is in an archive
    included, if the store was told (`length_of`)."""
    journal: list[Row] = field(default_factory=list)
    """(id, turn_id, version, state, events); version and state are None where only events were saved."""
    results: list[Row] = field(default_factory=list)
    """(tool_call_id, turn_id, media_type, body): the whole values that were saved with these journal rows."""
    heads: list[Row] = field(default_factory=list)
    """(turn_id, version, status, conversation_id, agent_id, agent_version, state, message_count, reserved, logged,
    cancel_requested, created_at, changed): the turns of these journal rows, as they stand after them."""


def read_unfolded(
    connection: sqlite3.Connection, sql: dict[str, str], cursor: FoldCursor, rows: int, text: int
) -> Unfolded:
    """What lies beyond the cursor, at most about `rows` rows and `text` characters of each table."""
    found = Unfolded(cursor=cursor)
    for table in ("messages", "turn_messages", "conversation_messages", "journal"):
        taken = getattr(found, table)
        room = text
        for row in connection.execute(sql[f"{table}_after"], (getattr(cursor, table), rows)):
            taken.append(row)
            room -= sum(len(part) for part in row if type(part) is str)
            if room < 0:
                break
        if taken:
            found.cursor = found.cursor._replace(**{table: taken[-1][0]})
        if room < 0 or len(taken) == rows:
            found.complete = False
            if table != "journal":
                return found  # what points at the rest of this table must wait for it
    found.results = connection.execute(sql["results_of"], (cursor.journal, found.cursor.journal)).fetchall()
    found.heads = connection.execute(sql["heads_of"], (cursor.journal, found.cursor.journal)).fetchall()
    return found
