"""Cleaning one batch: the second of the two passes of a cleaning.

The records to keep are copied as runs of bytes. Offsets and timestamps in a record are relative to
the batch header, so a record does not change when others are removed. Only the header is rewritten,
with a new count, largest timestamp and checksum. A batch that keeps all its records is copied
unchanged, compressed or not. A batch with a wrong checksum is never rewritten: a new checksum would
hide the damage.

One exception: the first cleaning that meets a tombstone, or a marker whose transaction has no
records left, sets their delete horizon. It replaces the base timestamp, an attribute bit marks it,
and the timestamp deltas of the records are adjusted (KIP-534).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.limits import INFLATED_BATCH_BYTES
from moldau.records.batch import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    BatchHeader,
    crc_ok,
    pack_batch,
    parse_header,
)
from moldau.records.builder import NO_TIMESTAMP
from moldau.records.compression import Codec, compress
from moldau.records.record import payload_of
from moldau.records.varint import VARINT, read_varint, read_varlong
from moldau.storage.compaction.keys import NULL
from moldau.storage.compaction.scan import record_starts

NO_OFFSET: Final = -1
NO_POSITION: Final = -1


class Source(NamedTuple):
    """A batch in the bytes that were read."""

    data: bytes
    position: int
    header: BatchHeader

    @property
    def content(self) -> bytes:
        """A copy of the bytes of this batch: a view would keep the whole chunk in memory."""
        return self.data[self.position : self.position + self.header.size]


class Kept(NamedTuple):
    """The new form of a batch that is kept."""

    header: BatchHeader
    content: bytes
    record_count: int


class Survivors(NamedTuple):
    """The records of an uncompressed payload that are kept."""

    runs: list[tuple[int, int]]
    """Their positions; adjacent records are one run."""
    record_count: int
    tombstones: bool
    """Whether a tombstone is among them."""
    timestamps: Sequence[int] = ()
    """The position of each timestamp delta; not needed if all records are kept."""


class _Examined(NamedTuple):
    """Records, and what decides whether they are kept."""

    newest: dict[bytes, int]
    data: bytes
    starts: Sequence[int]
    """Where each record starts, and where the last one ends."""
    base_offset: int
    keep_tombstones: bool


def inflated(source: Source) -> tuple[bytes, int, int]:
    """Return the uncompressed records of a batch: the buffer, their start and their end."""
    data, position, header = source
    if header.codec is Codec.NONE:
        return data, position + HEADER_SIZE, position + header.size
    payload = payload_of(header, data, position, limit=INFLATED_BATCH_BYTES)
    return payload, 0, len(payload)


def clean_data(
    source: Source,
    newest: dict[bytes, int],
    now_ms: int,
    delete_retention_ms: int,
    *,
    staying: Sequence[int] | None = None,
) -> Kept | None:
    """Keep the records that are the newest of their key; None if there are none.

    Tombstones stay until the delete horizon of the batch has passed. A record without a key is
    removed: nothing could ever replace it. It was written before the topic was compacted.

    `staying` has the offsets of the newest records, if all keys of the batch are in the map.
    Looking only at those takes a third of the time if they are few.
    """
    header = source.header
    horizon_passed = header.has_delete_horizon and header.base_timestamp <= now_ms
    payload = inflated(source)
    survivors = _survivors(newest, payload, header, staying, keep_tombstones=not horizon_passed)
    if not survivors.record_count:
        return None
    horizon_ms = None
    if survivors.tombstones and not header.has_delete_horizon:
        horizon_ms = now_ms + delete_retention_ms
    if survivors.record_count == header.count and horizon_ms is None:
        return Kept(header, source.content, header.count)
    return _rewritten(source, payload[0], survivors, horizon_ms)


def clean_control(
    source: Source, now_ms: int, delete_retention_ms: int, *, discardable: bool
) -> Kept | None:
    """Keep a control batch until its delete horizon, which is set once it is discardable."""
    header = source.header
    if not header.count or (
        discardable and header.has_delete_horizon and header.base_timestamp <= now_ms
    ):
        return None
    if not discardable or header.has_delete_horizon:
        return Kept(header, source.content, header.count)
    payload, start, end = inflated(source)
    everything = Survivors([(start, end)], header.count, tombstones=False)
    return _rewritten(source, payload, everything, now_ms + delete_retention_ms)


def emptied(source: Source) -> Kept:
    """Keep only the header, for its producer's sequence and for its last offset."""
    header = source.header._replace(
        attributes=source.header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT),
        base_timestamp=NO_TIMESTAMP,
        count=0,
    )
    content = pack_batch(header, b"")
    return Kept(parse_header(content), content, 0)


def _survivors(
    newest: dict[bytes, int],
    payload: tuple[bytes, int, int],
    header: BatchHeader,
    staying: Sequence[int] | None,
    *,
    keep_tombstones: bool,
) -> Survivors:
    """Find the records to keep; with `staying`, look at those offsets only."""
    data, position, end = payload
    try:
        starts = record_starts(data, position, header.count)
        if starts[-1] == end:
            examined = _Examined(newest, data, starts, header.base_offset, keep_tombstones)
            if staying is not None and _counts_one_by_one(header, staying):
                base_offset = header.base_offset
                numbers = [offset - base_offset for offset in staying]
                survivors, newest_count = _examine(examined, numbers)
                if newest_count == len(numbers):
                    return survivors
            return _examine(examined, range(header.count))[0]
    except (IndexError, StructError):
        pass
    raise CorruptRecords(f"the records of the batch at offset {header.base_offset} are cut")


def _counts_one_by_one(header: BatchHeader, staying: Sequence[int]) -> bool:
    """Return whether the header allows to compute the index of a record from its offset.

    The records may still be numbered otherwise. `_survivors` finds out, because the records at
    these indexes are then not the newest of their keys.
    """
    return header.count == header.last_offset_delta + 1 and len(set(staying)) == len(staying)


def _examine(  # noqa: C901, PLR0912, PLR0915 - where the second pass spends its time
    examined: _Examined, numbers: Sequence[int]
) -> tuple[Survivors, int]:
    """Examine the records of these indexes; return also how many are the newest of their key."""
    newest, data, starts, base_offset, keep_tombstones = examined
    newest_of = newest.get
    runs: list[tuple[int, int]] = []
    run_start = run_end = NO_POSITION
    timestamps: list[int] = []
    newest_count = 0
    tombstones = False
    for number in numbers:
        start, end = starts[number], starts[number + 1]
        position = start
        while data[position] >= 0x80:
            position += 1
        position += 2
        timestamp_position = position
        while data[position] >= 0x80:
            position += 1
        byte = data[position + 1]
        if byte < 0x80:
            delta = byte >> 1
            position += 2
        elif (second := data[position + 2]) < 0x80:
            delta = (byte & 0x7F | second << 7) >> 1
            position += 3
        else:
            delta, position = read_varint(data, position + 1)
        byte = data[position]
        if byte == NULL:
            continue
        if byte < 0x80:
            position += 1
            key_end = position + (byte >> 1)
        else:
            length, position = read_varint(data, position)
            key_end = position + length
        if not position <= key_end < end:
            raise CorruptRecords(f"a key ends at {key_end} in a record that ends at {end}")
        if newest_of(data[position:key_end], NO_OFFSET) > base_offset + delta:
            continue
        newest_count += 1
        if data[key_end] == NULL:
            if not keep_tombstones:
                continue
            tombstones = True
        timestamps.append(timestamp_position)
        if start != run_end:
            if run_end >= 0:
                runs.append((run_start, run_end))
            run_start = start
        run_end = end
    if run_end >= 0:
        runs.append((run_start, run_end))
    return Survivors(runs, len(timestamps), tombstones, timestamps), newest_count


def _rewritten(
    source: Source, payload: bytes, survivors: Survivors, horizon_ms: int | None
) -> Kept:
    """Build the batch of the records to keep."""
    header = source.header
    if not crc_ok(source.data, source.position, header.size):
        raise CorruptRecords(f"the batch at offset {header.base_offset} does not match its CRC")
    max_timestamp = header.max_timestamp
    if not header.append_time and survivors.record_count < header.count:
        deltas = (read_varlong(payload, position)[0] for position in survivors.timestamps)
        max_timestamp = header.base_timestamp + max(deltas)
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is None:
        view = memoryview(payload)
        records = b"".join([view[start:end] for start, end in survivors.runs])
    else:
        records = _with_deltas_moved(payload, survivors.runs, base_timestamp - horizon_ms)
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = horizon_ms
    cleaned = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=survivors.record_count,
    )
    content = pack_batch(cleaned, compress(header.codec, records))
    return Kept(parse_header(content), content, survivors.record_count)


def _with_deltas_moved(data: bytes, runs: list[tuple[int, int]], distance_ms: int) -> bytes:
    """Copy records with adjusted timestamp deltas, for another base timestamp."""
    written = VARINT
    parts: list[bytes] = []
    for start, run_end in runs:
        position = start
        while position < run_end:
            length, position = read_varint(data, position)
            end = position + length
            delta, behind = read_varlong(data, position + 1)
            moved = written[delta + distance_ms]
            body_size = 1 + len(moved) + end - behind
            parts += (written[body_size], data[position : position + 1], moved, data[behind:end])
            position = end
    return b"".join(parts)
