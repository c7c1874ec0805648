"""The listing of cases and tests is complete and true."""

import pytest

from .cases import CASES, PAGE, WAITING, named, page


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_a_test_that_names_it(case):
    assert named().get(case), f"no test names {case}: {CASES[case][0]}"


def test_the_page_is_what_the_tests_say():
    assert PAGE.read_text("utf-8") == page(), "run python tests/cases.py"


def test_what_waits_is_a_part_of_a_case_and_has_a_reason():
    assert {case for case, _, _ in WAITING} <= set(CASES)
    assert all(what and reason for _, what, reason in WAITING)
