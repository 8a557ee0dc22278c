"""The format of `.snapshot` files, which store producer state.

The name of a snapshot is an offset: it covers the log below that offset. In Kafka a snapshot has
one entry for each producer, with its last batch. After a restart from it, only that batch is
recognized as a duplicate. A producer repeats up to five: of those that a leader appended and could
not acknowledge before it stopped, the earlier ones would be out of order.

So a *complete* snapshot has an entry for each of the five, the last one last. Kafka reads them,
too: a later entry of a producer replaces the earlier one. A snapshot that a log stores while it is
written to has Kafka's entries alone, because clients wait meanwhile.

    version int16 | CRC-32C uint32 of all that follows | count int32 | entries of 46 bytes
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer, Files, read_whole
from moldau.base.ids import NO_OFFSET
from moldau.records.checksum import crc32c
from moldau.storage.producers import BATCHES_REMEMBERED, NO_SEQUENCE, Producer, RememberedBatch

SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_ENTRIES_POSITION = _HEAD.size + _COUNT.size


def snapshot_name(offset: int) -> str:
    """Return the name of the snapshot that covers the log below this offset."""
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def format_snapshot(producers: Iterable[Producer], *, complete: bool = False) -> bytes:
    """Encode producers as a snapshot; a complete one has all their remembered batches."""
    entries: list[bytes] = []
    for producer in producers:
        if complete:
            entries += [_ENTRY.pack(*fields) for fields in _earlier_fields(producer)]
        entries.append(_ENTRY.pack(*_fields(producer)))
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def parse_snapshot(content: Buffer) -> list[Producer]:
    """Decode a snapshot; CorruptRecords if it is damaged."""
    found: dict[int, Producer] = {}
    for producer in parse_entries(content):
        earlier = found.get(producer.producer_id)
        if earlier is not None and earlier.epoch == producer.epoch:
            earlier.batches.extend(producer.batches)
            producer.batches = earlier.batches
        found[producer.producer_id] = producer
    return list(found.values())


def parse_entries(content: Buffer) -> list[Producer]:
    """Decode the entries of a snapshot, each as a producer; CorruptRecords if it is damaged."""
    view = memoryview(content)
    if len(view) < _ENTRIES_POSITION:
        raise CorruptRecords(f"a producer snapshot of {len(view)} bytes is too short")
    version, stored_crc = _HEAD.unpack_from(view)
    if version != _VERSION:
        raise CorruptRecords(
            f"producer snapshot version {version} is not known, only {_VERSION} is"
        )
    computed_crc = crc32c(view[_HEAD.size :])
    if stored_crc != computed_crc:
        raise CorruptRecords(f"producer snapshot CRC {stored_crc} stored, {computed_crc} computed")
    (count,) = _COUNT.unpack_from(view, _HEAD.size)
    entries = view[_ENTRIES_POSITION:]
    if count < 0 or len(entries) != count * _ENTRY.size:
        raise CorruptRecords(f"producer snapshot of {count} entries in {len(entries)} bytes")
    return [_producer(fields) for fields in _ENTRY.iter_unpack(entries)]


def read_snapshot(files: Files, path: str) -> list[Producer]:
    """Read a snapshot file; CorruptRecords with its path if it is damaged."""
    try:
        return parse_snapshot(read_whole(files, path))
    except CorruptRecords as error:
        raise CorruptRecords(f"{path}: {error}") from error


def _fields(producer: Producer) -> tuple[int, ...]:
    last = (
        producer.batches[-1] if producer.batches else RememberedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
    )
    return (
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def _earlier_fields(producer: Producer) -> Iterator[tuple[int, ...]]:
    """Return the entries of all batches but the last; none of them opens a transaction."""
    for batch in list(producer.batches)[:-1]:
        yield (
            producer.producer_id,
            producer.epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp,
            producer.coordinator_epoch,
            NO_OFFSET,
        )


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first = fields
    batches: deque[RememberedBatch] = deque(maxlen=BATCHES_REMEMBERED)
    if last_offset >= 0:
        batches.append(RememberedBatch(sequence, last_offset, delta, timestamp))
    return Producer(producer_id, epoch, coordinator, timestamp, max(first, NO_OFFSET), batches)
