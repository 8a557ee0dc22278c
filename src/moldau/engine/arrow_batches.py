"""What Arrow record batches look like, and how records become one.

The columns are those of Spark's Kafka source. Keys and values are copied once, from the bytes of
the answer into Arrow's own buffers, with no Python object per record. Needs the extra `arrow`;
imported only when somebody asks for record batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from moldau.base.files import Buffer
from moldau.engine.partitions import TimestampType, TopicPartition
from moldau.records.column_types import Columns, HeaderColumns, Integers, Slices
from moldau.records.columns import header_columns
from moldau.records.record import Record

RecordBatch = Any
"""`pyarrow.RecordBatch`; pyarrow comes without types."""

_MICROSECONDS_PER_MS: Final = 1000
_MS_MAX: Final = (2**63 - 1) // _MICROSECONDS_PER_MS

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS: Final = pa.list_(_HEADER)


class ArrowForm(NamedTuple):
    """The layout of Arrow record batches."""

    headers: bool = False
    """Whether there is a column `headers`."""
    dictionary_topics: bool = True
    """Whether the topic is dictionary-encoded; some readers need a plain string."""
    time_unit: Literal["ms", "us"] = "us"
    """Spark needs microseconds; a timestamp outside their range becomes null."""

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of record batches with this layout."""
        columns = [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp(self.time_unit, tz="UTC")),
            ("timestampType", pa.int32()),
        ]
        if not self.dictionary_topics:
            columns[2] = ("topic", pa.string())
        if self.headers:
            columns.append(("headers", _HEADERS))
        return pa.schema(columns)


def from_columns(columns: Columns, partition: TopicPartition, form: ArrowForm) -> RecordBatch:
    """Make a record batch. CorruptRecords if headers are asked for and cannot be read."""
    data = pa.py_buffer(columns.data)
    content = (
        _binary(columns.data, data, columns.keys),
        _binary(columns.data, data, columns.values),
    )
    types = columns.append_times.astype(np.int32)
    headers = _headers(columns, data) if form.headers else None
    return _batch(content, columns.offsets, columns.timestamps, types, headers, partition, form)


def from_records(
    records: Sequence[Record],
    types: Sequence[TimestampType],
    partition: TopicPartition,
    form: ArrowForm,
) -> RecordBatch:
    """Make a record batch of records read one by one, as those of old formats are."""
    content = (
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
    )
    headers = pa.array([[] for _ in records], _HEADERS) if form.headers else None
    return _batch(
        content,
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.array(types, np.int32),
        headers,
        partition,
        form,
    )


def _batch(
    content: tuple[Any, Any],
    offsets: Integers,
    timestamps: Integers,
    types: np.ndarray[Any, np.dtype[np.int32]],
    headers: Any,
    partition: TopicPartition,
    form: ArrowForm,
) -> RecordBatch:
    count = len(offsets)
    topics = pa.array([partition.topic], pa.string())
    arrays = [
        *content,
        pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), topics)
        if form.dictionary_topics
        else pa.repeat(topics[0], count),
        pa.array(np.full(count, partition.partition, np.int32)),
        pa.array(offsets),
        _times(timestamps, form),
        pa.array(types),
    ]
    if headers is not None:
        arrays.append(headers)
    return pa.RecordBatch.from_arrays(arrays, schema=form.schema)


def _times(timestamps: Integers, form: ArrowForm) -> Any:
    kind = pa.timestamp(form.time_unit, tz="UTC")
    if form.time_unit == "ms":
        return pa.array(timestamps, kind)
    if timestamps.size and (timestamps.max() > _MS_MAX or timestamps.min() < -_MS_MAX):
        beyond = (timestamps > _MS_MAX) | (timestamps < -_MS_MAX)
        kept = np.where(beyond, 0, timestamps) * _MICROSECONDS_PER_MS
        return pa.array(kept, kind, mask=beyond)
    return pa.array(timestamps * _MICROSECONDS_PER_MS, kind)


def _binary(data: Buffer, buffer: Any, slices: Slices) -> Any:
    """Copy slices of the data into an array of their own."""
    starts, sizes = slices
    count = len(sizes)
    largest = int(sizes.max(initial=-1))
    if largest < 0:
        return pa.nulls(count, pa.binary())
    smallest = int(sizes.min())
    if smallest == largest > 0:
        return _binary_of_one_size(data, starts, largest)
    ends = starts + (sizes if smallest >= 0 else np.maximum(sizes, 0))
    packed = _without_gaps(buffer, starts, ends)
    if smallest >= 0:
        return packed
    _, offsets, content = packed.buffers()
    validity = pa.py_buffer(np.packbits(sizes >= 0, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [validity, offsets, content])


def _binary_of_one_size(data: Buffer, starts: Integers, size: int) -> Any:
    """Copy slices that are all of one size: numpy does it in half the time that Arrow takes."""
    places = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    content = pa.py_buffer(places[starts])
    offsets = pa.py_buffer(np.arange(0, (len(starts) + 1) * size, size, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, offsets, content])


def _without_gaps(buffer: Any, starts: Integers, ends: Integers) -> Any:
    """Take the slices out of an array in which they alternate with the gaps between them."""
    borders = np.empty(2 * len(starts), np.int32)
    borders[0::2] = starts
    borders[1::2] = ends
    alternating = pa.Array.from_buffers(
        pa.binary(), len(borders) - 1, [None, pa.py_buffer(borders), buffer]
    )
    return alternating.take(pa.array(np.arange(0, len(borders), 2)))


def _headers(columns: Columns, buffer: Any) -> Any:
    found: HeaderColumns = header_columns(columns)
    borders = np.zeros(len(found.counts) + 1, np.int32)
    np.cumsum(found.counts, out=borders[1:])
    keys = _texts(_binary(columns.data, buffer, found.keys))
    values = _binary(columns.data, buffer, found.values)
    structs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(borders), structs, type=_HEADERS)


def _texts(keys: Any) -> Any:
    """Read names as UTF-8, patched up where they are not, as Java does."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [key.decode("utf-8", "replace") for key in keys.to_pylist()]
        return pa.array(texts, pa.string())
