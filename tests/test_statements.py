"""The listing of statements and tests is complete and true."""

import pytest

from .statements import PAGE, STATEMENTS, named, page


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_has_a_test_that_names_it(statement):
    assert named().get(statement), f"no test names {statement}: {STATEMENTS[statement]}"


def test_the_page_is_what_the_tests_say():
    assert PAGE.read_text("utf-8") == page(), "run python tests/statements.py"
