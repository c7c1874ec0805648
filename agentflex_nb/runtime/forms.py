"""Forms at the edge: schemas from pydantic models, and submitted data held against the schema that was frozen."""

from typing import Any

from pydantic import BaseModel

from ..core.errors import DataError, InvalidAgentError
from ..core.forms import AgentForm as FormDefinition
from ..core.frozen import FrozenDict, freeze_strict
from . import schemas
from .tools import thawed


def as_form(form: FormDefinition) -> FormDefinition:
    """The form, if its schema is a JSON Schema that stands for itself.

    Raises:
        InvalidAgentError: it is none; says what is wrong with it.
    """
    if not isinstance(form, FormDefinition):
        raise InvalidAgentError(f"the form {form!r}", "an AgentForm", "make one: AgentForm(key, description, schema)")
    schemas.check_schema(thawed(form.schema), f"form {form.key!r}")
    return form


def AgentForm(key: str, description: str, schema: type[BaseModel] | dict[str, Any]) -> FormDefinition:
    """A form: its key, what it is for, and its data as a pydantic model or a JSON Schema.

    Of a model its JSON Schema counts, which is kept with each question; validators of its own do not run.

    Raises:
        InvalidAgentError: no key, no description, or a schema that is empty, no JSON Schema, or leads out of itself.
    """
    if isinstance(schema, type) and not issubclass(schema, BaseModel):
        met = f"form {key!r} with schema={schema.__name__}"
        raise InvalidAgentError(met, "a pydantic model or a JSON Schema", "make it a subclass of pydantic.BaseModel")
    plain = schema.model_json_schema() if isinstance(schema, type) else schema
    frozen: FrozenDict = freeze_strict(plain, f"schema of form {key!r}")
    return as_form(FormDefinition(key=key, description=description, schema=frozen))


def faults(data: Any, schema: FrozenDict) -> list[DataError]:
    """What is wrong with submitted data, one entry a place, by JSON pointer; empty for data that fits."""
    return schemas.faults(thawed(data), thawed(schema))
