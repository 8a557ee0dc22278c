"""Checks of every record of a batch, which list the bad records for the producer (KIP-467).

A batch is appended whole or not at all. If the answer lists the bad records, the producer can
report those and send the others again. The texts are Kafka's.

These checks cost time per record. The event loop runs them for a few records only; see `incoming`.
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
"""At most so many bad records are listed. Kafka lists all, but a small compressed batch may have
millions, and the answer would be a thousand times larger than the request."""

NO_KEY: Final = "Compacted topic cannot accept message without key in topic partition"
"""`in_partition` adds the name of the partition, which is not known here."""

FIRST_NAMED: Final = 3
"""How many bad records the error message shows."""


class BadRecord(NamedTuple):
    """One record for which a batch is refused."""

    batch_index: int
    """Its index in the batch, from 0."""
    why: str


class RecordsRefused(ApiError):  # noqa: N818 - it names what happened
    """A batch is refused because of some of its records; a worker may raise it (it pickles)."""

    def __init__(self, code: ErrorCode, bad: tuple[BadRecord, ...], count: int) -> None:
        super().__init__(code, _message(code, bad, count))
        self.bad = bad
        self.count = count

    def __reduce__(self) -> tuple[type[ApiError], tuple[ErrorCode, tuple[BadRecord, ...], int]]:  # type: ignore[override]
        return type(self), (self.code, self.bad, self.count)

    def in_partition(self, name: str) -> RecordsRefused:
        """Return the same error with the partition in its texts, as in Kafka."""
        named = tuple(
            one._replace(why=f"{NO_KEY} {name}") if one.why == NO_KEY else one for one in self.bad
        )
        return RecordsRefused(self.code, named, self.count)


def append_time_refused(count: int) -> RecordsRefused:
    """Return the error for a batch of a producer with the LogAppendTime attribute."""
    why = "Invalid timestamp type: Producer should not set timestamp type to LogAppendTime."
    bad = tuple(BadRecord(index, why) for index in range(min(count, NAMED_MAX)))
    return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, bad, count)


def check_records(batch: Buffer, config: LogConfig, now_ms: int) -> None:
    """Raise RecordsRefused if the topic refuses a record of a batch of magic 2.

    CorruptRecords if the records are unreadable.
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
    """Return the oldest and the newest timestamp that the topic accepts."""
    if config.message_timestamp_type != "CreateTime":
        return float("-inf"), float("inf")
    return (
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    )


def has_wrong_time(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Return whether the base or the largest timestamp of a batch is out of range.

    A record in between may be older than both. A check of each would cost time per record.
    """
    # This runs for every batch: most are in range, so the type of timestamp is checked later.
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
