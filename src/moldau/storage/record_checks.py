"""Looking at every record of a batch, and naming those that make a leader refuse it (KIP-467).

A batch is appended whole or not at all. A producer that is told which records were bad can report
those, and send the others again. The texts are Kafka's.

This is work for each record. The event loop does it for a few records at most; see `incoming`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.base.files import Buffer
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader, parse_header
from moldau.records.builder import NO_TIMESTAMP
from moldau.records.record import RecordSpan, iter_spans, payload_of
from moldau.storage.topic_config import LogConfig

NAMED_MAX: Final = 1000
"""So many bad records are named. Kafka names all, but a small compressed batch may hold millions:
a client would make the broker build an answer that is a thousand times its request."""

NO_KEY: Final = "Compacted topic cannot accept message without key in topic partition"
"""The name of the partition follows, which is not known here."""

FIRST_NAMED: Final = 3
"""How many of the bad records a message for people repeats."""


class BadRecord(NamedTuple):
    """One record that makes a leader refuse its batch."""

    batch_index: int
    """Its place in the batch, from 0."""
    why: str


class RecordsRefused(ApiError):  # noqa: N818 - it names what happened
    """A batch is refused because of some of its records; it pickles, to come from a worker."""

    def __init__(self, code: ErrorCode, bad: tuple[BadRecord, ...], count: int) -> None:
        super().__init__(code, _message(code, bad, count))
        self.bad = bad
        self.count = count

    def __reduce__(self) -> tuple[type[ApiError], tuple[ErrorCode, tuple[BadRecord, ...], int]]:  # type: ignore[override]
        return type(self), (self.code, self.bad, self.count)

    def in_partition(self, name: str) -> RecordsRefused:
        """Return the same with texts that name the partition, as Kafka's do."""
        named = tuple(
            one._replace(why=f"{NO_KEY} {name}") if one.why == NO_KEY else one for one in self.bad
        )
        return RecordsRefused(self.code, named, self.count)


def append_time_refused(count: int) -> RecordsRefused:
    """Refuse a batch whose producer claims to know when the leader appends it."""
    why = "Invalid timestamp type: Producer should not set timestamp type to LogAppendTime."
    bad = tuple(BadRecord(index, why) for index in range(min(count, NAMED_MAX)))
    return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, bad, count)


def check_records(batch: Buffer, config: LogConfig, now_ms: int) -> None:
    """Raise RecordsRefused if the topic cannot take all records of a batch of magic 2.

    CorruptRecords if they cannot be read.
    """
    header = parse_header(batch)
    takes_no_key = not config.compacts
    oldest, newest = _time_window(config, now_ms)
    bad: list[BadRecord] = []
    count, code = 0, ErrorCode.INVALID_RECORD
    for index, span in enumerate(iter_spans(header, payload_of(header, batch))):
        timestamp = span.timestamp
        has_key = takes_no_key or span.key is not None
        if has_key and (oldest <= timestamp <= newest or timestamp == NO_TIMESTAMP):
            continue
        count += 1
        if has_key:
            code = ErrorCode.INVALID_TIMESTAMP
        if count <= NAMED_MAX:
            why = _wrong_time(span, oldest, newest) if has_key else NO_KEY
            bad.append(BadRecord(index, why))
    if count:
        raise RecordsRefused(code, tuple(bad), count)


def _time_window(config: LogConfig, now_ms: int) -> tuple[float, float]:
    """Return the oldest and the newest timestamp that the topic takes from a producer."""
    if config.message_timestamp_type != "CreateTime":
        return float("-inf"), float("inf")
    return (
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    )


def has_wrong_time(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Tell whether the first or the newest timestamp of a batch is outside of the window.

    Records in between may be older than both; looking at each would cost more than it protects.
    """
    # This runs for every batch: the usual one is in the window of any type of timestamp.
    oldest = now_ms - config.message_timestamp_before_max_ms
    newest = now_ms + config.message_timestamp_after_max_ms
    if oldest <= header.base_timestamp <= newest and oldest <= header.max_timestamp <= newest:
        return False
    if config.message_timestamp_type != "CreateTime":
        return False
    return any(
        timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest
        for timestamp in (header.base_timestamp, header.max_timestamp)
    )


def _wrong_time(span: RecordSpan, oldest: float, newest: float) -> str:
    return (
        f"Timestamp {span.timestamp} of message with offset {span.offset} is out of range."
        f" The timestamp should be within [{oldest}, {newest}]"
    )


def _message(code: ErrorCode, bad: tuple[BadRecord, ...], count: int) -> str:
    if code is ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(
        f"RecordError(batchIndex={one.batch_index}, message='{one.why}')"
        for one in bad[:FIRST_NAMED]
    )
    return (
        f"One or more records have been rejected due to {count} record errors in total,"
        f" and only showing the first three errors at most: [{shown}]"
    )
