"""The columns of a topic, to Spark and to Arrow: those of Spark's own Kafka source.

Every column may be null, to Spark's planner as well; so it is there. What `payloads` makes of
values changes the type of `value` and adds `_corrupt`, for what could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.client.consuming.arrow_form import ArrowForm, RecordBatch
from moldau.spark.settings import Options
from moldau.spark.source.options import ValueFormat, value_format
from moldau.spark.source.value_schema import parse_value_schema

CORRUPT: Final = "_corrupt"

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def spark_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns that a query with these options has."""
    read = Options(options)
    kind = value_format(read)
    fields = [
        StructField("key", BinaryType()),
        StructField("value", _value_type(kind, read.text("valueSchema"))),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if read.flag("includeHeaders", default=False):
        fields.append(StructField("headers", ArrayType(_HEADER)))
    if kind is not ValueFormat.BINARY:
        fields.append(StructField(CORRUPT, BinaryType()))
    return StructType(fields)


def _value_type(kind: ValueFormat, schema: str | None) -> DataType:
    if kind is ValueFormat.JSON:
        return parse_value_schema(schema or "")
    return StringType() if kind is ValueFormat.STRING else BinaryType()


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
