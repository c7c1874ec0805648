"""What tools returned: told to the model as text, kept whole, and found again by address.

Rule 1: the text is made once. It is shorter than the value only where the tool says so, or where the value is a table,
whose text is a look at it; then it ends with the address of the whole.
Rule 2: what the model is not shown is kept by the store, in the commit that has the text, if the store can keep it.
Rule 3: this process has the newest values as objects; who changes one, changes it for the next tool.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.errors import ResultNotFoundError
from ..core.events import EventType
from ..core.messages import Role
from ..core.turn import Turn
from ..core.values import PackedValue, address_of, call_id_of, home_of
from .outline import outline
from .ports import AgentTurnStore
from .tools import Tool, is_table, to_text

_RECENT = 32  # values that are at hand as objects
_COMPLETED = (EventType.TOOL_COMPLETED, EventType.EXTERNAL_TOOL_COMPLETED)


class RecentValues:
    """The values that tools returned lately, by call id. Any thread may use it."""

    def __init__(self, most: int = _RECENT) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[str, Any] = OrderedDict()

    def put(self, call_id: str, value: Any) -> None:
        """Remember it; the one that nobody has asked for longest is let go of."""
        with self._lock:
            self._values[call_id] = value
            self._values.move_to_end(call_id)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Let go of all of them."""
        with self._lock:
            self._values.clear()

    def get(self, call_id: str) -> tuple[Any] | None:
        """The value, in a tuple of its own: it may be None itself."""
        with self._lock:
            if call_id not in self._values:
                return None
            self._values.move_to_end(call_id)
            return (self._values[call_id],)


class Told(NamedTuple):
    """A value as the model is told it, and the whole of it where that is more."""

    text: str
    value_type: str
    """The name of its type; "" for text."""
    kept: PackedValue | None = None


class ToolResults:
    """The results of a store's turns."""

    def __init__(self, store: AgentTurnStore, recent: RecentValues) -> None:
        self._store, self._recent = store, recent

    def take(self, call_id: str, value: Any, tool: Tool) -> Told:
        """A tool has returned this value. `summary` and `max_result_chars` of the tool say how much the model sees."""
        kind = "" if type(value) is str else type(value).__name__
        if kind:
            self._recent.put(call_id, value)
        text, whole = _shown(value, tool)
        if whole is None:
            return Told(text, kind)
        if not kind:
            self._recent.put(call_id, value)
        kept = self._store.pack(value)
        where = address_of(call_id) if kept else f"{address_of(call_id)}, as long as this kernel lives"
        return Told(f"{text}\n[{whole} {where}]", kind, kept)

    def find(self, address: str) -> Any:
        """The value that an address, or the id of a call, names.

        Raises:
            ResultNotFoundError: there is none, or only its text was kept; says which.
        """
        call_id = call_id_of(address)
        if (known := self._recent.get(call_id)) is not None:
            return known[0]
        if (packed := self._store.result(call_id)) is not None:
            value = self._store.unpack(packed)
            self._recent.put(call_id, value)
            return value
        return self._read(call_id)

    def _read(self, call_id: str) -> Any:
        """A value that the text tells wholly: the text itself, or what it says as JSON."""
        stored = self._store.load(home_of(call_id))
        messages = stored.turn.messages if stored is not None else ()
        text = next((message.content for message in messages if message.tool_call_id == call_id), None)
        if text is None:
            raise ResultNotFoundError(call_id, "is not in this store", "take an address from a result of this lab")
        kind = self._kind(call_id)
        if not kind:
            return text
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if isinstance(value, str):
            raise ResultNotFoundError(
                call_id, f"was a {kind}, of which only the text was kept", f"read that in the messages: {text[:200]!r}"
            )
        return value

    def _kind(self, call_id: str) -> str:
        for event in self._store.events(home_of(call_id)):
            if event.type in _COMPLETED and event.data["tool_call_id"] == call_id:
                return str(event.data.get("value_type", ""))
        return ""


class Results(Mapping[str, Any]):
    """What the tools of a turn returned, by call id (or address), in the order of the calls."""

    def __init__(self, turn: Turn, find: Callable[[str], Any]) -> None:
        self._ids = tuple([message.tool_call_id for message in turn.messages if message.role is Role.TOOL])
        self._find = find

    def __getitem__(self, address: str) -> Any:
        """The value.

        Raises:
            ResultNotFoundError: a KeyError; there is none, or only its text was kept.
        """
        if (call_id := call_id_of(address)) not in self._ids:
            mend = f"it has: {', '.join(self._ids)}" if self._ids else "it has none yet"
            raise ResultNotFoundError(call_id, "is none of this turn", mend)
        return self._find(call_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"Results({', '.join(self._ids)})"


def _shown(value: Any, tool: Tool) -> tuple[str, str | None]:
    """The text for the model; and, where that is not the whole value, what leads to the address of the whole."""
    bound, text = tool.max_result_chars, _summarised(value, tool)
    if text is not None:
        cut = text[:bound] if bound else text
        return cut, "This is a summary. The whole result is"
    text = to_text(value)
    if bound and len(text) > bound:
        told = outline(value, text, bound)
        if text.startswith(told):
            return told, f"{len(text) - len(told):,} of {len(text):,} characters are not shown. The whole result is"
        return told, "This is an outline. The whole result is"
    return text, "The whole result is" if type(value) is not str and is_table(value) else None


def _summarised(value: Any, tool: Tool) -> str | None:
    if tool.summary is None:
        return None
    try:
        return to_text(tool.summary(value))
    except Exception:  # the tool has done its work: its result is told without a summary
        return None
