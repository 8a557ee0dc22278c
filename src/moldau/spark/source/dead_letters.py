"""Records whose values cannot be read, written to a topic of their own.

A letter is the record as it was, with its key, value, headers and time; further headers, the same
as those of `RetryTopics`, say why and where it came from. Letters are acknowledged before Spark
gets the rows behind them: a task whose letters cannot be written fails. One that is run again
writes its letters again, so that each is there at least once.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from moldau.client.consuming.arrow_form import RecordBatch
from moldau.client.processing.retry_topics import (
    ERROR_TEXT,
    ERROR_TEXT_SIZE_MAX,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TIMESTAMP,
    ORIGIN_TOPIC,
)
from moldau.spark.settings import ConnectionOptions
from moldau.spark.sink.plain import write_plain
from moldau.spark.source.options import letter_options
from moldau.spark.source.payloads import Reasons

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def send_letters(
    batch: RecordBatch, reasons: Reasons, topic: str, connection: ConnectionOptions
) -> None:
    """Write the rows that have a reason, as they were read from their topic; wait for the broker.

    UserError if they cannot be written.
    """
    write_plain(letter_options(connection, topic), [letters(batch, reasons)])


def letters(batch: RecordBatch, reasons: Reasons) -> RecordBatch:
    """Return the rows that have a reason as records to be written."""
    places = sorted(reasons)
    bad = batch.take(pa.array(places, pa.int64()))
    headers = [
        _headers(row, reasons[place])
        for place, row in zip(places, bad.drop_columns(["key", "value"]).to_pylist(), strict=True)
    ]
    columns = {name: bad.column(name) for name in ("key", "value", "timestamp")}
    return pa.record_batch({**columns, "headers": pa.array(headers, _HEADERS)})


def _headers(row: dict[str, Any], reason: str) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record, and what is to be known of its failure."""
    timestamp_ms = round(row["timestamp"].timestamp() * 1000)
    ours = {
        ORIGIN_TOPIC: row["topic"].encode(),
        ORIGIN_PARTITION: b"%d" % row["partition"],
        ORIGIN_OFFSET: b"%d" % row["offset"],
        ORIGIN_TIMESTAMP: b"%d" % timestamp_ms,
        ERROR_TEXT: reason.encode(errors="replace")[:ERROR_TEXT_SIZE_MAX],
    }
    before = [(one["key"], one["value"]) for one in row["headers"] or ()]
    return [*(one for one in before if one[0] not in ours), *ours.items()]
