"""The format of `.snapshot` files, which store producer state.

The name of a snapshot is an offset: it covers the log below that offset. As in Kafka, a snapshot
has only the last batch of each producer. So after a restart a duplicate is recognized if it is that
batch or a batch that was replayed after the snapshot.

    version int16 | CRC-32C uint32 of all that follows | count int32 | entries of 46 bytes
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
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


def format_snapshot(producers: Iterable[Producer]) -> bytes:
    """Encode producers as a snapshot."""
    entries = [_ENTRY.pack(*_fields(producer)) for producer in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def parse_snapshot(content: Buffer) -> list[Producer]:
    """Decode a snapshot; CorruptRecords if it is damaged."""
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


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first = fields
    batches: deque[RememberedBatch] = deque(maxlen=BATCHES_REMEMBERED)
    if last_offset >= 0:
        batches.append(RememberedBatch(sequence, last_offset, delta, timestamp))
    return Producer(producer_id, epoch, coordinator, timestamp, max(first, NO_OFFSET), batches)
