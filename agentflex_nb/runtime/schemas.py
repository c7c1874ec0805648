"""JSON Schemas at the edge: what one may be, and what is wrong with data.

Rule 1: nothing is fetched. A schema stands for itself: a reference that leads out of it, or nowhere, is refused where
the schema is made, not where somebody answers.
Rule 2: jsonschema is loaded by the first schema: the grammars of its formats take a second.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time
from functools import cache
from typing import TYPE_CHECKING, Any

from ..core.errors import DataError, InvalidAgentError

if TYPE_CHECKING:
    import jsonschema

_MOST = 20  # errors told at once
_REFERENCES = ("$ref", "$dynamicRef")


def check_schema(schema: Mapping[str, Any], what: str) -> None:
    """Refuse what is no JSON Schema (draft 2020-12), or none that stands for itself.

    Raises:
        InvalidAgentError: says what is wrong with it, and where.
    """
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise _unfit(what, f"{error.json_path}: {error.message}") from error
    resource = DRAFT202012.create_resource(schema)
    registry: Any = Registry().with_resource(resource.id() or "", resource).crawl()
    resolver = registry.resolver(resource.id() or "")
    for part in _parts(schema):
        for word in _REFERENCES:
            if isinstance(reference := part.get(word), str):
                try:
                    resolver.lookup(reference)
                except (Unresolvable, NoSuchAnchor, PointerToNowhere) as error:
                    met = f"{word} {reference!r} leads nowhere in this schema, and nothing is fetched"
                    raise _unfit(what, met) from error


def faults(data: Any, schema: Mapping[str, Any]) -> list[DataError]:
    """What is wrong with the data, one entry a place, by JSON pointer; empty for data that fits.

    Formats (date, date-time, time, email, uri) are checked; times may stand without a zone, as pydantic takes them. A
    number with a whole value is an integer, true is none.
    """
    found = sorted(validator(schema).iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))
    return [fault_of(error) for error in found[:_MOST]]


def fault_of(error: "jsonschema.ValidationError") -> DataError:
    """One thing that is wrong, by JSON pointer; a name that is missing stands in its pointer."""
    parts = [*error.absolute_path]
    if error.validator == "required" and isinstance(error.instance, dict) and isinstance(error.validator_value, list):
        parts += [name for name in error.validator_value if error.message.startswith(repr(name))]
    return DataError(pointer=pointer(parts), message=error.message[:500])


def pointer(path: Iterable[object]) -> str:
    """A path into JSON data as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def validator(schema: Mapping[str, Any]) -> "jsonschema.Draft202012Validator":
    """What holds data against a schema, and fetches nothing."""
    import jsonschema
    from referencing import Registry

    return jsonschema.Draft202012Validator(dict(schema), registry=Registry(), format_checker=_formats())


@cache
def _formats() -> "jsonschema.FormatChecker":
    import jsonschema

    checker = jsonschema.FormatChecker()
    checker.checkers = {**jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers}
    checker.checkers["time"] = (lambda value: _is_time(_TIME, value, time.fromisoformat), ())
    checker.checkers["date-time"] = (lambda value: _is_time(_DATE_TIME, value, datetime.fromisoformat), ())
    return checker


_CLOCK = r"\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d:\d\d)?"
_TIME = re.compile(_CLOCK)
_DATE_TIME = re.compile(rf"\d{{4}}-\d\d-\d\d[Tt ]{_CLOCK}")


def _is_time(shape: re.Pattern[str], value: Any, parse: Callable[[str], object]) -> bool:
    if not isinstance(value, str):
        return True  # a format says something about text only
    if not shape.fullmatch(value):
        return False
    try:
        parse(value.upper())
    except ValueError:
        return False
    return True


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for name, value in schema.items():
            if name not in ("const", "enum", "default", "examples"):  # data, not schemas
                yield from _parts(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _parts(value)


def _unfit(what: str, met: str) -> InvalidAgentError:
    return InvalidAgentError(f"{what}: {met}", "a JSON Schema (draft 2020-12) that stands for itself", "correct it")
