"""Reading the files of a segment without trusting them, good or damaged.

The dump tool and the offline check must report damage and continue, where a broker would stop. So a
batch with a wrong checksum is returned like any other, with `valid` false. A `.log` is read one
batch at a time; nothing is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File
from moldau.base.limits import INFLATED_BATCH_BYTES
from moldau.records.batch import (
    LENGTH_END,
    MAGIC,
    PEEK_SIZE,
    BatchHeader,
    BatchSpan,
    TimestampType,
    crc_ok,
    iter_batches,
    parse_header,
    peek,
)
from moldau.records.compression import Codec, decompress
from moldau.records.control import EndTransactionMarker, end_transaction_marker
from moldau.records.legacy import Message, read_message, unwrapped
from moldau.records.legacy_lz4 import with_right_checksum
from moldau.records.record import read_records
from moldau.storage.indexes import OffsetEntry, TimeEntry

_LENGTH = Struct(">i")
_LENGTH_POSITION = LENGTH_END - _LENGTH.size
_CRC = Struct(">I")
_OLD_CHECKED_POSITION = LENGTH_END + _CRC.size
_CONTROL_KEY = Struct(">hh")
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_NO_SEQUENCE = -1
_SEQUENCE_MASK = 2**31 - 1


class InspectedBatch(NamedTuple):
    """One batch, or one message of an old format, with its position."""

    position: int
    content: bytes
    crc: int
    """As stored."""
    valid: bool
    """Whether the stored checksum matches."""
    header: BatchHeader | Message

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def base_offset(self) -> int:
        """For an old message its only offset, that of the last message it wraps."""
        return self.header.offset if isinstance(self.header, Message) else self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.offset if isinstance(self.header, Message) else self.header.last_offset

    @property
    def max_timestamp(self) -> int:
        header = self.header
        return header.timestamp if isinstance(header, Message) else header.max_timestamp

    @property
    def append_time(self) -> bool:
        return self.header.timestamp_type is TimestampType.LOG_APPEND_TIME


class InspectedRecord(NamedTuple):
    """One record, with fields from its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    header_keys: tuple[str, ...] = ()
    sequence: int = _NO_SEQUENCE
    control_type: int | None = None
    """The type in a control record's key; None for data."""
    marker: EndTransactionMarker | None = None
    """The content of a transaction marker."""
    crc: int | None = None
    """The checksum of its message, in the old formats."""


def inspect_batches(
    file: File, position: int = 0, end_position: int | None = None
) -> Iterator[InspectedBatch]:
    """Yield the batches; stop at an incomplete one, raise CorruptRecords at garbage."""
    end = file.size() if end_position is None else min(end_position, file.size())
    while end - position >= PEEK_SIZE:
        start = file.read(position, PEEK_SIZE)
        # Length first: in an incomplete write the other fields may be garbage.
        if LENGTH_END + _LENGTH.unpack_from(start, _LENGTH_POSITION)[0] > end - position:
            return
        _, size, magic = peek(start)
        yield _inspected(position, file.read(position, size), magic)
        position += size


def inspect_records(batch: InspectedBatch) -> Iterator[InspectedRecord]:
    """Yield the records; CorruptRecords at an unreadable one."""
    header = batch.header
    if isinstance(header, Message):
        return _old_records(batch, header)
    return _control_records(batch, header) if header.control else _records(batch, header)


def offset_entries(base_offset: int, content: bytes) -> Iterator[OffsetEntry]:
    """Yield the entries of a `.index`, up to the zeros that a crash may leave at its end."""
    for number, (relative, position) in enumerate(_whole_entries(_OFFSET_ENTRY, content)):
        if number and not relative:
            return
        yield OffsetEntry(base_offset + relative, position)


def time_entries(base_offset: int, content: bytes) -> Iterator[TimeEntry]:
    """Yield the entries of a `.timeindex`, up to the zeros that a crash may leave at its end."""
    for number, (timestamp, relative) in enumerate(_whole_entries(_TIME_ENTRY, content)):
        if number and not relative:
            return
        yield TimeEntry(timestamp, base_offset + relative)


def _whole_entries(form: Struct, content: bytes) -> Iterator[tuple[Any, ...]]:
    return form.iter_unpack(content[: len(content) // form.size * form.size])


def _inspected(position: int, content: bytes, magic: int) -> InspectedBatch:
    if magic == MAGIC:
        header = parse_header(content)
        return InspectedBatch(
            position, content, header.crc, crc_ok(content, 0, len(content)), header
        )
    (stored,) = _CRC.unpack_from(content, LENGTH_END)
    computed = zlib.crc32(memoryview(content)[_OLD_CHECKED_POSITION:])
    # `read_message` refuses a wrong checksum, so it gets a copy with a right one.
    repaired = bytearray(content)
    _CRC.pack_into(repaired, LENGTH_END, computed)
    message = read_message(repaired, BatchSpan(0, len(content), 0, magic))
    return InspectedBatch(position, content, stored, stored == computed, message)


def _records(batch: InspectedBatch, header: BatchHeader) -> Iterator[InspectedRecord]:
    for record in read_records(batch.content):
        yield InspectedRecord(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple(key for key, _ in record.headers),
            _sequence_at(header, record.offset),
        )


def _control_records(batch: InspectedBatch, header: BatchHeader) -> Iterator[InspectedRecord]:
    marker = end_transaction_marker(batch.content)
    for record in _records(batch, header):
        key = record.key or b""
        if len(key) < _CONTROL_KEY.size:
            raise CorruptRecords(f"a control record's key has 4 bytes, not {record.key!r}")
        yield record._replace(control_type=_CONTROL_KEY.unpack_from(key)[1], marker=marker)


def _old_records(batch: InspectedBatch, message: Message) -> Iterator[InspectedRecord]:
    crcs = [batch.crc] if message.codec is Codec.NONE else _inner_crcs(message)
    for record, crc in zip(unwrapped(message), crcs, strict=True):
        yield InspectedRecord(record.offset, record.timestamp, record.key, record.value, crc=crc)


def _inner_crcs(wrapper: Message) -> list[int]:
    compressed = wrapper.value or b""
    if wrapper.magic == 0 and wrapper.codec is Codec.LZ4:
        compressed = with_right_checksum(compressed)
    inner = decompress(wrapper.codec, compressed, INFLATED_BATCH_BYTES)
    return [_CRC.unpack_from(inner, span.position + LENGTH_END)[0] for span in iter_batches(inner)]


def _sequence_at(header: BatchHeader, offset: int) -> int:
    if header.base_sequence < 0:
        return _NO_SEQUENCE
    return (header.base_sequence + offset - header.base_offset) & _SEQUENCE_MASK
