"""What a function is, as a short hash: the same text for the same code, another one when the code changes.

The source, parsed and printed again, where it can be read (comments and layout do not count), together with the values
that it closes over; else the code object. Where neither exists, the one who wrote it must give a version.
"""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..core.errors import InvalidAgentError
from ..core.frozen import freeze


def fingerprint(function: Callable[..., Any], what: str) -> str:
    """A hash of what the function does.

    Raises:
        InvalidAgentError: neither source nor code can be read (a partial, a remote tool).
    """
    inner: Any = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(inner, FunctionType):
        inner = getattr(type(function), "__call__", None)
        if not isinstance(inner, FunctionType):
            met = f"{what} is {type(function).__name__}, whose code cannot be read"
            raise InvalidAgentError(met, "a plain function, or a version", "give the tool or the agent a version=")
    held = {
        name: _value(cell.cell_contents)
        for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=False)
        if not _is_empty(cell)
    }
    return digest({"code": _code(inner), "held": held, "defaults": _value(inner.__defaults__)})


def digest(value: Any) -> str:
    """A hash of JSON-like data, 16 hexadecimal digits, independent of the order of keys."""
    text = json.dumps(freeze(value), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _code(function: FunctionType) -> Any:
    try:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, made by exec, a lambda in the middle of a line
        return _object(function.__code__)


def _object(code: CodeType) -> list[Any]:
    constants = [_object(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names), list(code.co_varnames)]


def _value(value: Any) -> Any:
    if isinstance(value, FunctionType):
        return _code(value)
    text = repr(value)
    return f"{type(value).__module__}.{type(value).__qualname__}" if " at 0x" in text else text


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
