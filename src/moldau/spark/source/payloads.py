"""Values read in the source: as text, or by a schema as JSON, Avro or Protocol Buffers.

A value that cannot be read is null, and there is a reason for it; so a query goes on, and what is
bad can be counted, or kept elsewhere. A record without a value has none, and that is no error.

Text and JSON are read a whole column at a time. One bad value fails its column, which is then
halved until the bad ones are alone: records are good as a rule, and pay nothing for those that are
not. Avro and Protocol Buffers have libraries that read one value at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType

from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.source.avro_values import avro_decoder, avro_type
from moldau.spark.source.protobuf_values import protobuf_decoder, protobuf_type
from moldau.spark.source.value_header import (
    NO_HEADER,
    has_header,
    without_header,
    without_message_numbers,
)
from moldau.spark.source.value_options import ValueFormat, ValueOptions
from moldau.spark.source.value_schema import parse_value_schema

CORRUPT: Final = "_corrupt"
VALUE: Final = "value"

Array = Any
"""`pyarrow.Array`; pyarrow comes without types."""
Reasons = Mapping[int, str]
"""By the place of a bad value, why it is that."""


class Parsed(NamedTuple):
    """What was made of a column of values."""

    typed: Array
    """Null where there was no value, and where it was bad."""
    reasons: Reasons


def value_type(options: ValueOptions) -> DataType:
    """Return what values are to Spark; ConfigError if a schema cannot be read."""
    match options.format:
        case ValueFormat.BINARY:
            return BinaryType()
        case ValueFormat.STRING:
            return StringType()
        case ValueFormat.JSON:
            return parse_value_schema(options.schema)
        case ValueFormat.AVRO:
            return avro_type(options.schema)
        case ValueFormat.PROTOBUF:
            return protobuf_type(options.schema, options.message)


def parse_values(values: Array, options: ValueOptions) -> Parsed:
    """Read a column of values."""
    reasons: dict[int, str] = {}
    is_there = np.asarray(values.is_valid())
    if options.has_header:
        is_headed = np.asarray(has_header(values).fill_null(False))
        reasons = dict.fromkeys(np.flatnonzero(is_there & ~is_headed).tolist(), NO_HEADER)
        is_there = is_headed
    places = np.flatnonzero(is_there)
    all_are_there = len(places) == len(values)
    chosen = values if all_are_there else values.take(pa.array(places))
    if options.has_header:
        chosen = without_header(chosen)
    typed, bad = _parser(options)(chosen)
    reasons.update((int(places[place]), reason) for place, reason in bad.items())
    if not all_are_there:
        rows = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        typed = typed.take(rows)
    return Parsed(typed, reasons)


def with_corrupt(batch: RecordBatch, parsed: Parsed) -> RecordBatch:
    """Return a record batch with its values read, and a column with the bytes of bad ones."""
    place = batch.schema.get_field_index(VALUE)
    columns = batch.columns
    corrupt = pa.nulls(batch.num_rows, pa.binary())
    if parsed.reasons:
        corrupt = pc.if_else(_are(parsed.reasons, batch.num_rows), columns[place], corrupt)
    columns[place] = parsed.typed
    return pa.RecordBatch.from_arrays([*columns, corrupt], [*batch.schema.names, CORRUPT])


def without_bad(batch: RecordBatch, parsed: Parsed) -> RecordBatch:
    """Return a record batch with its values read, and without the rows of bad ones."""
    place = batch.schema.get_field_index(VALUE)
    columns = batch.columns
    columns[place] = parsed.typed
    read = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    if not parsed.reasons:
        return read
    return read.filter(pc.invert(_are(parsed.reasons, batch.num_rows)))


def _are(reasons: Reasons, count: int) -> Array:
    """Return of each of so many rows whether it is bad."""
    are = np.zeros(count, bool)
    are[list(reasons)] = True
    return pa.array(are)


# Formats

Parser = Callable[[Array], Parsed]


@functools.lru_cache(maxsize=8)
def _parser(options: ValueOptions) -> Parser:
    """Make what reads values; a worker has one or two queries at a time."""
    if options.format is ValueFormat.STRING:
        return functools.partial(_by_column, pa.string(), _as_text)
    kind = to_arrow_type(value_type(options), timezone="UTC")
    match options.format:
        case ValueFormat.AVRO:
            return functools.partial(_by_value, kind, avro_decoder(options.schema))
        case ValueFormat.PROTOBUF:
            decode = protobuf_decoder(options.schema, options.message)
            if options.has_header:
                return functools.partial(
                    _by_value, kind, lambda value: decode(without_message_numbers(value))
                )
            return functools.partial(_by_value, kind, decode)
    parsing = pj.ParseOptions(
        explicit_schema=pa.schema([("v", kind)]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    return functools.partial(_by_column, kind, functools.partial(_from_json, parsing))


def _by_column(kind: Any, convert: Callable[[Array], Array], values: Array) -> Parsed:
    """Convert values all at once if that works, and by halves if not."""
    if not len(values):
        return Parsed(pa.nulls(0, kind), {})
    try:
        return Parsed(convert(values), {})
    except pa.ArrowInvalid as error:
        if len(values) == 1:
            return Parsed(pa.nulls(1, kind), {0: str(error)})
    half = len(values) // 2
    first, second = (_by_column(kind, convert, part) for part in (values[:half], values[half:]))
    reasons = {**first.reasons, **{half + at: why for at, why in second.reasons.items()}}
    return Parsed(pa.concat_arrays([first.typed, second.typed]), reasons)


def _by_value(kind: Any, decode: Callable[[bytes], Any], values: Array) -> Parsed:
    """Decode values one after the other."""
    found: list[Any] = []
    reasons: dict[int, str] = {}
    for place, value in enumerate(values.to_pylist()):
        try:
            found.append(decode(value))
        except Exception as error:  # noqa: BLE001 - libraries raise whatever they stumble over
            found.append(None)
            reasons[place] = str(error) or type(error).__name__
    try:
        return Parsed(pa.array(found, kind), reasons)
    except (pa.ArrowException, OverflowError):  # a number that its type has no room for
        checked = [_fitting(one, kind) for one in found]
    reasons |= {place: one for place, one in enumerate(checked) if one is not None}
    fitting = [None if place in reasons else one for place, one in enumerate(found)]
    return Parsed(pa.array(fitting, kind), reasons)


def _fitting(found: Any, kind: Any) -> str | None:
    """Return why a value is not of a type; None if it is."""
    try:
        pa.scalar(found, kind)
    except (pa.ArrowException, OverflowError) as error:
        return str(error)
    return None


def _as_text(values: Array) -> Array:
    return values.cast(pa.string())


def _from_json(parsing: Any, values: Array) -> Array:
    """Read values as one document of lines, each put into an object of its own.

    Arrow's reader takes bytes that are no text, and passes over whatever follows a value in its
    object as one more field. So bytes are checked first, and texts are read once more as elements
    of lists, with nothing made of them: a text that goes on as another field is an error there,
    and one that goes on as another element is one here.
    """
    texts = _as_text(values)
    table = _lines('{"v":', texts, "}\n", parsing)
    _lines('{"v":[', texts, "]}\n", _ANYTHING)
    return pa.concat_arrays(table.column(0).chunks)


_ANYTHING: Final = pj.ParseOptions(
    explicit_schema=pa.schema([]), newlines_in_values=True, unexpected_field_behavior="ignore"
)


def _lines(before: str, texts: Array, behind: str, parsing: Any) -> Any:
    """Read a document that has a line for each of some texts; as a table, a row for each.

    Every line begins an object, so that no text can stand for none of the rows, and if there are as
    many rows as texts, each is its text's.
    """
    lines = pc.binary_join_element_wise(before, texts, behind, "")
    _, offsets, content = lines.buffers()
    size = np.frombuffer(offsets, np.int32)[lines.offset + len(lines)]
    reading = pj.ReadOptions(use_threads=False, block_size=int(size) + 1)
    table = pj.read_json(pa.BufferReader(content[:size]), reading, parsing)
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a value is more than one")
    return table
