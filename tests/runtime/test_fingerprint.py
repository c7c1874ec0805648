"""Content hashes: the same for the same code in every process, another one when what it does changes. P11, K03, K17."""

import functools
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.runtime.fingerprint import digest, fingerprint, sparse

from .cells import run_cell


def made(source: str, **scope: Any) -> Any:
    """A function as a prompt or exec makes it: without a file."""
    exec(source, scope)
    return scope["f"]


def of(function: Any) -> str:
    return fingerprint(function, "it")


def from_a_file(tmp_path, source: str) -> Any:
    """A function as a cell or a module makes it: with a source that can be read."""
    import importlib.util

    number = len(list(tmp_path.iterdir()))
    path = tmp_path / f"cell_{number}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"cell_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


PLAIN = "def f(a: int, b=2):\n    return a + b\n"


@pytest.mark.parametrize(
    "other",
    [
        "# a remark\ndef f(a: int, b=2):\n    return a + b\n",
        "def f(a: int, b=2):\n    # a remark\n\n    return (a\n            + b)\n",
        "def f(\n    a: int,\n    b=2,\n):\n    return a + b\n",
    ],
)
def test_comments_and_layout_do_not_count(tmp_path, other):
    assert of(from_a_file(tmp_path, PLAIN)) == of(from_a_file(tmp_path, other))


@pytest.mark.parametrize(
    "other",
    [
        "def f(a: int, b=2):\n    return a - b\n",
        "def f(a: int, b=3):\n    return a + b\n",
        "def f(a: float, b=2):\n    return a + b\n",
        "def f(a: int, c=2):\n    return a + c\n",
        'def f(a: int, b=2):\n    """What it does."""\n    return a + b\n',
    ],
)
def test_what_a_function_does_counts(tmp_path, other):
    assert of(from_a_file(tmp_path, PLAIN)) != of(from_a_file(tmp_path, other))


def test_a_cell_that_is_run_again_has_the_same_hash(tmp_path):
    assert of(from_a_file(tmp_path, PLAIN)) == of(from_a_file(tmp_path, PLAIN))
    assert of(made(PLAIN)) == of(made(PLAIN))


def test_without_a_source_the_code_object_counts():
    assert of(made(PLAIN)) != of(made("def f(a: int, b=2):\n    return a - b\n"))
    assert of(made("def f(a): return lambda: a")) != of(made("def f(a): return lambda: -a"))


def test_lambdas_in_one_line_are_told_apart():
    one, two = (lambda call: call.amount > 50), (lambda call: call.amount > 60)
    a, b = (lambda x: x + 1), (lambda *, x: x + 1)

    assert of(one) != of(two)
    assert of(a) != of(b)
    assert of(one) == of(lambda call: call.amount > 50)


def closing_over(value: Any, **named: Any) -> Any:
    first, second = named.get("default"), named.get("keyword")

    def f(default=first, *, keyword=second):
        return value, default, keyword

    return f


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("one", "two"),
    [(50, 60), ("a", "b"), ([1], [2]), ({"a": 1}, {"a": 2}), (lambda: 1, lambda: 2), ({1, 2}, {1, 3}), (None, 0)],
)
def test_values_that_a_function_holds_count(one, two):
    assert of(closing_over(one)) != of(closing_over(two))
    assert of(closing_over(one)) == of(closing_over(one))
    assert of(closing_over(0, default=one)) != of(closing_over(0, default=two))
    assert of(closing_over(0, keyword=one)) != of(closing_over(0, keyword=two))


def test_objects_that_show_their_address_do_not_change_the_hash():
    assert of(closing_over(Holder(1))) == of(closing_over(Holder(2)))
    assert of(closing_over([Holder(1)])) == of(closing_over([Holder(1)]))
    assert of(closing_over(Holder(1))) != of(closing_over([Holder(1)]))


def test_a_function_that_calls_itself_has_a_hash():
    def outer():
        def f(n):
            return f(n - 1) if n else 0

        return f

    assert of(outer()) == of(outer())


def test_the_wrapper_of_a_function_counts_as_much_as_the_function():
    def loud(function):
        @functools.wraps(function)
        def wrapper():
            return function() + "!"

        return wrapper

    def quiet(function):
        @functools.wraps(function)
        def wrapper():
            return function() + "."

        return wrapper

    def f():
        return "x"

    def g():
        return "y"

    assert len({of(loud(f)), of(quiet(f)), of(loud(g)), of(f)}) == 4


def test_an_empty_cell_is_no_trouble():
    def outer():
        def f():
            return later

        if f is None:
            later = 1  # never bound: the cell stays empty
        return f

    assert of(outer()) == of(outer())


class Method:
    def call(self) -> int:
        """Call."""
        return 1

    def __call__(self) -> int:
        """Call."""
        return 2


def test_methods_and_callable_objects_are_read_through():
    assert of(Method().call) == of(Method().call)
    assert of(Method()) == of(Method())
    assert of(Method()) != of(Method().call)


@pytest.mark.parametrize("function", [functools.partial(print), print, "x".upper])
def test_code_that_cannot_be_read_asks_for_a_version(function):
    with pytest.raises(InvalidAgentError, match="version="):
        of(function)


def test_the_hash_is_the_same_in_every_process():
    """P11: sets are hashed by their content, not by the order of this process."""
    code = (
        "from agentflex_nb.runtime.fingerprint import fingerprint\n"
        "held = {'a', 'b', 'c', 'd', 'e'}\n"
        "def outer():\n"
        "    inner = held\n"
        "    def f(x, names=frozenset('abcdefgh')): return x in {'p', 'q', 'r', 's', 't'} or x in inner\n"
        "    return f\n"
        "print(fingerprint(outer(), 'f'), fingerprint(lambda x: x in {'p', 'q', 'r', 's', 't'}, 'g'))"
    )
    seen = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        seen.add(run.stdout)

    assert len(seen) == 1


def test_the_order_of_keys_does_not_count_in_a_digest():
    assert digest({"a": 1, "b": [2]}) == digest({"b": (2,), "a": 1}) != digest({"a": 1, "b": [3]})


def test_a_function_in_a_file_has_the_hash_of_its_print_alone(tmp_path):
    """The print of a tree is the same in every version of Python; the tree itself and the byte code are not."""
    assert of(from_a_file(tmp_path, PLAIN)) == digest(
        {"code": PLAIN.strip(), "held": {}, "defaults": [["int", "2"]], "named defaults": {}}
    )


def test_a_lambda_in_a_file_has_the_hash_of_its_print_too(tmp_path):
    assert of(from_a_file(tmp_path, "f, g = (lambda x:  x+1), 2\n")) == digest(
        {"code": "lambda x: x + 1", "held": {}, "defaults": [], "named defaults": {}}
    )


def test_a_cell_run_again_is_the_same_and_a_changed_one_another():
    """K03."""
    space: dict[str, Any] = {}
    first = of(run_cell(PLAIN, space)["f"])

    assert of(run_cell(PLAIN, space)["f"]) == first
    assert of(run_cell(f"# a remark\n\n{PLAIN}", space)["f"]) == first
    assert of(run_cell(PLAIN.replace("+", "-"), space)["f"]) != first


@dataclass(frozen=True)
class Inner:
    n: int = 1
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Yesterday:
    name: str
    limit: float = 3.0


@dataclass(frozen=True)
class Today:
    name: str
    limit: float = 3.0
    inner: Inner = field(default_factory=Inner)
    flag: bool = False


def test_a_field_that_a_later_version_adds_changes_no_digest():
    assert digest(Yesterday("a")) == digest(Today("a"))
    assert digest([{"deep": (Yesterday("a", 4),)}]) == digest([{"deep": (Today("a", 4),)}])
    assert digest(Today("a")) != digest(Today("a", flag=True))
    assert digest(Today("a")) != digest(Today("a", inner=Inner(n=2)))


def test_whether_a_number_was_written_with_a_point_changes_no_digest():
    assert digest(Yesterday("a", 4)) == digest(Yesterday("a", 4.0))
    assert digest(freeze({"t": 0})) == digest(freeze({"t": 0.0})) != digest(freeze({"t": 0.5}))


def test_what_has_its_default_is_left_out():
    assert sparse(Today("a", inner=Inner(names=("x",)))) == {"name": "a", "inner": {"names": ["x"]}}
