"""Files of recorded conversations: JSON lines or parquet, one conversation or one message a row.

Rule: what tells conversations apart, and what orders their messages, is said or found by name; an id never comes twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.frozen import EMPTY, FrozenDict, freeze
from ..core.messages import Message
from .chat import MESSAGE_FIELDS, RecordingFormatError, Where, parse_json, read_messages

_IDS = ("id", "conversation_id")  # of a conversation a row
_GROUPS = ("conversation_id", "session_id", "thread_id")  # of a message a row, where "id" would be the message's
_ORDERS = ("order", "position", "message_index", "index")
_LINE = 200  # characters of a text that is kept as a fact about a conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One conversation as it was saved. Its calls have ids of their own; the saved ones are their `provider_id`."""

    id: str
    messages: tuple[Message, ...]
    metadata: FrozenDict = EMPTY
    """The short facts that the file holds beside the messages, for instance task and trial."""
    place: str = ""
    """Where it begins in its file."""


def read_recordings(path: str | Path, *, by: Sequence[str] = ()) -> Iterator[Recording]:
    """The conversations of a file, in its order.

    JSON lines hold one conversation each: a list of messages, or an object with `messages` and perhaps an `id`. A
    parquet file holds a conversation a row, in a column `messages`, or a message a row. `by` names the columns that
    tell the conversations of message rows apart; by default `conversation_id` (or `session_id`, `thread_id`), else all
    columns that no message has. Their messages stand in the order of a column `order` (or `position`, `message_index`,
    `index`), else in that of the rows.

    Raises:
        RecordingFormatError: something is not as described, or an id comes twice; says where.
        OSError: the file cannot be opened.
    """
    path = Path(path)
    seen: dict[str, str] = {}
    for recording in _parquet(path, by) if path.suffix == ".parquet" else _json_lines(path):
        if recording.id in seen:
            where = Where(path, recording.place, "id")
            raise where.error(f"{recording.id!r} comes again, after {seen[recording.id]}", "an id a conversation")
        seen[recording.id] = recording.place
        yield recording


def _json_lines(path: Path) -> Iterator[Recording]:
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = Where(path, f"line {number}")
                    yield _conversation(parse_json(line, where), where)
    except UnicodeDecodeError as error:
        raise RecordingFormatError(path, f"after line {number}", "", str(error), "text in UTF-8") from error


def _conversation(raw: Any, where: Where) -> Recording:
    given = raw if isinstance(raw, Mapping) else {"messages": raw}
    messages, within = given.get("messages"), where.at("messages")
    if isinstance(messages, str):
        messages = parse_json(messages, within)
    if not isinstance(messages, list):
        met = f"a {type(messages).__name__}" if "messages" in given else f"only {', '.join(given) or 'nothing'}"
        raise within.error(met, "a conversation: a list of messages, or an object with one in `messages`")
    named = next((given[name] for name in _IDS if given.get(name) is not None), None)
    id = f"{where.path.stem}-{where.place.split()[-1]}" if named is None else str(named)
    facts = {key: value for key, value in given.items() if key != "messages" and _is_fact(value)}
    return Recording(
        id=id,
        messages=read_messages([(item, within.at(n)) for n, item in enumerate(messages)], id),
        metadata=freeze(facts),
        place=where.place,
    )


def _parquet(path: Path, by: Sequence[str]) -> Iterator[Recording]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()  # read_table would load pandas
    except pyarrow.ArrowInvalid as error:
        raise Where(path).error(str(error), "a parquet file") from error
    rows = [(row, Where(path, f"row {number}")) for number, row in enumerate(table.to_pylist(), 1)]
    names = table.column_names
    if "messages" in names:
        yield from (_conversation(row, where) for row, where in rows)
    elif "role" in names:
        yield from _grouped(rows, names, by or _telling_apart(names))
    else:
        raise Where(path).error(f"columns {', '.join(names)}", "a column messages, or columns role and content")


def _telling_apart(names: Sequence[str]) -> Sequence[str]:
    known = [name for name in _GROUPS if name in names]
    return known[:1] or [name for name in names if name not in (*MESSAGE_FIELDS, *_ORDERS)]


_Row = tuple[dict[str, Any], Where]


def _grouped(rows: Sequence[_Row], names: Sequence[str], by: Sequence[str]) -> Iterator[Recording]:
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for row, where in rows:
        if missing := [name for name in by if row.get(name) is None]:
            raise where.at(missing[0]).error("nothing", f"a value; the columns are {', '.join(names)}")
        groups.setdefault(tuple([row[name] for name in by]), []).append((row, where))
    order = next((name for name in _ORDERS if name in names), None)
    fields = [name for name in names if name in MESSAGE_FIELDS]
    for key, members in groups.items():
        if order is not None:
            members = _sorted(members, order)
        facts = dict(zip(by, key, strict=True))
        id = str(key[0]) if len(key) == 1 else "/".join(f"{name}={value}" for name, value in facts.items())
        yield Recording(
            id=id or members[0][1].path.stem,
            messages=read_messages([({name: row[name] for name in fields}, where) for row, where in members], id),
            metadata=freeze(facts),
            place=members[0][1].place,
        )


def _sorted(members: Sequence[_Row], order: str) -> list[_Row]:
    ranks: dict[Any, str] = {}
    for row, where in members:
        rank = row[order]
        if not isinstance(rank, int | float) or rank in ranks:
            met = f"{rank!r}, as in {ranks[rank]}" if rank in ranks else f"{rank!r}"
            raise where.at(order).error(met, "a number, and another one for each message of the conversation")
        ranks[rank] = where.place
    return sorted(members, key=lambda member: member[0][order])


def _is_fact(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LINE)
