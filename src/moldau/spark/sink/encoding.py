"""Rows as record batches: whole columns at a time, without an object per row.

Pure. What is written is what `records.builder` writes for the same records. The layout of a record
interleaves numbers of varying size with keys and values, which no array operation copies; but Arrow
joins columns of strings row by row, and the data of the joined column *is* the records, one behind
the other. So the numbers before the key become one column of strings, those between key and value
another, and a batch is a slice of the result.

A row's place in its batch is part of its record. So rows are first dealt out to batches, by
destination and size, and only then written. They are joined in the order in which they came and
moved once, as whole records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moldau.base.errors import UserError
from moldau.base.files import Buffer
from moldau.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from moldau.records.batch import HEADER_SIZE, MAGIC, BatchHeader
from moldau.records.builder import NO_SEQUENCE
from moldau.records.compression import Codec, compress
from moldau.spark.sink.columns import Integers, Strings

_Raw = npt.NDArray[np.uint64]

RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count."""

_NOTHING: Final = pa.scalar(b"", pa.binary())
_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())


class Rows(NamedTuple):
    """Rows side by side, ready to be written; all columns are equally long."""

    keys: Strings | None
    values: Strings
    headers: Headers | None
    timestamps: Integers

    def size_bounds(self) -> Integers:
        """Return the bytes that each row can take at most as a record."""
        bounds = self.values.lengths + RECORD_OVERHEAD_MAX
        if self.keys is not None:
            bounds += self.keys.lengths
        if self.headers is not None:
            bounds += self.headers.written.lengths
        return bounds


class Headers(NamedTuple):
    """The headers of each row as they are written, without their count."""

    counts: Integers
    written: Strings

    @classmethod
    def of(cls, column: Any) -> Headers | None:
        """Write a column of lists of pairs; None if no row has any."""
        counts: Integers = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        pairs = column.flatten()
        if not len(pairs):
            return None
        keys, values = Strings.of(pairs.field("key")), Strings.of(pairs.field("value"))
        if pairs.null_count or keys.array.null_count:
            raise UserError(
                "a row has a header without a key, which no record may have: leave such headers"
                " out of the column `headers`"
            )
        joined = _joined(
            _written(keys.sizes).array, keys.array, _written(values.sizes).array, values.array
        )
        ends = np.append(0, np.cumsum(counts))
        return cls(counts, Strings.made_of(joined.data, joined.bounds[ends]))


class EncodedBatch(NamedTuple):
    """A batch that belongs to no producer yet."""

    header: BatchHeader
    records: Buffer
    """As the header's codec has them."""
    plain_size: int
    """Bytes of the batch before compression."""


class Addressed(NamedTuple):
    """What one destination gets in one batch."""

    destination: int
    batch: EncodedBatch


def encode(
    rows: Rows, destinations: Integers, limit: int, codec: Codec = Codec.NONE,
    level: int | None = None,
) -> Iterator[Addressed]:  # fmt: skip
    """Write rows as batches of at most `limit` bytes; rows of one destination stay in order.

    A destination is any small number. A row that is larger than the limit gets a batch of its own.
    """
    if not destinations.size:
        return
    order = _order(destinations)
    deal = _dealt(rows.size_bounds()[order], destinations[order], limit - HEADER_SIZE)
    times = rows.timestamps[order]
    base_times, max_times = times[deal.firsts], np.maximum.reduceat(times, deal.firsts)
    records = _records(
        rows, deal.places_in(order), _unordered(times - np.repeat(base_times, deal.counts), order)
    )
    if not isinstance(order, slice):
        records = Strings.of(records.array.take(pa.array(order)))
    cuts = records.bounds[np.append(deal.firsts, len(destinations))].tolist()
    ways = destinations[order][deal.firsts].tolist()
    for number, way in enumerate(ways):
        payload = memoryview(records.data.data)[cuts[number] : cuts[number + 1]]
        count = int(deal.counts[number])
        header = BatchHeader(
            0, 0, NO_LEADER_EPOCH, MAGIC, 0, codec, count - 1,
            int(base_times[number]), int(max_times[number]),
            NO_PRODUCER_ID, -1, NO_SEQUENCE, count,
        )  # fmt: skip
        size = HEADER_SIZE + len(payload)
        packed = payload if codec is Codec.NONE else compress(codec, payload, level)
        yield Addressed(way, EncodedBatch(header, packed, size))


class _Deal(NamedTuple):
    """Which rows, in order of their destinations, make up each batch."""

    firsts: Integers
    counts: Integers

    def places_in(self, order: Integers | slice) -> Integers:
        """Return each row's place in its batch, in the order in which the rows came."""
        total = int(self.counts.sum())
        return _unordered(np.arange(total) - np.repeat(self.firsts, self.counts), order)


def _order(destinations: Integers) -> Integers | slice:
    """Return what brings rows of one destination together; nothing, if there is only one."""
    most = int(destinations.max())
    if most == int(destinations.min()):
        return slice(None)
    # Numbers of two bytes are sorted several times faster: by their digits, not by comparing.
    narrow = destinations.astype(np.uint16) if most < 2**16 else destinations
    return np.argsort(narrow, kind="stable")


def _unordered(values: Integers, order: Integers | slice) -> Integers:
    """Put values back into the order in which the rows came."""
    if isinstance(order, slice):
        return values
    back = np.empty_like(values)
    back[order] = values
    return back


def _dealt(sizes: Integers, destinations: Integers, room: int) -> _Deal:
    """Deal rows out to batches: as many as have room, and never of two destinations."""
    behind = np.cumsum(sizes)
    turns = np.append(np.flatnonzero(np.diff(destinations)) + 1, len(destinations)).tolist()
    firsts: list[int] = []
    first = 0
    for turn in turns:
        while first < turn:
            firsts.append(first)
            taken = int(behind[first - 1]) if first else 0
            fitting = int(np.searchsorted(behind, taken + room, side="right"))
            first = min(turn, max(fitting, first + 1))
    starts = np.array(firsts, np.int64)
    return _Deal(starts, np.diff(np.append(starts, len(destinations))))


def _records(rows: Rows, places: Integers, time_deltas: Integers) -> Strings:
    """Write each row as the record it is at its place in its batch."""
    key_sizes = _NO_SIZE if rows.keys is None else rows.keys.sizes
    before_key = [_zigzag(time_deltas), _zigzag(places), _zigzag(key_sizes)]
    before_value = _written(rows.values.sizes)
    lengths = 1 + rows.values.lengths + before_value.lengths
    for raw in before_key:
        lengths += _varint_sizes(raw)
    if rows.keys is not None:
        lengths += rows.keys.lengths
    tail: list[Any] = [_NO_HEADERS]
    if rows.headers is None:
        lengths += 1
    else:
        counts = _written(rows.headers.counts)
        lengths += counts.lengths + rows.headers.written.lengths
        tail = [counts.array, rows.headers.written.array]
    head = _varints([_zigzag(lengths), _ATTRIBUTES, *before_key], len(places))
    key = [] if rows.keys is None else [rows.keys.array]
    return _joined(head.array, *key, before_value.array, rows.values.array, *tail)


_NO_SIZE: Final = np.array([-1], np.int64)
_ATTRIBUTES: Final = np.array([0], np.uint64)
"""The one byte of a record's attributes, none of which exists, is also the varint of zero."""


def _joined(*columns: Any) -> Strings:
    """Join columns of strings row by row; null is nothing."""
    joined = pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace")
    return Strings.of(joined)


def _zigzag(numbers: Integers) -> _Raw:
    """Put small numbers of either sign first."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varint_sizes(raw: _Raw) -> Integers:
    """Return the bytes that each number takes."""
    sizes = np.ones(len(raw), np.int64)
    most, bits = int(raw.max()), 7
    while most >> bits:
        sizes += raw >= np.uint64(1 << bits)
        bits += 7
    return sizes


def _written(numbers: Integers) -> Strings:
    """Write one number for each row."""
    return _varints([_zigzag(numbers)], len(numbers))


def _varints(fields: Sequence[_Raw], count: int) -> Strings:
    """Write several numbers for each row, one behind the other; a field of one is every row's.

    All numbers are first written as wide as the widest of their field; what a number does not need
    of that is then left out.
    """
    widths = [_width(raw) for raw in fields]
    cells = np.empty((count, sum(widths)), np.uint8)
    used = np.ones(cells.shape, np.bool_)
    sizes = np.full(count, len(fields), np.int64)
    column = 0
    for raw, width in zip(fields, widths, strict=True):
        for place in range(width):
            rest = raw >> np.uint64(7 * place)
            cell = (rest & _SEVEN_BITS).astype(np.uint8)
            if place < width - 1:
                cell |= (rest > _SEVEN_BITS).view(np.uint8) << 7
            cells[:, column] = cell
            if place:
                used[:, column] = rest > 0
                sizes += used[:, column]
            column += 1
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return Strings.made_of(cells[used], bounds)


def _width(raw: _Raw) -> int:
    return max(1, -(-int(raw.max()).bit_length() // 7))


_SEVEN_BITS: Final = np.uint64(0x7F)
