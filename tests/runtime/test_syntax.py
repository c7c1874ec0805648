"""The definition of a function, found by the place that its code names."""

import ast
import functools

import pytest

from agentflex_nb.runtime.syntax import node_of, plain, text_of

from .cells import run_cell


def shown(function) -> str | None:
    node = node_of(function.__code__)
    return None if node is None else ast.unparse(node)


def test_two_lambdas_in_one_line_are_two():
    one, two = (lambda x: x + 1), (lambda x: x - 1)

    assert (shown(one), shown(two)) == ("lambda x: x + 1", "lambda x: x - 1")


def test_a_lambda_in_a_lambda_and_one_over_several_lines():
    outer = lambda x: lambda: x * 2  # noqa: E731
    wide = [
        lambda x: x
        + 1
    ]  # fmt: skip

    assert shown(outer) == "lambda x: lambda: x * 2"
    assert shown(outer(1)) == "lambda: x * 2"
    assert shown(wide[0]) == "lambda x: x + 1"


def test_a_lambda_with_nothing_in_it_and_one_beside_letters_of_more_bytes():
    letters, other = ("äöü", lambda: None), lambda: "ß"

    assert shown(letters[1]) == "lambda: None"
    assert shown(other) == "lambda: 'ß'"


def test_a_text_holds_decorators_and_stands_at_the_margin():
    def twice(function):
        return function

    @twice
    def f(
        n: int,
    ) -> int:
        """What it does."""
        return n  # a remark

    text = text_of(f)

    assert text.startswith("@twice\ndef f(\n    n: int,\n")
    assert text.endswith("    return n  # a remark\n")
    assert text_of(lambda x: x) == "lambda x: x"


def test_of_a_wrapped_function_the_inner_one_is_shown():
    def inner():
        return "inner"

    @functools.wraps(inner)
    def wrapper():
        return inner()

    assert text_of(wrapper).startswith("def inner()")


def test_each_run_of_a_cell_keeps_its_own_source():
    space = run_cell("def f():\n    return 1\n", {})
    first = space["f"]
    second = run_cell("def f():\n    return 2\n", space)["f"]

    assert "return 1" in text_of(first)
    assert "return 2" in text_of(second)


@pytest.mark.parametrize("source", ["def f():\n    return 1\n", "f = lambda: 1\n"])
def test_code_without_a_source_has_no_text(source):
    space: dict = {}
    exec(source, space)

    assert node_of(space["f"].__code__) is None
    assert text_of(space["f"]) == ""


def test_a_source_that_is_another_one_by_now_is_not_taken_for_it():
    space = run_cell("def f():\n    return 1\n", {})
    code = space["f"].__code__

    assert node_of(code.replace(co_name="g")) is None
    assert node_of(code.replace(co_firstlineno=2)) is None
    assert node_of(code.replace(co_firstlineno=900)) is None


def test_what_is_behind_a_method_or_a_callable_object():
    class Both:
        def method(self):
            return 1

        def __call__(self):
            return 2

    assert plain(Both().method) is Both.method
    assert plain(Both()) is Both.__call__
    assert plain(functools.partial(print)) is None
    assert text_of(print) == text_of(functools.partial(print)) == ""
