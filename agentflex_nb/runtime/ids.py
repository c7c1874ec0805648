"""Ids of turns: 26 letters and digits that sort by the time at which they were made (the ULID layout)."""

import os
from datetime import datetime

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32


def new_turn_id(now: datetime) -> str:
    """A new id: 48 bits of milliseconds, 80 bits of chance."""
    number = (int(now.timestamp() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join([_LETTERS[(number >> shift) & 31] for shift in range(125, -1, -5)])
