"""The items of a view, in order: how one is added, replaced, and how text grows at the end."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..core.events import AgentEvent
from .items import BLOCK, ITEMS, LEAST, TURN, Item, Level, Note, Prose, ProseKind, View, brief


def add(view: View, item: Item, at: datetime) -> View:
    """The view with one more item at the end; a text that was growing there has ended."""
    items = (*end_prose(view, at).items, item)
    surplus = max(0, len(items) - ITEMS)
    return replace(view, items=items[surplus:], dropped=view.dropped + surplus)


def put(view: View, item: Item) -> View:
    """The view with the item of the same key replaced; one that was dropped stays away."""
    at = item.key - view.dropped
    return replace(view, items=(*view.items[:at], item, *view.items[at + 1 :])) if at >= 0 else view


def note(view: View, event: AgentEvent, text: str, level: Level = Level.INFO) -> View:
    """The view with a line about this event."""
    return add(view, Note(key=view.next_key, level=level, text=brief(text), at=event.occurred_at), event.occurred_at)


def say(view: View, kind: ProseKind, piece: str, at: datetime) -> View:
    """The view with a piece of text or reasoning more, within the room that its block has."""
    if not piece:
        return view
    last = view.items[-1] if view.items else None
    if not (isinstance(last, Prose) and last.kind is kind and last.ended is None):
        room = min(BLOCK, max(LEAST, TURN - view.shown))
        last = Prose(key=view.next_key, kind=kind, text="", length=0, room=room, began=at)
        view = add(view, last, at)
    more = piece[: last.room - len(last.text)]
    view = put(view, replace(last, text=last.text + more, length=last.length + len(piece)))
    return replace(view, shown=view.shown + len(more))


def end_prose(view: View, at: datetime) -> View:
    """The view with no text growing at its end."""
    last = view.items[-1] if view.items else None
    return put(view, replace(last, ended=at)) if isinstance(last, Prose) and last.ended is None else view


def sentence(error: Mapping[str, Any]) -> str:
    """An error's data in words."""
    return f"{error['kind']}: {error['message']}"


def clock(at: datetime) -> str:
    """A time of day, as it stands in what is saved: a page may be read anywhere.

    >>> clock(datetime.fromisoformat("2026-01-01T12:00:07+00:00"))
    'at 12:00:07 UTC'
    """
    return f"at {at:%H:%M:%S} UTC"
