"""What columns of records are made of, and what they are read from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moldau.base.files import Buffer
from moldau.records.batch import BatchHeader

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64] | slice
"""Some rows by their numbers, or all of them."""


class Part(NamedTuple):
    """Where the uncompressed records of one batch lie, and from which offset on they are wanted."""

    header: BatchHeader
    start: int
    end: int
    first_wanted: int = 0


class Slices(NamedTuple):
    """Byte strings somewhere in the data, one behind the other; a size of -1 is null."""

    starts: Integers
    sizes: Integers

    def at(self, rows: Rows) -> Slices:
        """Return those in some rows only."""
        return Slices(self.starts[rows], self.sizes[rows])

    def put(self, rows: Rows, others: Slices) -> None:
        """Put others into some rows."""
        self.starts[rows], self.sizes[rows] = others


class Columns(NamedTuple):
    """Records, side by side."""

    data: Buffer
    """What all positions are positions in."""
    offsets: Integers
    timestamps: Integers
    append_times: npt.NDArray[np.bool_]
    """Whether the timestamp is the leader's."""
    keys: Slices
    values: Slices
    headers: Slices
    """What follows the values, from the count of headers to the end of the record."""

    def at(self, rows: Rows) -> Columns:
        """Return some rows only."""
        return Columns(
            self.data,
            self.offsets[rows],
            self.timestamps[rows],
            self.append_times[rows],
            self.keys.at(rows),
            self.values.at(rows),
            self.headers.at(rows),
        )

    def put(self, rows: Rows, others: Columns) -> None:
        """Put others into some rows."""
        self.offsets[rows] = others.offsets
        self.timestamps[rows] = others.timestamps
        self.append_times[rows] = others.append_times
        self.keys.put(rows, others.keys)
        self.values.put(rows, others.values)
        self.headers.put(rows, others.headers)


class HeaderColumns(NamedTuple):
    """The headers of all records, one behind the other."""

    counts: Integers
    """By record."""
    keys: Slices
    values: Slices


def empty_columns(data: Buffer, count: int) -> Columns:
    """Make room for so many records."""
    offsets, timestamps, *others = (np.empty(count, np.int64) for _ in range(8))
    keys, values, headers = (Slices(*others[first : first + 2]) for first in (0, 2, 4))
    return Columns(data, offsets, timestamps, np.empty(count, np.bool_), keys, values, headers)
