"""What a JSON Schema may be: F8, K28. Nothing is fetched, and nothing is found out only when somebody answers."""

import pytest

from agentflex_nb.core.errors import InvalidAgentError
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.schemas import check_schema, faults, validator
from agentflex_nb.runtime.tools import Tool

LOCAL = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/Short"}, "b": {"$ref": "#named"}},
    "$defs": {"Short": {"type": "string", "maxLength": 3}, "Named": {"$anchor": "named", "type": "integer"}},
}


def test_references_within_the_schema_are_followed():
    check_schema(LOCAL, "this")

    assert [fault.pointer for fault in faults({"a": "long", "b": "x"}, LOCAL)] == ["/a", "/b"]
    assert faults({"a": "ok", "b": 3}, LOCAL) == []


@pytest.mark.parametrize(
    "reference", ["#/$defs/Nobody", "#nobody", "http://127.0.0.1:9/schema.json", "other.json", "urn:x:y"]
)
@pytest.mark.parametrize("word", ["$ref", "$dynamicRef"])
def test_a_reference_that_leads_out_or_nowhere_is_refused_where_it_is_made(reference, word):
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {word: reference}]}}}

    for make in (
        lambda: AgentForm("k", "A form.", schema),
        lambda: Tool(name="t", description="", function=print, parameters=schema),
    ):
        with pytest.raises(InvalidAgentError, match="leads nowhere in this schema"):
            make()


def test_what_only_looks_like_a_reference_is_data():
    check_schema({"enum": [{"$ref": "#/nowhere"}], "default": {"$ref": "x"}, "const": {"pattern": "("}}, "this")


@pytest.mark.parametrize("schema", [{"pattern": r"^\p{L}+$"}, {"patternProperties": {"(": {}}}])
def test_a_pattern_that_python_cannot_read_is_refused(schema):
    with pytest.raises(InvalidAgentError, match="is not a 'regex'"):
        check_schema({"type": "object", "properties": {"a": schema}}, "this")


def test_nothing_is_fetched_even_for_a_schema_that_was_kept_by_an_earlier_version():
    with pytest.raises(Exception, match="Unresolvable"):
        list(validator({"$ref": "http://127.0.0.1:9/schema.json"}).iter_errors(1))


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("time", "10:30", True),
        ("time", "10:30:00", True),
        ("time", "10:30:00.5Z", True),
        ("time", "10:30:00+02:00", True),
        ("time", "25:30", False),
        ("time", "10h30", False),
        ("time", "1030", False),
        ("date-time", "2026-01-01T10:30:00", True),
        ("date-time", "2026-01-01T10:30:00Z", True),
        ("date-time", "2024-02-29T25:00", False),
        ("date-time", "2024-02-30T10:00:00Z", False),
        ("date-time", "2024-01-05", False),
        ("date", "2024-13-40", False),
        ("date", "2024-1-5", False),
    ],
)
def test_times_are_those_that_a_person_and_pydantic_write(kind, value, fits):
    """K28"""
    assert (faults(value, {"type": "string", "format": kind}) == []) is fits
