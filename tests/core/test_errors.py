"""Errors say what was met, what was expected, what to do; and carry the parts."""

import re
from datetime import UTC, datetime

import pytest

from agentflex_nb.core import errors
from agentflex_nb.core.drift import AgentDifference
from agentflex_nb.core.errors import (
    AgentDriftError,
    AgentFlexError,
    AgentVersionNotFoundError,
    CommandRefusedError,
    ConversationBusyError,
    DataError,
    IllegalTransitionError,
    InvalidAgentError,
    InvalidConfigError,
    LabLockedError,
    QueryError,
    RefusalReason,
    StoreDamagedError,
    TurnFailedError,
    TurnNotFoundError,
    UnansweredError,
    VersionConflictError,
)

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentFlexError)]


def test_the_tree_in_the_docstring_names_every_class_below_its_parent():
    drawn = [
        (len(indent), name)
        for indent, name in re.findall(r"^([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", flags=re.MULTILINE)
    ]
    assert sorted(name for _, name in drawn) == sorted(kind.__name__ for kind in CLASSES)

    above: list[tuple[int, str]] = []
    for depth, name in drawn:
        above = [(d, n) for d, n in above if d < depth]
        if above:
            assert issubclass(getattr(errors, name), getattr(errors, above[-1][1])), name
        above.append((depth, name))


def test_one_class_catches_them_all():
    assert all(issubclass(kind, AgentFlexError) for kind in CLASSES)


@pytest.mark.parametrize(
    ("error", "parts", "says"),
    [
        (VersionConflictError("t1", 6, 7), {"expected": 6, "found": 7}, "is at version 7, not at 6.*restore"),
        (VersionConflictError("t1", 6, None), {"found": None}, "is not stored"),
        (TurnNotFoundError("t1"), {"turn_id": "t1"}, "no turn 't1'"),
        (ConversationBusyError("c", ["t1", "t2"]), {"active_turn_ids": ("t1", "t2")}, "busy with turn t1, t2"),
        (AgentVersionNotFoundError("a", "2", ["1"]), {"known": ("1",)}, "known versions: 1.*register"),
        (AgentVersionNotFoundError("a", "2", []), {"known": ()}, "nor any other version of it"),
        (
            AgentDriftError("a", "1", "has changed", "undo it"),
            {"differences": ()},
            "'a' version '1' has changed; undo it",
        ),
        (
            AgentDriftError("a", "1", "has changed", "undo it", [AgentDifference(part="model", known="m", met="n")]),
            {"met": "has changed", "mend": "undo it"},
            '(?s)has changed:.- model: "m" -> "n".Undo it',
        ),
        (
            InvalidConfigError([DataError(pointer="/id", message="is missing")]),
            {},
            "this configuration: /id is missing",
        ),
        (InvalidAgentError("x", "y", "z"), {"met": "x", "expected": "y"}, "x: expected y; z"),
        (IllegalTransitionError("READY", "Cancel", ["B", "A"]), {"met": "Cancel"}, "met Cancel; it knows A, B"),
        (LabLockedError("f", "process 7", "close it"), {"holder": "process 7"}, "f is held by process 7: close it"),
        (StoreDamagedError("f", "torn", "restore it"), {"found": "torn"}, "f is damaged"),
        (QueryError("select", "no table", "look"), {"query": "select"}, "no table: look"),
        (TurnFailedError("t1", "FAILED", "ValueError", "x"), {"status": "FAILED"}, "FAILED: ValueError: x"),
        (UnansweredError("t1", ["q"], "here"), {"questions": ("q",)}, "approve"),
    ],
)
def test_an_error_says_it_in_words_and_keeps_its_parts(error, parts, says):
    assert re.search(says, str(error))
    assert {name: getattr(error, name) for name in parts} == parts


def test_a_refusal_tells_who_was_first_and_what_is_wrong_with_the_data():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    fault = DataError(pointer="/day", message="no date")
    error = CommandRefusedError(RefusalReason.INVALID, "no", turn_id="t", by="alice", at=at, errors=[fault])

    assert (error.reason, error.turn_id, error.by, error.at, error.errors) == ("INVALID", "t", "alice", at, (fault,))


def test_a_long_list_is_cut_in_the_sentence_and_whole_in_the_parts():
    many = [AgentDifference(part=f"tool t{n}", known=1, met=None) for n in range(1_000)]

    error = AgentDriftError("a", "1", "has changed", "undo it", many)

    assert len(str(error)) < 2_300
    assert "characters in all" in str(error)
    assert len(error.differences) == 1_000
