"""A version 2 batch from the inside: its records.

A record is, with every number a zig-zag varint except the one attribute byte:

    length, attributes (unused), timestamp delta, offset delta, key length (-1: null), key,
    value length (-1: null), value, header count, then per header: key length, key,
    value length (-1: null), value

Clients read whole records, side by side (`iter_field_columns`) or one by one (`iter_records`);
compaction and the key check walk `iter_spans`, which tells where each record lies, so that what is
kept is copied as it stands. Every count and length is checked against the bytes there are before
anything is made of it. What is wrong is CorruptRecords and nothing else; since iteration is lazy,
it may come after some good records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat, starmap
from typing import Final

from moldau.base.errors import BatchTooLarge, CorruptRecords
from moldau.base.files import Buffer
from moldau.base.limits import INFLATED_BATCH_BYTES, RECORDS_PER_BATCH
from moldau.base.tuples import NamedTuple
from moldau.records.batch import HEADER_SIZE, BatchHeader, parse_header
from moldau.records.compression import Codec, decompress
from moldau.records.stretches import SHORTEST, Fields, Headers, find_stretch
from moldau.records.varint import SMALL_NUMBERS, read_varint, read_varlong

MIN_RECORD_SIZE: Final = 7
"""One byte each: length, attributes, two deltas, two lengths, header count."""
MIN_HEADER_SIZE: Final = 2
"""One byte each: two lengths."""

_INT64_MAX: Final = 2**63 - 1
TIMESTAMP_MAX: Final = _INT64_MAX - 2**13
"""Leaves room for deltas of one and two bytes: only longer ones need a look at the sum."""
_BASE_OFFSET_MAX: Final = _INT64_MAX - 2**31
"""Leaves room for any offset delta."""

_FIRST_PAUSE: Final = SHORTEST
_LAST_PAUSE: Final = 512
"""How many records are read one by one before the next look for a stretch: few at first, as records
before and after a stretch are, and no more at once than anybody asks for."""
_STEP_OF_FIRST: Final = tuple(2 + (byte >> 1 & 0x3F) for byte in range(256))
"""What the first of two bytes of a length adds to the size of a record; the second adds 64 times
itself."""
_NEW: Final = tuple.__new__
_LOOKS_FOR_STRETCHES: Final = __file__.endswith(".py")
"""Compiled, reading records one by one takes half the time that proving a stretch does."""


class Record(NamedTuple):
    """One record as an application sees it."""

    offset: int
    timestamp: int
    """Milliseconds since 1970; -1 for none (messages of magic 0)."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class FieldColumns(NamedTuple):
    """The fields of some records, side by side. Only the offsets are sure to end."""

    offsets: Iterable[int]
    timestamps: Iterable[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[Headers]


class _Lists(NamedTuple):
    """The same while they are read one by one: lists of one length."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


class RecordSpan(NamedTuple):
    """Where one record lies in an uncompressed payload, and what compaction asks about it."""

    start: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


def read_records(
    view: Buffer, position: int = 0, *, limit: int = INFLATED_BATCH_BYTES
) -> Iterator[Record]:
    """Read the records of the version 2 batch that begins at a position."""
    header = parse_header(view, position)
    return iter_records(header, payload_of(header, view, position, limit=limit))


def payload_of(
    header: BatchHeader, view: Buffer, position: int = 0, *, limit: int = INFLATED_BATCH_BYTES
) -> bytes:
    """Return the records' bytes, uncompressed; refuse those that grow beyond the limit."""
    end = position + header.size
    if end > len(view):
        raise CorruptRecords(f"a batch of {header.size} bytes is cut at {len(view) - position}")
    records = memoryview(view)[position + HEADER_SIZE : end]
    if not records:
        return b""
    return (
        bytes(records) if header.codec is Codec.NONE else decompress(header.codec, records, limit)
    )


def iter_records(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    """Read records one by one from the uncompressed payload of a batch."""
    return map(_NEW, repeat(Record), iter_fields(header, payload))


def iter_fields(header: BatchHeader, payload: bytes) -> Iterator[Fields]:
    """Read the same as plain tuples, for who makes something else of them."""
    return chain.from_iterable(starmap(zip, iter_field_columns(header, payload)))


def iter_field_columns(header: BatchHeader, payload: bytes) -> Iterator[FieldColumns]:
    """Read some records at a time, each field in a column of its own.

    A column costs less than as many tuples for who makes objects of another kind: `zip` and `map`
    make them without running any Python for a record.

    Uncompiled, records of one shape are read a stretch at a time, others one by one. Whether there
    are stretches is not known before: where none is found, the next look comes later and later.
    """
    check_bounds(header, len(payload))
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.append_time else None
    position, previous, left, pause = 0, -1, header.count, _FIRST_PAUSE
    failures: list[CorruptRecords] = []
    while left > 0:
        stretch = None
        if _LOOKS_FOR_STRETCHES:
            room = min(left, header.last_offset_delta - previous)
            stretch = find_stretch(payload, position, previous + 1, room)
        if stretch is not None:
            offset = base_offset + previous + 1
            columns = stretch.columns(payload, offset, base_timestamp, append_time)
            yield FieldColumns(*columns, repeat(()))
            position = stretch.end
            previous += stretch.length
            left -= stretch.length
            pause = _FIRST_PAUSE
            continue
        read = _Lists([], [], [], [], [])
        try:
            position = _read_some(header, payload, position, previous, min(left, pause), read)
        except CorruptRecords as error:
            failures.append(error)
        except IndexError:
            failures.append(CorruptRecords("the records end inside a record"))
        times = read.timestamps if append_time is None else repeat(append_time)
        yield FieldColumns(read.offsets, times, *read[2:])
        if failures:
            raise failures.pop()  # what this frame kept would keep the frame
        previous = read.offsets[-1] - base_offset
        left -= len(read.offsets)
        pause = min(pause * 2, _LAST_PAUSE)
    _check_finished(position, len(payload))


def note_starts(payload: bytes, position: int, count: int, starts: list[int]) -> int:
    """Walk over records by their lengths, wherever those lead: others judge it.

    Notes where each begins, and returns the position behind the last. IndexError leaves where the
    bytes end.
    """
    tail = _STEP_OF_FIRST
    for _ in range(count):
        starts.append(position)
        byte = payload[position]
        if byte < 0x80:
            position += 1 + (byte >> 1)
        elif (second := payload[position + 1]) < 0x80:
            position += tail[byte] + (second << 6)
        else:
            length, behind = read_varint(payload, position)
            position = behind + length
    return position


def iter_spans(header: BatchHeader, payload: bytes) -> Iterator[RecordSpan]:
    """Tell where each record lies, with its key, but leave value and headers unread."""
    check_bounds(header, len(payload))
    try:
        yield from _spans(header, payload)
    except IndexError:
        raise CorruptRecords("the records end inside a record") from None


def _read_some(  # noqa: C901, PLR0912, PLR0915 - calls would double the cost
    header: BatchHeader, payload: bytes, position: int, previous: int, count: int, to: _Lists
) -> int:
    """Read some records of any shape; return the position behind them."""
    # Varints of one and two bytes are read in place; 0x81 are the bits of a longer or negative one.
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    last_delta, size, small = header.last_offset_delta, len(payload), SMALL_NUMBERS
    offsets, timestamps, keys, values, headers = to
    for _ in range(count):
        byte = payload[position]
        if not byte & 0x81:
            position += 1
            end = position + (byte >> 1)
        elif not byte & 1 and (second := payload[position + 1]) < 0x80:
            position += 2
            end = position + (byte >> 1 & 0x3F | second << 6)
        else:
            length, position = read_varint(payload, position)
            end = position + length
        byte = payload[position + 1]
        if byte < 0x80:
            timestamp = base_timestamp + small[byte]
            position += 2
        else:
            timestamp, position = _read_timestamp(base_timestamp, payload, position + 1)
        byte = payload[position]
        if byte < 0x80:
            delta = small[byte]
            position += 1
        elif not byte & 1 and (second := payload[position + 1]) < 0x80:
            delta = byte >> 1 & 0x3F | second << 6
            position += 2
        else:
            delta, position = read_varint(payload, position)
        if not previous < delta <= last_delta:
            raise _wrong_delta(delta, previous, last_delta)
        previous = delta
        byte = payload[position]
        key: bytes | None = None
        if byte == 1:
            position += 1
        elif not byte & 0x81:
            start = position + 1
            position = start + (byte >> 1)
            key = payload[start:position]
        else:
            key, position = _read_nullable(payload, position)
        byte = payload[position]
        value: bytes | None
        if not byte & 0x81:
            start = position + 1
            position = start + (byte >> 1)
            value = payload[start:position]
        elif not byte & 1 and (second := payload[position + 1]) < 0x80:
            start = position + 2
            position = start + (byte >> 1 & 0x3F | second << 6)
            value = payload[start:position]
        else:
            value, position = _read_nullable(payload, position)
        named, position = (
            _read_headers(payload, position) if payload[position] else ((), position + 1)
        )
        if position != end or end > size:
            raise _wrong_end(position, end, size)
        offsets.append(base_offset + delta)
        timestamps.append(timestamp)
        keys.append(key)
        values.append(value)
        headers.append(named)
    return position


def _spans(header: BatchHeader, payload: bytes) -> Iterator[RecordSpan]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.append_time
    last_delta, previous = header.last_offset_delta, -1
    size, make = len(payload), tuple.__new__
    position = 0
    for _ in range(header.count):
        start = position
        length, position = read_varint(payload, start)
        end = position + length
        timestamp, position = _read_timestamp(base_timestamp, payload, position + 1)
        if append_time:
            timestamp = header.max_timestamp
        delta, position = read_varint(payload, position)
        if not previous < delta <= last_delta:
            raise _wrong_delta(delta, previous, last_delta)
        previous = delta
        key, position = _read_nullable(payload, position)
        length, position = read_varint(payload, position)
        if length > 0:
            position += length
        if length < -1 or not position < end <= size:
            raise _wrong_end(position, end, size)
        yield make(RecordSpan, (start, end, base_offset + delta, timestamp, key, length >= 0))
        position = end
    _check_finished(position, size)


def check_count(header: BatchHeader) -> None:
    """Refuse a batch with so many records that working on each of them takes too long."""
    if header.count > RECORDS_PER_BATCH:
        raise BatchTooLarge(
            f"a batch of {header.count} records has more than {RECORDS_PER_BATCH} of them"
        )


def check_bounds(header: BatchHeader, size: int) -> None:
    if not 0 <= header.count * MIN_RECORD_SIZE <= size:
        raise CorruptRecords(f"{size} bytes cannot hold {header.count} records")
    if not -TIMESTAMP_MAX <= header.base_timestamp <= TIMESTAMP_MAX:
        raise CorruptRecords(f"no time is {header.base_timestamp} ms")
    if not 0 <= header.base_offset <= _BASE_OFFSET_MAX:
        raise CorruptRecords(f"no batch begins at offset {header.base_offset}")


def _read_timestamp(base_timestamp: int, payload: bytes, position: int) -> tuple[int, int]:
    delta, position = read_varlong(payload, position)
    timestamp = base_timestamp + delta
    if not -_INT64_MAX <= timestamp <= _INT64_MAX:
        raise CorruptRecords(f"no time is {timestamp} ms")
    return timestamp, position


def _read_headers(payload: bytes, position: int) -> tuple[Headers, int]:
    """Read what follows the value.

    A key that is not UTF-8 is patched up as Java does: a consumer must get past such a record.
    """
    count, position = read_varint(payload, position)
    if not 0 <= count * MIN_HEADER_SIZE <= len(payload) - position:
        raise CorruptRecords(f"{len(payload) - position} bytes cannot hold {count} headers")
    headers = []
    for _ in range(count):
        length, position = read_varint(payload, position)
        if length < 0:
            raise CorruptRecords(f"a header's key cannot have {length} bytes")
        key = payload[position : position + length].decode("utf-8", "replace")
        value, position = _read_nullable(payload, position + length)
        headers.append((key, value))
    return tuple(headers), position


def _read_nullable(payload: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length < 0:
        if length != -1:
            raise CorruptRecords(f"nothing can have {length} bytes")
        return None, position
    end = position + length
    return payload[position:end], end


def _wrong_delta(delta: int, previous: int, last: int) -> CorruptRecords:
    return CorruptRecords(f"offset delta {delta} follows {previous} in a batch that ends at {last}")


def _wrong_end(position: int, end: int, size: int) -> CorruptRecords:
    return CorruptRecords(f"a record said to end at {end} of {size} goes on to {position}")


def _check_finished(position: int, size: int) -> None:
    if position != size:
        raise CorruptRecords(f"{size - position} bytes follow the last record")
