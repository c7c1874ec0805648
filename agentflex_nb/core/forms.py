"""Forms: what a person can be asked to fill in. The question that asks keeps a copy of the schema, which stays."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import InvalidAgentError
from .frozen import FrozenDict, freeze, freeze_strict, well_formed
from .model import ToolSpec

REQUEST_USER_INPUT = "request_user_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentForm:
    """A form: a key that a model or tool names, what it is for, and the JSON Schema of its data."""

    key: str
    description: str
    schema: FrozenDict

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key.strip():
            raise InvalidAgentError(f"a form with the key {self.key!r}", "a short name", "give AgentForm a key")
        if not isinstance(self.description, str) or not self.description.strip():
            raise InvalidAgentError(f"form {self.key!r} without a description", "a sentence", "say what it is for")
        if not isinstance(self.schema, Mapping) or not self.schema:
            raise InvalidAgentError(f"form {self.key!r} without a schema", "a JSON Schema", "list its properties")
        object.__setattr__(self, "key", well_formed(self.key))
        object.__setattr__(self, "description", well_formed(self.description))
        # dict(...): a FrozenDict made by hand may hold what can change
        object.__setattr__(self, "schema", freeze_strict(dict(self.schema), f"schema of form {self.key!r}"))


class FormRequired(Exception):  # a request, not an error
    """Raised by a tool that needs a form: the turn waits, and the tool runs again from its start with the data."""

    def __init__(self, form: AgentForm | str, message: str = "") -> None:
        key = form if isinstance(form, str) else form.key
        super().__init__(f"form {key!r} must be filled in")
        self.form, self.message = form, message


def check_forms(forms: Iterable[AgentForm]) -> Mapping[str, AgentForm]:
    """Forms by key; raises InvalidAgentError where two share one."""
    known: dict[str, AgentForm] = {}
    for form in forms:
        if form.key in known:
            raise InvalidAgentError(f"two forms with the key {form.key!r}", "keys that differ", "rename one")
        known[form.key] = form
    return known


def request_user_input(forms: Mapping[str, AgentForm]) -> ToolSpec:
    """The tool through which a model asks for one of the agent's forms."""
    listed = "\n".join(f"- {form.key}: {form.description}" for form in forms.values())
    parameters: Any = freeze(
        {
            "type": "object",
            "properties": {
                "form_key": {"type": "string", "enum": list(forms), "description": "Which form the user fills in."},
                "message": {"type": "string", "description": "What the user is told about why it is needed."},
            },
            "required": ["form_key"],
            "additionalProperties": False,
        }
    )
    description = f"Ask the user to fill in one of these forms; the result is the data.\n{listed}"
    return ToolSpec(name=REQUEST_USER_INPUT, description=description, parameters=parameters)
