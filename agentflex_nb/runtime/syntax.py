"""The source of a function, found again: as a tree, which prints the same again, and as it was written.

Looked for is the very place that the code object names, not the text around it: two lambdas in one line are two.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def plain(function: Callable[..., Any]) -> FunctionType | None:
    """The function behind a method or a callable object; None where there is none (a partial, a builtin)."""
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        function = type(function).__call__
    return function if isinstance(function, FunctionType) else None


def node_of(code: CodeType) -> Node | None:
    """The definition of this code, decorators included; None where its source cannot be read."""
    found = [node for node in _nodes(_source(code)).get(code.co_firstlineno, ()) if _is_of(node, code)]
    return max(found, key=lambda node: node.col_offset, default=None)  # of nested ones the inner


def text_of(function: Callable[..., Any]) -> str:
    """The definition as it was written, decorators included; "" where it cannot be read."""
    inner = plain(inspect.unwrap(function))
    if inner is None or (node := node_of(inner.__code__)) is None:
        return ""
    if isinstance(node, ast.Lambda):  # its lines hold whatever else stands there
        return ast.unparse(node)
    lines = _source(inner.__code__).splitlines(keepends=True)
    return textwrap.dedent("".join(lines[_first_line(node) - 1 : node.end_lineno]))


def _source(code: CodeType) -> str:
    try:
        return "".join(inspect.findsource(code)[0])
    except (OSError, TypeError, IndexError):  # typed at a prompt, made by exec
        return ""


@lru_cache(maxsize=64)
def _nodes(source: str) -> Mapping[int, list[Node]]:
    """The definitions of a source, by their first line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[Node]] = {}
    for node in ast.walk(tree):
        if isinstance(node, Node):
            found.setdefault(_first_line(node), []).append(node)
    return found


def _first_line(node: Node) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _is_of(node: Node, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    body = node.body
    assert body.end_lineno is not None
    assert body.end_col_offset is not None
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return code.co_name == "<lambda>" and all(
        first <= (line, column) and (end_line, end_column) <= last
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column
    )
