"""A tool's result beyond its text: the whole value as bytes, and the address by which it is named.

An address is "result:" and the id of the call. The model reads it at the end of a text that is not the whole value, and
hands it to the next tool; a person hands it on in a message.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .messages import Message, Role

_PREFIX = "result:"
_ADDRESS = re.compile(r"result:([\w.-]*\w\.\d+(?:-\d+)?\.\d+)")


@dataclass(frozen=True, slots=True)
class PackedValue:
    """A value as a store keeps it; what the bytes mean is said by their media type."""

    media_type: str
    data: bytes


def address_of(call_id: str) -> str:
    """How the result of a call is named.

    >>> address_of("t1.1.0")
    'result:t1.1.0'
    """
    return f"{_PREFIX}{call_id}"


def call_id_of(address: str) -> str:
    """The call that an address, or the id of a call itself, names."""
    return address.strip().removeprefix(_PREFIX)


def home_of(call_id: str) -> str:
    """The turn to which a call belongs.

    >>> home_of("t1.2-41.0")
    't1'
    """
    return call_id.rsplit(".", 2)[0]


def may_use(messages: Iterable[Message], call_id: str) -> bool:
    """Whether a tool may be given the result of this call: it stands in the history, or the user has named it there.

    What a model or a tool merely writes opens no other conversation's results.
    """
    return any(
        message.tool_call_id == call_id
        or (message.role is Role.USER and _PREFIX in message.content and call_id in _ADDRESS.findall(message.content))
        for message in messages
    )
