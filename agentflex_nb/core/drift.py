"""What a version of an agent is, part by part, and in which parts two versions differ.

Rule 1: under a given version, any difference is drift; a version that is a content hash simply is another one.
Rule 2: code is compared by its hash. Its text is for people: layout and comments may differ without being told.
Rule 3: middlewares are on record, but no part of a version: another one makes no other version, and is no drift.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .agent import AgentDefinition
from .frozen import FrozenDict, freeze

UNREADABLE = "unreadable"
"""Stands for the hash of code that cannot be read: it counts as the same everywhere."""

_LINES = 12  # lines of a difference between two texts that are told
_SHOWN = 200  # characters of a value that are told


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """A piece of code that belongs to an agent."""

    part: str
    """To which part of it: "tool refund", "approval policy", "middleware Redact"."""
    role: str = "source"
    """What it is there: "source", or "approval" for the function that judges a tool's calls."""
    name: str
    module: str
    code: str
    """A hash of what it does, or the version that stands for it; "" where it counts for nothing."""
    text: str = ""
    """As it was written, where that can be read."""

    @property
    def pointer(self) -> str:
        """Where it stands in its part."""
        return f"/{self.role}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """What is kept of a version: enough to show, months later, what ran."""

    definition: AgentDefinition
    sources: tuple[AgentSource, ...] = ()
    fingerprint: str
    """A hash of definition and code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDifference:
    """One thing in which an agent is not what it was."""

    part: str
    """"instructions", "model", "tool refund", "form seats", "execution policy", "approval policy", "definition"."""
    pointer: str = ""
    """Where in that part, as a JSON pointer; "" for all of it."""
    known: Any = None
    """What was there; None for nothing."""
    met: Any = None
    """What is there; None for nothing."""
    why: str = ""
    """In words, where two values do not say it."""

    def __str__(self) -> str:
        where = f"{self.part} {self.pointer}" if self.pointer else self.part
        if self.why:
            return f"{where}: {self.why}"
        if self.known is None or self.met is None:
            verb, value = ("added", self.met) if self.known is None else ("removed", self.known)
            return f"{where} {verb}: {_short(value)}" if self.pointer else f"{where} {verb}"
        if isinstance(self.known, str) and isinstance(self.met, str) and "\n" in self.known + self.met:
            return f"{where} changed:\n{_diff(self.known, self.met)}"
        return f"{where}: {_short(self.known)} -> {_short(self.met)}"


def differences(known: AgentRecord, met: AgentRecord) -> tuple[AgentDifference, ...]:
    """In what two records differ, part by part."""
    before, after = _parts(known.definition), _parts(met.definition)
    found = [
        difference
        for part in {**before, **after}
        for difference in _between(part, "", before.get(part), after.get(part))
    ]
    whole = {difference.part for difference in found if not difference.pointer}
    found += [difference for difference in _of_code(known, met) if difference.part not in whole]
    return tuple(found)


def listing(record: AgentRecord) -> str:
    """The record as text for people: every part with all its fields, and the source of its code."""
    sources: dict[str, list[AgentSource]] = {}
    for source in record.sources:
        sources.setdefault(source.part, []).append(source)
    parts = _parts(record.definition)
    lines = [f"agent {record.definition.id}", *_block(f"version {record.definition.version}")]
    for part in {**parts, **sources}:
        lines += ["", part, *_fields(parts.get(part, FrozenDict()))]
        for source in sources.get(part, ()):
            lines += _block(f"{source.role} ({'.'.join(filter(None, (source.module, source.name)))})")
            lines += _block(source.text or f"<not to be read; {source.code}>", depth=2)
    return "\n".join(lines) + "\n"


def listing_diff(known: AgentRecord, met: AgentRecord) -> str:
    """A unified diff of two listings; "" where they are the same."""
    before, after = listing(known).splitlines(), listing(met).splitlines()
    old, new = (f"{record.definition.id} {record.definition.version}" for record in (known, met))
    lines = list(difflib.unified_diff(before, after, old, new, lineterm=""))
    return "\n".join(lines) + "\n" if lines else ""


def _parts(definition: AgentDefinition) -> dict[str, Any]:
    """The definition as data, under the names of its parts. A field that no name below takes is in "definition"."""
    data = dict(freeze(definition))
    tools, forms, policy = (data.pop(name) for name in ("tools", "forms", "execution_policy"))
    parts = {
        "instructions": data.pop("instructions"),
        "model": FrozenDict(name=data.pop("model_name"), options=data.pop("model_options")),
        "execution policy": policy,
    }
    parts |= {f"tool {tool['name']}": tool for tool in tools} | {f"form {form['key']}": form for form in forms}
    parts["definition"] = FrozenDict({name: data[name] for name in data if name not in ("id", "version")})
    return parts


def _between(part: str, pointer: str, known: Any, met: Any) -> Iterator[AgentDifference]:
    if isinstance(known, Mapping) and isinstance(met, Mapping):
        for name in {**known, **met}:
            below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _between(part, below, known.get(name), met.get(name))
    elif known != met or type(known) is not type(met):
        yield AgentDifference(part=part, pointer=pointer, known=known, met=met)


def _of_code(known: AgentRecord, met: AgentRecord) -> Iterator[AgentDifference]:
    before = {(source.part, source.pointer): source for source in known.sources if source.code}
    after = {(source.part, source.pointer): source for source in met.sources if source.code}
    for part, pointer in {**before, **after}:
        old, new = before.get((part, pointer)), after.get((part, pointer))
        if old is None or new is None or old.code == new.code:
            only = old or new
            if only and (old is None or new is None):
                values = {"known" if old else "met": only.text or only.code}
                yield AgentDifference(part=part, pointer=pointer, **values)
        elif old.text and new.text and old.text != new.text:
            yield AgentDifference(part=part, pointer=pointer, known=old.text, met=new.text)
        else:
            why = "its text is the same, but not what it holds" if old.text == new.text != "" else "other code"
            yield AgentDifference(part=part, pointer=pointer, known=old.code, met=new.code, why=why)


def _fields(value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield from _block(value if isinstance(value, str) else _json(value))
        return
    for name, part in value.items():
        text = part if isinstance(part, str) else _json(part)
        if "\n" in text:
            yield from _block(f"{name}:")
            yield from _block(text, depth=2)
        else:
            yield from _block(f"{name}: {text}")


def _block(text: str, depth: int = 1) -> list[str]:
    return [f"{'    ' * depth}{line}".rstrip() for line in text.splitlines()]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2 if value and isinstance(value, Mapping) else None, ensure_ascii=False)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _diff(known: str, met: str) -> str:
    lines = list(difflib.unified_diff(known.splitlines(), met.splitlines(), lineterm="", n=1))[2:]
    more = [f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return "\n".join(f"    {line}" for line in [*lines[:_LINES], *more])
