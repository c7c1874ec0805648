"""Forms at the edge: F7, F8, F9, T16, K28."""

import pytest
from pydantic import BaseModel, Field

from agentflex_nb.core.errors import InvalidAgentError, InvalidValueError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.core.verdicts import ToolApprovalDecision
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.forms import AgentForm, faults
from agentflex_nb.runtime.middleware import AgentMiddleware


class Seats(BaseModel):
    number: int = Field(ge=1)
    window: bool = False


def test_a_schema_may_be_a_pydantic_model_or_written_out():
    assert AgentForm("seats", "Where", Seats).schema["required"] == ("number",)
    assert AgentForm("ok", "Go on?", {"type": "object"}).schema == {"type": "object"}


@pytest.mark.parametrize(
    ("key", "description", "schema"),
    [
        ("", "d", {"type": "object"}),
        ("k", " ", {"type": "object"}),
        ("k", "d", {}),
        ("k", "d", {"type": "nonsense"}),
        ("k", "d", {"properties": {"a": {"minimum": "x"}}}),
    ],
)
def test_a_form_needs_a_key_a_description_and_a_schema(key, description, schema):
    """F7."""
    with pytest.raises(InvalidAgentError):
        AgentForm(key, description, schema)


def test_a_schema_that_is_no_json_is_refused():
    with pytest.raises(InvalidValueError, match="schema of form 'k'"):
        AgentForm("k", "d", {"default": object()})


def test_a_form_is_a_copy_and_cannot_change():
    """F7."""
    given = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = AgentForm("k", "d", given)
    given["properties"]["a"]["type"] = "string"

    assert form.schema["properties"]["a"]["type"] == "integer"
    with pytest.raises(TypeError, match="read-only"):
        form.schema["properties"]["a"]["type"] = "string"


SCHEMA = freeze(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "name": {"type": "string", "minLength": 1},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "tone": {"enum": ["calm", "loud"]},
            "list": {"type": "array", "minItems": 1, "items": {"type": "integer"}},
            "a/b~c": {"type": "integer"},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize(
    ("data", "pointers"),
    [
        ({"n": 3}, []),
        ({"n": 3.0}, []),
        ({}, ["/n"]),
        ({"n": "3"}, ["/n"]),
        ({"n": True}, ["/n"]),
        ({"n": 0}, ["/n"]),
        ({"n": 2.5}, ["/n"]),
        ({"n": 1, "more": 2}, [""]),
        ({"n": 1, "name": ""}, ["/name"]),
        ({"n": 1, "day": "2024-13-40"}, ["/day"]),
        ({"n": 1, "day": "2024-1-5"}, ["/day"]),
        ({"n": 1, "day": "2024-02-29"}, []),
        ({"n": 1, "at": "2024-02-29T25:00:00Z"}, ["/at"]),
        ({"n": 1, "tone": "LOUD"}, ["/tone"]),
        ({"n": 1, "list": []}, ["/list"]),
        ({"n": 1, "list": [1, "x"]}, ["/list/1"]),
        ({"n": 1, "a/b~c": "x"}, ["/a~1b~0c"]),
        ({"n": 1, "__proto__": {}}, [""]),
        ([], [""]),
    ],
)
def test_faults_name_the_place_by_json_pointer(data, pointers):
    """F8, K28."""
    assert [fault.pointer for fault in faults(freeze(data), SCHEMA)] == pointers


def test_an_empty_submission_fits_a_schema_that_allows_it():
    """F9."""
    assert faults(freeze({}), freeze({"type": "object"})) == []


def test_faults_are_told_in_bounded_number_and_length():
    data = freeze({f"k{n}": "x" for n in range(100)})
    schema = freeze({"type": "object", "properties": {f"k{n}": {"type": "integer"} for n in range(100)}})

    found = faults(data, schema)

    assert len(found) == 20
    assert all(len(fault.message) <= 500 for fault in found)


def test_a_form_for_which_the_model_asks_passes_by_policies_interceptors_and_middlewares(desk):
    """T16, F2: nothing of the agent's code is between the model and the person."""
    met = []

    class Meets(AgentMiddleware):
        def around_tool(self, call, proceed):
            met.append("middleware")
            return proceed(call)

    def denies(turn, call, tool):
        met.append("policy")
        return ToolApprovalDecision.deny("never")

    def intercepts(call, proceed):
        met.append("interceptor")
        return proceed(call)

    turn = desk.run(
        ScriptedModel.call("request_user_input", form_key="seats"),
        "Booked.",
        forms=[AgentForm("seats", "Where to sit", Seats)],
        approval_policy=denies,
        interceptors=[intercepts],
        middlewares=[Meets()],
    )
    assert turn.status is AgentStatus.WAITING_FOR_USER
    turn.submit({"number": 2})

    assert (turn.text, met) == ("Booked.", [])
