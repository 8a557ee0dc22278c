"""Batches, right and wrong, and the requests that carry and fetch them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.records.batch import HEADER_SIZE, BatchHeader, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec

from .peer import NO_TOPIC_ID, Peer

TIME = 1_700_000_000_000
"""The time of every record that does not say otherwise; some years ago."""


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    times: Sequence[int] = (),
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Build a batch of records, one for each value (one record if there is none)."""
    builder = BatchBuilder(
        codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
        control=control,
    )
    for number, value in enumerate(values or (b"v",)):
        builder.append(times[number] if times else TIME + number, key, value)
    return builder.build()


def changed(data: bytes, **fields: Any) -> bytes:
    """Change header fields of a batch and seal it again, so that only they are wrong."""
    header: BatchHeader = parse_header(data)._replace(**fields)
    return pack_batch(header, data[HEADER_SIZE:])


def patched(data: bytes, position: int, replacement: bytes) -> bytes:
    """Overwrite bytes and leave the checksum as it was."""
    return data[:position] + replacement + data[position + len(replacement) :]


def produce(
    peer: Peer,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 5000,
    topic_id: bytes | None = None,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Send bytes as the records of one partition, named by name and by id."""
    if topic_id is None:
        topic_id = peer.topic_id(topic) if topic in peer.names.topics.values() else NO_TOPIC_ID
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    return ProduceRequest(transactional_id, acks, timeout_ms, [data])


def fetch(
    peer: Peer,
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    topic_id: bytes | None = None,
    **fields: Any,
) -> FetchRequest:
    """Ask for one partition, named by name and by id, without waiting."""
    if topic_id is None:
        topic_id = peer.topic_id(topic) if topic in peer.names.topics.values() else NO_TOPIC_ID
    wanted = FetchPartition(
        partition,
        current_leader_epoch,
        offset,
        last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    fields.setdefault("min_bytes", 1)
    return FetchRequest(topics=[FetchTopic(topic, topic_id, [wanted])], **fields)
