"""The listing of statements and tests is complete and true."""

import pytest

from .statements import GROUPS, PAGE, STATEMENTS, WAITING, ids, named, page

LETTERS = [*GROUPS, "C", "M", "W"]
WAIT = [id for listed in WAITING for id in ids(listed)]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_has_a_test_that_names_it(statement):
    assert named().get(statement), f"no test names {statement}: {STATEMENTS[statement]}"


@pytest.mark.parametrize("letter", LETTERS)
def test_no_number_is_left_out_and_none_stands_twice(letter):
    numbers = sorted(int(id[1:]) for id in [*STATEMENTS, *WAIT] if id[0] == letter)

    assert numbers == [*range(1, len(numbers) + 1)]


def test_what_a_test_names_is_a_statement():
    assert {id for id in named() if id[0] in LETTERS} <= {*STATEMENTS, *WAIT}


def test_the_page_is_what_the_tests_say():
    assert PAGE.read_text("utf-8") == page(), "run python tests/statements.py"
