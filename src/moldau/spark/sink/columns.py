"""The columns a row may have: which there are, of which type, and as bytes.

Pure. Names and types are those of Spark's own Kafka sink, and `timestamp` besides. Columns with
other names are left alone, as they are there: a frame that came from a topic goes to another as it
is, `offset` and `timestampType` included.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.base.errors import UserError
from moldau.records.builder import NO_TIMESTAMP

Integers = npt.NDArray[np.int64]

TYPES: Final = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""By column, the types of Spark that it may have, as `simpleString` writes them."""

_VOID: Final = "void"
"""The type of a column that is null in every row."""


def check_types(types: dict[str, str], topic: str | None) -> None:
    """Refuse rows that cannot be written; `types` are what `simpleString` says of each column."""
    if "value" not in types:
        raise UserError(
            "there is no column `value` to write: name one, as in"
            " select(to_json(struct('*')).alias('value'))"
        )
    if topic is None and "topic" not in types:
        raise UserError("no topic to write to: set the option `topic`, or add a column `topic`")
    for name, allowed in TYPES.items():
        if name == "topic" and topic is not None:
            continue  # nobody looks at the column, as in Spark's own sink
        found = types.get(name)
        if found is not None and found not in allowed and (found != _VOID or name == "topic"):
            raise UserError(
                f"the column `{name}` is of type {found}, which cannot be written: cast it to"
                f" {' or '.join(allowed)}"
            )


class Strings(NamedTuple):
    """A column of byte strings, and where each lies."""

    array: Any
    """A `pyarrow.BinaryArray`."""
    data: npt.NDArray[np.uint8]
    starts: Integers
    sizes: Integers
    """In bytes; -1 is null."""

    @classmethod
    def of(cls, column: Any) -> Strings:
        """Take a column of strings or bytes as bytes, without copying where that is possible."""
        array = column if pa.types.is_binary(column.type) else column.cast(pa.binary())
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        starts = bounds[:-1].astype(np.int64)
        sizes = np.diff(bounds).astype(np.int64)
        if array.null_count:
            sizes[array.is_null().to_numpy(zero_copy_only=False)] = -1
        content = np.frombuffer(b"" if data is None else data, np.uint8)
        return cls(array, content, starts, sizes)

    @classmethod
    def made_of(cls, data: npt.NDArray[np.uint8], bounds: Integers) -> Strings:
        """Make a column of strings that lie one behind the other."""
        narrow = bounds.astype(np.int32)
        buffers = [None, pa.py_buffer(narrow), pa.py_buffer(data)]
        array = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return cls(array, data, bounds[:-1], np.diff(bounds))

    @property
    def lengths(self) -> Integers:
        """The bytes each takes: none, where it is null."""
        return np.maximum(self.sizes, 0)

    @property
    def bounds(self) -> Integers:
        """Where each begins, and the last ends; only of strings one behind the other."""
        return np.append(self.starts, self.starts[-1] + self.lengths[-1])


def timestamps_ms(column: Any, now_ms: int) -> Integers:
    """Return milliseconds since 1970: of the column, or now where it is null or there is none.

    Records that were written without a time are read with one millisecond before 1970.
    """
    given = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if given.null_count:
        given = given.fill_null(now_ms * 1000)
    times_us = given.to_numpy()
    found: Integers = np.where(times_us == NO_TIMESTAMP * 1000, now_ms, times_us // 1000)
    if found.size and found.min() < 0:
        raise UserError(
            f"a row has the timestamp {int(found.min())} ms before 1970, which no record may have:"
            " leave the column `timestamp` null there"
        )
    return found


def numbers(column: Any, default: int) -> Integers:
    """Return a column of numbers, with this one where it is null."""
    filled = column.cast(pa.int64()).fill_null(default)
    found: Integers = filled.to_numpy()
    return found
