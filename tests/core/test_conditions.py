"""Conditions on JSON data: what holds, what does not, and what nobody can say."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.conditions import ABSENT, checked, holds, value_at
from agentflex_nb.core.errors import InvalidAgentError, InvalidValueError
from agentflex_nb.core.frozen import freeze

CALL = freeze({"amount": 60, "to": "Ann@Example.com", "tags": ["new", 7], "gift": True, "note": None, "a/b~c": 1})


def judged(pointer, condition, data=CALL):
    return holds(checked({pointer: condition}, "rule"), data)


@pytest.mark.parametrize(
    ("pointer", "condition", "found"),
    [
        ("/amount", 60, True),
        ("/amount", 60.0, True),
        ("/amount", {"==": 61}, False),
        ("/amount", {"!=": 61}, True),
        ("/amount", {">": 50}, True),
        ("/amount", {">": 60}, False),
        ("/amount", {">=": 60, "<=": 60}, True),
        ("/amount", {">": 50, "<": 55}, False),
        ("/amount", {"in": [1, 60]}, True),
        ("/amount", {"not in": [1, 60]}, False),
        ("/to", {"like": "*@example.com"}, True),
        ("/to", {"not like": "*@example.com"}, False),
        ("/to", {"like": "ann"}, False),
        ("/to", {"contains": "Example"}, True),
        ("/to", {"<": "B"}, True),
        ("/tags", {"contains": "new"}, True),
        ("/tags", {"contains": 7}, True),
        ("/tags/1", 7, True),
        ("/tags", ["new", 7], True),
        ("/gift", True, True),
        ("/gift", {"!=": False}, True),
        ("/note", None, True),
        ("/note", {"exists": False}, True),
        ("/amount", {"exists": True}, True),
        ("/a~1b~0c", 1, True),
        ("", {"exists": True}, True),
    ],
)  # fmt: skip
def test_a_condition_holds_or_not(pointer, condition, found):
    assert judged(pointer, condition) is found


@pytest.mark.parametrize("pointer", ["/nothing", "/note", "/tags/9", "/amount/0", "/tags/x"])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"==": 1}, False), ({"!=": 1}, True), ({"<": 1}, False), ({">=": 1}, False), ({"in": [1]}, False),
        ({"not in": [1]}, True), ({"like": "*"}, False), ({"not like": "*"}, True), ({"contains": "x"}, False),
        ({"exists": True}, False),
    ],
)  # fmt: skip
def test_what_is_missing_is_equal_to_nothing_like_nothing_and_in_no_list(pointer, condition, found):
    assert judged(pointer, condition) is found


@pytest.mark.parametrize(
    "condition",
    [
        {"==": "60"}, {"!=": "60"}, {">": "50"}, {"<": "50"}, {"in": ["60"]}, {"not in": ["60"]}, {"like": "6*"},
        {"not like": "6*"}, {"contains": "6"}, True, {">": "50", ">=": 60},
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_in_doubt(condition):
    """A model that writes "60" for 60 must not slip past a limit: a tool may take either."""
    assert judged("/amount", condition) is None


def test_one_condition_that_does_not_hold_settles_what_is_in_doubt():
    when = checked({"/amount": {">": "50"}, "/gift": False}, "rule")

    assert holds(when, CALL) is False


def test_no_condition_at_all_holds():
    assert holds(checked({}, "rule"), CALL) is True


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"/amount": {"~=": 5}}, "==, !=, <, <=, >, >=, in, not in, contains, like, not like, exists"),
        ({"/amount": {"city": "Paris", "zip": 1}}, 'write {"==": {...}}'),
        ({"/amount": {}}, "add one"),
        ({"amount": 5}, 'begin it with "/"'),
        ({"/a~b": 5}, "~0 for a tilde"),
        ({"/amount": {">": [5]}}, "a number or text"),
        ({"/amount": {">": True}}, "a number or text"),
        ({"/amount": {"in": "abc"}}, "a list of values"),
        ({"/amount": {"like": 5}}, "wildcards"),
        ({"/amount": {"exists": "yes"}}, "true or false"),
        ([("/amount", 5)], "a mapping"),
    ],
)
def test_what_is_no_condition_is_refused_with_what_is_known(when, said):
    with pytest.raises(InvalidAgentError) as refused:
        checked(when, "rule 'x'")

    assert said in str(refused.value)
    assert "rule 'x'" in refused.value.met


def test_a_condition_is_json():
    with pytest.raises(InvalidValueError, match="rule: when"):
        checked({"/amount": {"==": object()}}, "rule")


def test_no_text_keeps_a_pattern_busy():
    """A regular expression of this shape would not end."""
    began = time.perf_counter()

    judged("/to", {"like": "*a*a*a*a*a*a*a*b"}, freeze({"to": "a" * 20_000}))

    assert time.perf_counter() - began < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_a_test_and_its_opposite_never_agree(value, operand):
    value, operand = freeze({"v": value}), freeze([operand])
    for word, opposite in (("==", "!="), ("in", "not in")):
        of = operand if word == "in" else operand[0]
        found = (holds({"/v": {word: of}}, value), holds({"/v": {opposite: of}}, value))
        assert found in ((True, False), (False, True), (None, None))


@given(JSON)
def test_every_value_is_equal_to_itself(value):
    data = freeze({"v": value})

    assert holds({"/v": {"==": data["v"]}}, data) is True


def test_a_pointer_to_nowhere_finds_nothing():
    assert value_at(CALL, "/tags/-") is ABSENT
    assert value_at(CALL, "") is CALL
