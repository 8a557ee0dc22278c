"""What a pipeline's own parser begins with: records, and the time of the batch they came in."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

ORIGIN: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "now")
"""What a parser hands on of a record, beside the columns it adds: its own, `time` (null where it
finds none) and `reason` (what is wrong with the record, null for a good one)."""

RECORD_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a record whose texts have limits of their own, and are far below that: as much as
brokers take unless they are told otherwise. Larger ones are dead letters, and not read."""

TIME_FORM: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
"""ISO 8601; UTC where no zone is named. Spark alone would also take a time without a date, and add
the day on which it happens to read it."""


def with_now(records: DataFrame) -> DataFrame:
    """Add `now`, the time that Spark has written down for the batch.

    It is the same when the batch is run again. It is text: Spark compiles its code anew for every
    number that stands in it, and not for texts.
    """
    return records.withColumn("now", F.current_timestamp().cast("string"))
