"""Forms: defined with care, offered by key."""

import pytest

from agentflex_nb.core.errors import InvalidAgentError, InvalidValueError
from agentflex_nb.core.forms import AgentForm, FormRequired, check_forms, request_user_input


@pytest.mark.parametrize(
    ("key", "description", "schema"),
    [
        ("", "d", {"type": "object"}),
        ("k", " ", {"type": "object"}),
        ("k", "d", {}),
        (None, "d", {"a": 1}),
        ("k", "d", [1]),
    ],
)
def test_a_form_needs_key_description_and_schema(key, description, schema):
    """F7"""
    with pytest.raises(InvalidAgentError):
        AgentForm(key=key, description=description, schema=schema)


def test_a_schema_that_is_no_json_is_refused():
    with pytest.raises(InvalidValueError, match="schema of form 'k'"):
        AgentForm(key="k", description="d", schema={"default": object()})


def test_the_schema_is_a_copy():
    """F7"""
    schema = {"type": "object", "required": ["a"]}
    form = AgentForm(key="k", description="d", schema=schema)
    schema["required"].append("b")

    assert form.schema == {"type": "object", "required": ("a",)}


def test_forms_are_found_by_key():
    one, two = (AgentForm(key=key, description=f"about {key}", schema={"type": "object"}) for key in "ab")

    assert dict(check_forms([one, two])) == {"a": one, "b": two}
    spec = request_user_input({"a": one, "b": two})
    assert "- a: about a" in spec.description
    assert spec.parameters["required"] == ("form_key",)


def test_a_tool_asks_for_a_form_by_its_key_or_itself():
    form = AgentForm(key="k", description="d", schema={"type": "object"})

    assert str(FormRequired(form)) == str(FormRequired("k", "please")) == "form 'k' must be filled in"
    assert FormRequired("k", "please").message == "please"
