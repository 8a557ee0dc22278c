"""The columns of a topic, to Spark and to Arrow: those of Spark's own Kafka source.

Every column may be null, to Spark's planner as well; so it is there. What `payloads` makes of
values changes the type of `value` and adds `_corrupt`, for what could not be read, unless that goes
to a topic for dead letters. Where records are cut that are too large, `size` tells which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.engine.arrow_batches import ArrowForm, RecordBatch
from moldau.spark.settings import Options
from moldau.spark.source.options import MAX_RECORD_BYTES
from moldau.spark.source.value_options import ValueFormat, ValueOptions

SIZE: Final = "size"
"""The column that tells how large records were, where those that are too large are cut."""

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def spark_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns that a query with these options has."""
    read = Options(options)
    value, *corrupt = _value_fields(ValueOptions.from_options(read))
    fields = [
        StructField("key", BinaryType()),
        value,
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if read.flag("includeHeaders", default=False):
        fields.append(StructField("headers", ArrayType(_HEADER)))
    if MAX_RECORD_BYTES in read:
        fields.append(StructField(SIZE, LongType()))
    return StructType([*fields, *corrupt])


def _value_fields(values: ValueOptions) -> list[StructField]:
    """Return the column of values, and that of what could not be read, if there is one."""
    if values.format is ValueFormat.BINARY:
        return [StructField("value", BinaryType())]
    # Not for queries that take values as bytes: every process of theirs would start later.
    from moldau.spark.source.payloads import CORRUPT, value_type  # noqa: PLC0415

    fields = [StructField("value", value_type(values))]
    if values.dead_letter_topic is None:
        fields.append(StructField(CORRUPT, BinaryType()))
    return fields


def arrow_form(*, include_headers: bool) -> ArrowForm:
    """Return the form of record batches that Spark takes for these columns."""
    return ArrowForm(headers=include_headers, dictionary_topics=False, time_unit="us")


def as_spark_has_it(batch: RecordBatch) -> RecordBatch:
    """Return a record batch in which records without headers have null, as in Spark's own source.

    The client has an empty list there.
    """
    place = batch.schema.get_field_index("headers")
    if place < 0:
        return batch
    headers = batch.column(place)
    offsets = headers.offsets
    none = np.diff(offsets.to_numpy()) == 0
    columns = batch.columns
    columns[place] = pa.ListArray.from_arrays(
        offsets, headers.values, type=headers.type, mask=pa.array(none)
    )
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
