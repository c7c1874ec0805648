"""Conditions on JSON data, as data: {"/amount": {">": 50, "<=": 500}, "/currency": "EUR"}.

Rule 1: a condition is looked up in a table and never run as code. Text is matched by wildcards, not by regular
expressions, which a model's text could keep busy for ever.
Rule 2: what cannot be compared (text with a number) is in doubt, which is neither true nor false: `None`. Whoever asks
decides which side is the safe one.
"""

import operator
from collections.abc import Callable, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from .errors import InvalidAgentError
from .frozen import FrozenDict, freeze_strict

Holds = bool | None
"""Whether a condition holds; None: in doubt."""


class _Nothing(Enum):
    """What a pointer finds where nothing is."""

    ABSENT = "ABSENT"


ABSENT = _Nothing.ABSENT


def checked(when: Mapping[str, Any], what: str) -> FrozenDict:
    """The conditions, frozen: JSON pointer -> the value it must have, or {operator: operand, ...}, which all must hold.

    Raises:
        InvalidAgentError: a pointer, an operator or an operand that is none; says which are known.
        InvalidValueError: some part is no JSON.
    """
    if not isinstance(when, Mapping):
        raise InvalidAgentError(f"{what}: when={when!r}", "a mapping from JSON pointers to conditions", "correct it")
    kept: FrozenDict = freeze_strict(dict(when), f"{what}: when")
    for pointer, condition in kept.items():
        _check_pointer(pointer, what)
        if not (tests := _tests(condition)):
            raise InvalidAgentError(f"{what}: {pointer} without a condition", "a value or an operator", "add one")
        for word, operand in tests:
            if word not in _OPERATORS:
                known = ", ".join(_OPERATORS)
                mend = 'write {"==": {...}} for a value that is a mapping' if len(tests) > 1 else "choose one of them"
                raise InvalidAgentError(f"{what}: {pointer} with operator {word!r}", known, mend)
            takes, fits = _OPERANDS.get(word, _ANYTHING)
            if not fits(operand):
                raise InvalidAgentError(f"{what}: {pointer} {word} {operand!r}", takes, "correct the operand")
    return kept


def holds(when: Mapping[str, Any], data: Any) -> Holds:
    """Whether all conditions hold of the data: False as soon as one does not, else None if one is in doubt."""
    found = [
        _OPERATORS[word](value_at(data, pointer), operand)
        for pointer, condition in when.items()
        for word, operand in _tests(condition)
    ]
    return False if False in found else None if None in found else True


def value_at(data: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; ABSENT where it leads nowhere.

    >>> value_at({"lines": [{"price": 7}]}, "/lines/0/price")
    7
    """
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(data, Mapping) and key in data:
            data = data[key]
        elif isinstance(data, list | tuple) and key.isdecimal() and int(key) < len(data):
            data = data[int(key)]
        else:
            return ABSENT
    return data


def _check_pointer(pointer: str, what: str) -> None:
    escapes = pointer.replace("~0", "").replace("~1", "")
    if (pointer and not pointer.startswith("/")) or "~" in escapes:
        mend = 'begin it with "/", and write ~1 for a slash in a name and ~0 for a tilde'
        raise InvalidAgentError(f"{what}: {pointer!r}", 'a JSON pointer such as "/amount"', mend)


def _tests(condition: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(condition.items()) if isinstance(condition, Mapping) else (("==", condition),)


# -- operators ---------------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    """Values of different kinds are never the same, and cannot be ordered."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "mapping" if isinstance(value, Mapping) else "list"


def _is_missing(value: Any) -> bool:
    return value is ABSENT or value is None


def _same(value: Any, operand: Any) -> Holds:
    if _is_missing(value) or operand is None:
        return value is operand
    # "50" may become 50 on its way into a tool: nobody can say here that the two differ
    return bool(value == operand) if _kind(value) == _kind(operand) else None


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Holds]:
    def test(value: Any, operand: Any) -> Holds:
        if _is_missing(value):
            return False
        return compare(value, operand) if _kind(value) == _kind(operand) else None

    return test


def _in(value: Any, operand: Any) -> Holds:
    found = [_same(value, one) for one in operand]
    return True if True in found else None if None in found else False


def _contains(value: Any, operand: Any) -> Holds:
    if _is_missing(value):
        return False
    if isinstance(value, str):
        return operand in value if isinstance(operand, str) else None
    return _in(operand, value) if isinstance(value, list | tuple) else None


def _like(value: Any, operand: Any) -> Holds:
    if _is_missing(value):
        return False
    return fnmatchcase(value.casefold(), operand.casefold()) if isinstance(value, str) else None


def _exists(value: Any, operand: Any) -> Holds:
    return _is_missing(value) is not operand


def _not(test: Callable[[Any, Any], Holds]) -> Callable[[Any, Any], Holds]:
    def negated(value: Any, operand: Any) -> Holds:
        found = test(value, operand)
        return None if found is None else not found

    return negated


# word -> test of (value, operand); what is missing or null is like nothing, equal to nothing, and in no list
_OPERATORS: Mapping[str, Callable[[Any, Any], Holds]] = {
    "==": _same,
    "!=": _not(_same),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _in,
    "not in": _not(_in),
    "contains": _contains,
    "like": _like,
    "not like": _not(_like),
    "exists": _exists,
}

_Fits = Callable[[Any], bool]
_ANYTHING: tuple[str, _Fits] = ("any JSON value", lambda operand: True)
_SIZE: tuple[str, _Fits] = ("a number or text", lambda operand: _kind(operand) in ("number", "text"))
_LIST: tuple[str, _Fits] = ("a list of values", lambda operand: isinstance(operand, tuple))
_PATTERN: tuple[str, _Fits] = ("text with * and ? as wildcards", lambda operand: isinstance(operand, str))

# word -> what it takes
_OPERANDS: Mapping[str, tuple[str, _Fits]] = {
    **dict.fromkeys(("<", "<=", ">", ">="), _SIZE),
    **dict.fromkeys(("in", "not in"), _LIST),
    **dict.fromkeys(("like", "not like"), _PATTERN),
    "exists": ("true or false", lambda operand: isinstance(operand, bool)),
}
