"""What a cleaning leaves of one batch: the second of its two passes.

Records that stay are copied as runs of bytes: offsets and timestamps inside a batch count from its
header, so nothing in a record changes when its neighbours go. Only the header is written anew, with
the right count, largest timestamp and checksum. A batch of which nothing goes stays as it is to the
byte, compressed or not; a checksum that does not match is never replaced by one that does.

The exception is the first cleaning that meets a tombstone, or the marker of a transaction of which
nothing is left: it sets the time until which they stay. That delete horizon takes the place of the
base timestamp, with an attribute bit to say so, and the deltas of the records follow (KIP-534).
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
    """A batch where it was read."""

    data: bytes
    position: int
    header: BatchHeader

    @property
    def content(self) -> bytes:
        """The bytes of this batch alone, copied: a view would hold on to all that was read."""
        return self.data[self.position : self.position + self.header.size]


class Kept(NamedTuple):
    """What stays of a batch."""

    header: BatchHeader
    content: bytes
    record_count: int


class Survivors(NamedTuple):
    """Which records of an uncompressed payload stay."""

    runs: list[tuple[int, int]]
    """Where they lie, neighbours together."""
    record_count: int
    tombstones: bool
    """Whether a tombstone is among them."""
    timestamps: Sequence[int] = ()
    """Where the timestamp delta of each of them is; not asked for when all stay."""


class _Examined(NamedTuple):
    """Records, and all that decides whether they stay."""

    newest: dict[bytes, int]
    data: bytes
    starts: Sequence[int]
    """Where each record begins, and where the last one ends."""
    base_offset: int
    keep_tombstones: bool


def inflated(source: Source) -> tuple[bytes, int, int]:
    """Return the records of a batch, uncompressed: in what, from where, to where."""
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
    """Keep what is the newest of its key; None if that is nothing.

    Tombstones stay until the batch's delete horizon has passed. A record without a key can never
    be replaced, and goes: it was written before the topic was a compacted one.

    Of a batch whose keys are all in the map the caller can tell the offsets of those that are the
    newest. Looking for them alone takes a third of the time when few are.
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
    """Keep a control batch until its delete horizon, which begins when it may be discarded."""
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
    """Keep the header alone, for what it says of its producer and of the log's end."""
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
    """Find what stays; if it is known which offsets those are, look at no others."""
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
    """Tell whether an offset can tell a record's number.

    Nobody has checked that the records do count so; whoever relies on it finds out by their keys.
    """
    return header.count == header.last_offset_delta + 1 and len(set(staying)) == len(staying)


def _examine(  # noqa: C901, PLR0912, PLR0915 - where the second pass spends its time
    examined: _Examined, numbers: Sequence[int]
) -> tuple[Survivors, int]:
    """Look at the records of these numbers; return also how many are the newest of their key."""
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
    """Make the batch of the records that stay."""
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
    """Copy records whose base timestamp moves, so that their own timestamps do not."""
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
