"""Values read in the source: as text, or as JSON with a schema; bad ones are kept aside.

A value that cannot be read is null in the column `value`, and its bytes stand in `_corrupt`; so a
query goes on, and can count such records, or write them to a topic of their own. A record without a
value has none in either.

Whole columns are read at a time. One bad value fails its column, which is then halved until the
bad ones are alone: records are good as a rule, and pay nothing for those that are not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_type

from moldau.client.consuming.arrow_form import RecordBatch
from moldau.spark.source.options import SourceOptions, ValueFormat
from moldau.spark.source.value_schema import parse_value_schema

Array = Any
"""`pyarrow.Array`; pyarrow comes without types."""
Convert = Callable[[Array], Array]

_VALUE: Final = 1
"""The place of the column of values."""


def with_payloads(batch: RecordBatch, options: SourceOptions) -> RecordBatch:
    """Return a record batch with its values read, if that is asked for."""
    if options.value_format is ValueFormat.BINARY:
        return batch
    kind, convert = _reader(options.value_format, options.value_schema or "")
    values = batch.column(_VALUE)
    present = values.drop_null()
    good: list[Array] = []
    bad: list[bool] = []
    if len(present):
        _salvage(present, kind, convert, good, bad)
    typed, corrupt = _spread(values, present, pa.chunked_array(good, kind), bad)
    columns = batch.columns
    columns[_VALUE] = typed
    names = [*batch.schema.names, "_corrupt"]
    return pa.RecordBatch.from_arrays([*columns, corrupt], names)


def _salvage(
    values: Array, kind: Any, convert: Convert, good: list[Array], bad: list[bool]
) -> None:
    """Convert values, all at once if that works; note which could not be."""
    try:
        converted = convert(values)
    except pa.ArrowInvalid:
        if len(values) == 1:
            good.append(pa.nulls(1, kind))
            bad.append(True)
            return
        half = len(values) // 2
        _salvage(values[:half], kind, convert, good, bad)
        _salvage(values[half:], kind, convert, good, bad)
    else:
        good.append(converted)
        bad += [False] * len(values)


def _spread(values: Array, present: Array, converted: Any, bad: list[bool]) -> tuple[Array, Array]:
    """Put what was made of values beside the records that have none."""
    typed = (
        pa.concat_arrays(converted.chunks) if converted.num_chunks else pa.nulls(0, converted.type)
    )
    corrupt = (
        pc.if_else(pa.array(bad), present, None) if any(bad) else pa.nulls(len(bad), pa.binary())
    )
    if len(present) == len(values):
        return typed, corrupt
    there = np.asarray(values.is_valid())
    rows = pa.array(np.cumsum(there) - 1, mask=~there)
    return typed.take(rows), corrupt.take(rows)


def _as_text(values: Array) -> Array:
    return values.cast(pa.string())


@functools.lru_cache(maxsize=8)
def _reader(form: ValueFormat, schema: str) -> tuple[Any, Convert]:
    """Make what reads values, and tell as what; a worker has one or two queries at a time."""
    if form is ValueFormat.STRING:
        return pa.string(), _as_text
    kind = to_arrow_type(parse_value_schema(schema))
    parsing = pj.ParseOptions(
        explicit_schema=pa.schema([("v", kind)]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    return kind, functools.partial(_from_json, parsing)


def _from_json(parsing: Any, values: Array) -> Array:
    """Read values as one document of lines, each put into an object of its own.

    Like that no value can stand for none of the rows, and if there are as many rows as values,
    each is its value's.
    """
    lines = pc.binary_join_element_wise(
        pa.scalar(b'{"v":'), values, pa.scalar(b"}\n"), pa.scalar(b"")
    )
    _, offsets, content = lines.buffers()
    size = np.frombuffer(offsets, np.int32)[lines.offset + len(lines)]
    reading = pj.ReadOptions(use_threads=False, block_size=int(size) + 1)
    table = pj.read_json(pa.BufferReader(content[:size]), reading, parsing)
    if table.num_rows != len(values):
        raise pa.ArrowInvalid("a value is more than one")
    return pa.concat_arrays(table.column(0).chunks)
