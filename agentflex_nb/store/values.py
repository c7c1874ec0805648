"""Whole values as bytes, and back: text, bytes, tables, arrays, JSON. Nothing that could run code when it is read.

Rule 1: a value is kept under a media type that others can read too: Arrow's stream format, NumPy's file format, JSON.
Rule 2: what cannot be kept is not kept: `pack` says so with None, and raises nothing.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import StoreDamagedError, StoreError
from ..core.frozen import freeze
from ..core.values import PackedValue

LARGEST = 64_000_000  # bytes: what is larger stays in the process that has it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    fits: Callable[[Any], bool]
    dump: Callable[[Any], bytes | None]
    load: Callable[[bytes], Any]


def pack(value: Any) -> PackedValue | None:
    """The value as bytes; None where it cannot be kept, or is larger than `LARGEST`."""
    try:
        media_type, form = next((name, form) for name, form in _FORMATS.items() if form.fits(value))
        data = form.dump(value)
    except Exception:  # a foreign object may fail at anything, and its tool has done its work already
        return None
    return PackedValue(media_type, data) if data is not None and len(data) <= LARGEST else None


def unpack(packed: PackedValue) -> Any:
    """The value of such bytes.

    Raises:
        StoreError: a kind of bytes that this version does not know.
        StoreDamagedError: they are not what their kind says.
    """
    form = _FORMATS.get(packed.media_type)
    if form is None:
        raise StoreError(f"a result of media type {packed.media_type!r} is not known here: upgrade agentflex-nb.")
    try:
        return form.load(packed.data)
    except Exception as error:  # each library has its own word for it
        mend = "restore the file from a copy; the text that the model saw is not touched by this"
        raise StoreDamagedError(f"a result of {len(packed.data):,} bytes", f"{error}", mend) from error


def _dump_table(table: Any) -> bytes:
    import pyarrow as pa  # heavy, and most tools return no table

    held, sink = pa.table(table), io.BytesIO()
    with pa.ipc.new_stream(sink, held.schema) as stream:
        stream.write_table(held)
    return sink.getvalue()


def _load_table(data: bytes) -> Any:
    import pyarrow as pa

    held = pa.ipc.open_stream(data).read_all()
    return held.to_pandas() if b"pandas" in (held.schema.metadata or {}) else held


def _dump_array(array: Any) -> bytes:
    import numpy as np

    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=False)
    return sink.getvalue()


def _load_array(data: bytes) -> Any:
    import numpy as np

    return np.load(io.BytesIO(data), allow_pickle=False)


def _dump_json(value: Any) -> bytes | None:
    """NaN and infinities become words, times ISO text; an object of which only a description is left is not kept."""
    frozen = freeze(value)
    return None if isinstance(frozen, str) else json.dumps(frozen, ensure_ascii=False).encode()


# media type -> what it holds, and how; the first that fits a value is taken
_FORMATS = {
    "text/plain": _Format(
        fits=lambda value: isinstance(value, str),
        dump=lambda text: str.__str__(text).encode("utf-8", "surrogatepass"),
        load=lambda data: data.decode("utf-8", "surrogatepass"),
    ),
    "application/octet-stream": _Format(
        fits=lambda value: isinstance(value, bytes | bytearray | memoryview), dump=bytes, load=bytes
    ),
    "application/vnd.apache.arrow.stream": _Format(
        fits=lambda value: hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns"),
        dump=_dump_table,
        load=_load_table,
    ),
    "application/x-npy": _Format(
        fits=lambda value: hasattr(value, "__array_interface__"), dump=_dump_array, load=_load_array
    ),
    "application/json": _Format(fits=lambda value: True, dump=_dump_json, load=json.loads),
}
