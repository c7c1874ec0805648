"""A parameter of a tool that is the result of an earlier call: the model writes its address, the tool gets the value.

@tool
def plot(frame: ResultRef[pd.DataFrame]) -> str: ...
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_origin

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ..core.errors import ResultNotFoundError

T = TypeVar("T")

Find = Callable[[str], Any]
"""The value that an address names; raises ResultNotFoundError."""


class _Address:
    """Tells pydantic that the value is found by its address, whatever its type is."""

    def __get_pydantic_core_schema__(self, source: Any, _: GetCoreSchemaHandler) -> CoreSchema:
        kind = get_origin(source) or source
        kind = kind if isinstance(kind, type) and kind is not Any else object
        isinstance(None, kind)  # a protocol that cannot be asked for is refused here, where the tool is made

        def found(address: str, info: ValidationInfo) -> Any:
            if info.context is None:
                return address
            try:
                value = info.context(address)
            except ResultNotFoundError as error:
                raise PydanticCustomError("result", "{error}", {"error": str(error)}) from None
            if not isinstance(value, kind):
                met = {"address": address, "met": type(value).__name__, "expected": kind.__name__}
                raise PydanticCustomError("result", "{address} is a {met}, not a {expected}", met)
            return value

        # what the function gets is never written as JSON, so its schema is that of the address
        return core_schema.with_info_after_validator_function(found, core_schema.str_schema(pattern="^result:"))


ResultRef = Annotated[T, _Address()]
"""`ResultRef[pd.DataFrame]`: a DataFrame that an earlier call returned; `ResultRef[Any]`: whatever it was."""
