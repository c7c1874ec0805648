"""What a function is, as a short hash: the same text for the same code, another one when the code changes.

The source, parsed and printed again, where it can be read (comments and layout do not count), together with the values
that it closes over and its defaults; else the code object, which differs between versions of Python. Where neither
exists, the one who wrote it must give a version.

Data is hashed without the fields that have their default: a field that a later version adds changes no hash.
"""

import ast
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..core.errors import InvalidAgentError
from ..core.frozen import freeze
from .syntax import node_of, plain

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(function: Callable[..., Any], what: str) -> str:
    """A hash of what the function does.

    Raises:
        InvalidAgentError: neither source nor code can be read (a partial, a remote tool).
    """
    if (found := plain(function)) is None:
        met = f"{what} is {type(function).__name__}, whose code cannot be read"
        raise InvalidAgentError(met, "a plain function, or a version", "give the tool or the agent a version=")
    return digest(_function(found, ()))


def digest(value: Any) -> str:
    """A hash of JSON-like data and dataclasses, 16 hexadecimal digits, independent of the order of keys."""
    text = json.dumps(freeze(sparse(value)), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def sparse(value: Any) -> Any:
    """The value with every dataclass in it as a dict of those fields that do not have their default.

    1.0 is 1: whether a limit was written with a point changes nothing.
    """
    if is_dataclass(value) and not isinstance(value, type):
        kept = [field for field in fields(value) if getattr(value, field.name) != _default(field)]
        return {field.name: sparse(getattr(value, field.name)) for field in kept}
    if isinstance(value, Mapping):
        return {key: sparse(part) for key, part in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [sparse(part) for part in value] if isinstance(value, list | tuple) else value


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _function(function: FunctionType, above: tuple[FunctionType, ...]) -> Any:
    if function in above:
        return "itself"
    above = (*above, function)
    held = {
        name: _value(cell.cell_contents, above)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        if not _is_empty(cell)
    }
    defaults = [_value(value, above) for value in function.__defaults__ or ()]
    named = {name: _value(value, above) for name, value in (function.__kwdefaults__ or {}).items()}
    return {"code": _code(function.__code__), "held": held, "defaults": defaults, "named defaults": named}


def _code(code: CodeType) -> Any:
    node = node_of(code)
    return ast.unparse(node) if node is not None else _object(code)


def _object(code: CodeType) -> list[Any]:
    constants = [_constant(part) for part in code.co_consts]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount]
    return [code.co_code.hex(), counts, constants, list(code.co_names), list(code.co_varnames)]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _object(value)
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _value(value: Any, above: tuple[FunctionType, ...]) -> Any:
    """A value that the function holds, as text which is the same in every process."""
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        return _function(value, above)
    try:
        return [type(value).__qualname__, _ADDRESS.sub("", json.dumps(freeze(value), sort_keys=True))]
    except Exception:  # whatever a foreign object does when it is looked at, its type remains
        return [type(value).__qualname__]


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
