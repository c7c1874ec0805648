"""Forms at the edge: schemas from pydantic models, and submitted data held against the schema that was frozen."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ..core.errors import DataError, InvalidAgentError
from ..core.forms import AgentForm as FormDefinition
from ..core.frozen import FrozenDict, freeze_strict
from .tools import thawed

if TYPE_CHECKING:
    import jsonschema

_MOST = 20  # errors told at once


def as_form(form: FormDefinition) -> FormDefinition:
    """The form, if its schema is a JSON Schema.

    Raises:
        InvalidAgentError: it is none; says what is wrong with it.
    """
    import jsonschema  # not before a form is there: the grammars of its formats take a second to load

    try:
        jsonschema.Draft202012Validator.check_schema(thawed(form.schema))
    except jsonschema.SchemaError as error:
        met = f"form {form.key!r}: {error.message}"
        raise InvalidAgentError(met, "a JSON Schema (draft 2020-12)", "correct its schema") from error
    return form


def AgentForm(key: str, description: str, schema: type[BaseModel] | dict[str, Any]) -> FormDefinition:
    """A form: its key, what it is for, and its data as a pydantic model or a JSON Schema.

    Raises:
        InvalidAgentError: no key, no description, or a schema that is empty or no JSON Schema.
    """
    plain = schema.model_json_schema() if isinstance(schema, type) else schema
    frozen: FrozenDict = freeze_strict(plain, f"schema of form {key!r}")
    return as_form(FormDefinition(key=key, description=description, schema=frozen))


def faults(data: Any, schema: FrozenDict) -> list[DataError]:
    """What is wrong with the data, one entry a place, by JSON pointer; empty for data that fits.

    Formats (date, date-time, email, uri) are checked; a number with a whole value is an integer, true is none.
    """
    import jsonschema

    validator = jsonschema.Draft202012Validator(
        thawed(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    found = sorted(validator.iter_errors(thawed(data)), key=lambda error: list(map(str, error.absolute_path)))
    return [DataError(pointer=_pointer(error), message=error.message[:500]) for error in found[:_MOST]]


def _pointer(error: "jsonschema.ValidationError") -> str:
    parts = [*error.absolute_path]
    if error.validator == "required" and isinstance(error.instance, dict) and isinstance(error.validator_value, list):
        parts += [name for name in error.validator_value if error.message.startswith(repr(name))]
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
