"""Records whose values cannot be read, written to a topic of their own.

A letter is the record as it was, with its key, value, headers and time; further headers, the same
as those of `RetryTopics`, say why and where it came from. Letters are acknowledged before Spark
gets the rows behind them: a task whose letters cannot be written fails. One that is run again
writes its letters again, so that each is there at least once.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.processing.retry_topics import (
    ERROR_TEXT,
    ERROR_TEXT_SIZE_MAX,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TIMESTAMP,
    ORIGIN_TOPIC,
)
from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.settings import ConnectionOptions
from moldau.spark.sink.plain import write_plain
from moldau.spark.source.options import letter_options
from moldau.spark.source.payloads import Reasons

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NAMES: Final = frozenset(
    {ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, ORIGIN_TIMESTAMP, ERROR_TEXT}
)


def send_letters(
    batch: RecordBatch, reasons: Reasons, topic: str, connection: ConnectionOptions
) -> None:
    """Write the rows that have a reason, as they were read from their topic; wait for the broker.

    UserError if they cannot be written.
    """
    write_plain(letter_options(connection, topic), [letters(batch, reasons)])


def letters(batch: RecordBatch, reasons: Reasons) -> RecordBatch:
    """Return the rows that have a reason as records to be written.

    A time before 1970, such as that of a record without any, or one too far away for Spark is none
    that can be written: such a letter has the time of its writing.
    """
    places = sorted(reasons)
    bad = batch.take(pa.array(places, pa.int64()))
    rows = bad.drop_columns(["key", "value", "timestamp"]).to_pylist()
    times_us = bad.column("timestamp").cast(pa.int64())  # Python has no dates from 10000 on
    headers = [
        _headers(row, time_us, reasons[place])
        for place, row, time_us in zip(places, rows, times_us.to_pylist(), strict=True)
    ]
    columns = {name: bad.column(name) for name in ("key", "value", "timestamp")}
    none = pa.scalar(None, columns["timestamp"].type)
    columns["timestamp"] = pc.if_else(pc.less(times_us, 0), none, columns["timestamp"])
    return pa.record_batch({**columns, "headers": pa.array(headers, _HEADERS)})


def _headers(
    row: dict[str, Any], time_us: int | None, reason: str
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record, and what is to be known of its failure."""
    ours: dict[str, bytes | None] = {
        ORIGIN_TOPIC: row["topic"].encode(),
        ORIGIN_PARTITION: b"%d" % row["partition"],
        ORIGIN_OFFSET: b"%d" % row["offset"],
    }
    if time_us is not None:
        ours[ORIGIN_TIMESTAMP] = b"%d" % (time_us // 1000)
    ours[ERROR_TEXT] = reason.encode(errors="replace")[:ERROR_TEXT_SIZE_MAX]
    before = [(one["key"], one["value"]) for one in row["headers"] or ()]
    return [*(one for one in before if one[0] not in _NAMES), *ours.items()]
