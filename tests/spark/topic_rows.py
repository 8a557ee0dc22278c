"""Records as rows: what tests send to topics and what they find there, for any connector.

They are written and read by a client that is neither ours nor Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentPartition

CREATE_TIME = 0
"""What Spark and Kafka number timestamps that the producer has set."""

FIRST_MS = 1_700_000_000_000
_TIMEOUT_S = 60
_SELECTED = (
    "key", "value", "topic", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms",
    "timestampType",
)  # fmt: skip

Headers = tuple[tuple[str, bytes | None], ...]


class TopicRow(NamedTuple):
    """One record as a row of either connector holds it."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int = CREATE_TIME
    headers: Headers | None = None


def numbered_rows(topic: str, partitions: int, count: int) -> list[TopicRow]:
    """Return `count` rows for each partition, with all that is easily confused: null, empty."""
    keys = (b"key", b"", None)
    values = (b"value", b"", None, b"moldau " * 100)
    headers: tuple[Headers | None, ...] = (
        None,
        (("a", b"1"), ("a", b"2")),
        (("null", None), ("empty", b"")),
    )
    return [
        TopicRow(
            keys[offset % 3] and keys[offset % 3] + b"%d" % offset,
            values[offset % 4] and values[offset % 4] + b"%d" % offset,
            topic,
            partition,
            offset,
            FIRST_MS + 1000 * offset + partition,
            headers=headers[offset % 3],
        )
        for partition in range(partitions)
        for offset in range(count)
    ]


def send_rows(address: str, rows: Iterable[TopicRow], **settings: object) -> None:
    """Write rows to the partitions they name, in order, and wait until all are acknowledged."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **settings})
    failures: list[object] = []
    transactional = "transactional.id" in settings
    if transactional:
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
    for row in rows:
        producer.produce(
            row.topic,
            row.value,
            row.key,
            row.partition,
            timestamp=row.timestamp_ms,
            headers=list(row.headers or ()),
            on_delivery=lambda error, _: error and failures.append(error),
        )
    if producer.flush(_TIMEOUT_S) or failures:
        raise AssertionError(f"not everything was acknowledged: {failures}")
    if transactional:
        producer.commit_transaction(_TIMEOUT_S)


def stored_rows(address: str, topic: str, partitions: int = 1) -> list[TopicRow]:
    """Return all that a topic holds and that is committed, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    rows: list[TopicRow] = []
    try:
        for partition in range(partitions):
            consumer.assign([ConfluentPartition(topic, partition, OFFSET_BEGINNING)])
            while (message := consumer.poll(_TIMEOUT_S)) is not None and message.error() is None:
                rows.append(_row(message))
            assert message is not None, f"{topic}-{partition} could not be read to its end"
            assert message.error().code() == KafkaError._PARTITION_EOF
    finally:
        consumer.close()
    return rows


def collected(frame, *, headers: bool = False) -> list[TopicRow]:
    """Return the rows of a frame that either connector has read, by partition and offset."""
    selected = frame.selectExpr(*_SELECTED, *(["headers"] if headers else []))
    return sorted(map(_from_spark, selected.collect()), key=lambda row: (row.partition, row.offset))


def without_headers(rows: Sequence[TopicRow]) -> list[TopicRow]:
    """Return rows as a reader sees them who has not asked for headers."""
    return [row._replace(headers=None) for row in rows]


def _row(message) -> TopicRow:
    kind, timestamp_ms = message.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    headers = message.headers()
    return TopicRow(
        message.key(),
        message.value(),
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms,
        headers=tuple(headers) if headers else None,
    )


def _from_spark(row) -> TopicRow:
    key, value, *middle = row[:7]
    headers = row.asDict().get("headers")
    return TopicRow(
        _bytes(key),
        _bytes(value),
        *middle,
        headers=headers and tuple((header.key, _bytes(header.value)) for header in headers),
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
