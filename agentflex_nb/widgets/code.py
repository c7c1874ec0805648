"""The lines of Python that do what a panel's buttons do, in any kernel that has the lab open."""

import json
from collections.abc import Callable, Iterable, Mapping

from .answers import offers
from .items import Asked, View

_NAMES = 4  # names shown of a mapping that somebody has to write


def in_code(view: View, question: Asked) -> tuple[str, ...]:
    """Every way to answer the question, as a line each; the one that goes on comes first."""
    turn = f"lab.restore({view.turn_id!r})"
    which = f"call_id={question.id!r}" if len(view.questions) > 1 else ""
    said = [(verb, words) for verb in offers(question) for words in _SAID[verb](question)]
    lines = [f"{turn}.{_METHODS.get(verb, verb)}({', '.join(filter(None, [words, which]))})" for verb, words in said]
    return tuple(lines) or (turn,)


_METHODS: Mapping[str, str] = {"continue": "continue_"}


def _changed(question: Asked) -> tuple[str, ...]:
    return (f"arguments={_mapping(question.given)}",) if question.given else ()


def _submitted(question: Asked) -> str:
    return '"your answer"' if question.schema is None else _mapping(question.schema.get("properties", {}))


def _mapping(names: Iterable[str]) -> str:
    listed = list(names)
    shown = [f"{json.dumps(name, ensure_ascii=False)}: ..." for name in listed[:_NAMES]]
    return f"{{{', '.join(shown)}{', ...' if len(listed) > _NAMES else ''}}}"


# verb -> what may stand between its brackets, one entry a line
_SAID: Mapping[str, Callable[[Asked], tuple[str, ...]]] = {
    "approve": lambda question: ("", *_changed(question)),
    "reject": lambda question: ('"why"',),
    "submit": lambda question: (_submitted(question),),
    "decline": lambda question: ('"why"',),
    "supply": lambda question: ("...", 'error="what went wrong"'),
    "retry": lambda question: ("",),
    "continue": lambda question: ("",),
}
