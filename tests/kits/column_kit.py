"""What tests of columns share: batches side by side, and columns read back as records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from moldau.base.errors import CorruptRecords
from moldau.records.batch import HEADER_SIZE, iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.column_types import Columns, Part, Slices
from moldau.records.columns import header_columns, read_columns
from moldau.records.record import Record, iter_records


def batch_of(records: Sequence[Record], **options) -> bytes:
    """Return the batch of these records, which begins with the first of them."""
    base_offset = records[0].offset
    builder = BatchBuilder(base_offset=base_offset, **options)
    for offset, timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers, offset_delta=offset - base_offset)
    return builder.build()


def parts_of(data: bytes, first_wanted: int = 0) -> list[Part]:
    """Return where the records of uncompressed batches lie."""
    return [
        Part(
            parse_header(data, span.position),
            span.position + HEADER_SIZE,
            span.position + span.size,
            first_wanted,
        )
        for span in iter_batches(data)
    ]


def rows_of(columns: Columns) -> list[Record]:
    """Read columns back, row by row."""
    found = header_columns(columns)
    headers = list(
        zip(
            [name.decode("utf-8", "replace") for name in _bytes_of(columns, found.keys)],
            _bytes_of(columns, found.values),
            strict=True,
        )
    )
    borders = [0, *found.counts.cumsum().tolist()]
    return [
        Record(offset, timestamp, key, value, tuple(headers[first:end]))
        for offset, timestamp, key, value, (first, end) in zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            _bytes_of(columns, columns.keys),
            _bytes_of(columns, columns.values),
            pairwise(borders),
            strict=True,
        )
    ]


def _bytes_of(columns: Columns, slices: Slices) -> list[bytes | None]:
    data = bytes(columns.data)
    return [
        None if size < 0 else data[start : start + size]
        for start, size in zip(slices.starts.tolist(), slices.sizes.tolist(), strict=True)
    ]


def read_both_ways(data: bytes, parts: Sequence[Part]) -> tuple[object, object]:
    """Read batches as columns and record by record; None for a way that calls them corrupt."""
    try:
        columns = rows_of(read_columns(data, parts))
    except CorruptRecords:
        columns = None
    try:
        plain = [
            record
            for part in parts
            for record in iter_records(part.header, data[part.start : part.end])
        ]
    except CorruptRecords:
        plain = None
    return columns, plain
