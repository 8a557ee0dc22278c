"""Messages of magic 0 and 1: what Kafka stored and clients sent before version 2 batches.

    offset int64, size int32, CRC-32 of what follows, magic int8, attributes int8,
    magic 1: timestamp int64, key (int32 length, -1 null), value (likewise)

A message set is messages one behind the other. Compressed, a set becomes the value of one wrapper
message, whose attributes name the codec and whose offset is that of the last message inside.
Inner offsets are absolute in magic 0 and count from the first in magic 1 (KIP-31); timestamps came
with magic 1 (KIP-32), with a bit that makes the wrapper's the time of all inside.

Owns reading and writing of this form. `conversion` turns it into batches and back.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from struct import Struct, error
from typing import Final, NamedTuple

from moldau.base.errors import BatchTooLarge, CorruptRecords
from moldau.base.files import Buffer
from moldau.base.limits import INFLATED_BATCH_BYTES
from moldau.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    BatchSpan,
    TimestampType,
    iter_batches,
)
from moldau.records.builder import NO_TIMESTAMP
from moldau.records.compression import Codec, compress, decompress
from moldau.records.legacy_lz4 import with_right_checksum, with_wrong_checksum
from moldau.records.record import TIMESTAMP_MAX, Record

_LAST_CODEC: Final = Codec.LZ4
"""Zstandard came after version 2 batches and was never allowed in messages (KIP-110)."""

_OFFSET_MAX: Final = 2**63 - 1

_OUTSIDE: Final = Struct(">qiI")
_INSIDE: Final = (Struct(">bb"), Struct(">bbq"))
"""By magic: what the checksum covers, up to the key."""
_CHECKED_POSITION: Final = 16
_LENGTH: Final = Struct(">i")


class Message(NamedTuple):
    """One message as it stands; a wrapper is not unpacked."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_BITS
        if number > _LAST_CODEC:
            raise CorruptRecords(f"no message has a codec with number {number}")
        return Codec(number)

    @property
    def timestamp_type(self) -> TimestampType:
        append_time = self.magic > 0 and self.attributes & APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME


def iter_messages(view: Buffer, *, allow_cut: bool = False) -> Iterator[Message]:
    """Walk a message set from the outside, checking every checksum."""
    for span in iter_batches(view, allow_cut=allow_cut):
        yield read_message(view, span)


def read_message(view: Buffer, span: BatchSpan) -> Message:
    """Read the message in a span found by `iter_batches`."""
    if span.magic not in (0, 1):
        raise CorruptRecords(f"magic {span.magic} where a message of magic 0 or 1 was expected")
    checked = bytes(memoryview(view)[span.position + _CHECKED_POSITION : span.position + span.size])
    offset, _, crc = _OUTSIDE.unpack_from(view, span.position)
    if zlib.crc32(checked) != crc:
        raise CorruptRecords(f"the message at offset {offset} does not match its checksum")
    inside = _INSIDE[span.magic]
    magic, attributes, *timestamps = inside.unpack_from(checked)
    timestamp = timestamps[0] if timestamps else NO_TIMESTAMP
    if not NO_TIMESTAMP <= timestamp <= TIMESTAMP_MAX:
        raise CorruptRecords(f"no time is {timestamp} ms")
    key, position = _read_nullable(checked, inside.size)
    value, position = _read_nullable(checked, position)
    if position != len(checked):
        raise CorruptRecords(f"{len(checked) - position} bytes follow the value of a message")
    return Message(offset, magic, attributes, timestamp, key, value)


def _read_nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    try:
        (length,) = _LENGTH.unpack_from(data, position)
    except error:
        raise CorruptRecords("a message ends before a length") from None
    position += _LENGTH.size
    if not -1 <= length <= len(data) - position:
        raise CorruptRecords(f"{len(data) - position} bytes left where {length} should follow")
    if length < 0:
        return None, position
    return data[position : position + length], position + length


def unwrapped(
    message: Message, *, limit: int = INFLATED_BATCH_BYTES, count_limit: int | None = None
) -> list[Record]:
    """Return the records of a message: itself, or those it wraps, if they are not too many."""
    if message.codec is Codec.NONE:
        return [Record(message.offset, message.timestamp, message.key, message.value)]
    messages = _iter_inner(message, limit)
    inner = list(islice(messages, count_limit))
    if len(inner) == count_limit and next(messages, None) is not None:
        raise BatchTooLarge(f"the wrapper at offset {message.offset} holds too many messages")
    if not inner:
        raise CorruptRecords(f"the wrapper at offset {message.offset} is empty")
    base_offset = _inner_base_offset(message, inner[-1].offset)
    if base_offset + max(each.offset for each in inner) > _OFFSET_MAX:
        raise CorruptRecords(f"the wrapper at offset {message.offset} passes the last offset")
    append_time = message.timestamp_type is TimestampType.LOG_APPEND_TIME
    return [
        Record(
            base_offset + each.offset,
            message.timestamp if append_time else each.timestamp,
            each.key,
            each.value,
        )
        for each in inner
    ]


def _iter_inner(wrapper: Message, limit: int) -> Iterator[Message]:
    if wrapper.value is None:
        raise CorruptRecords(f"the wrapper at offset {wrapper.offset} wraps nothing")
    compressed = wrapper.value
    if wrapper.magic == 0 and wrapper.codec is Codec.LZ4:
        compressed = with_right_checksum(compressed)
    for message in iter_messages(decompress(wrapper.codec, compressed, limit)):
        if message.magic != wrapper.magic or message.codec is not Codec.NONE:
            raise CorruptRecords(
                f"a wrapper of magic {wrapper.magic} holds a message of magic {message.magic} "
                f"and codec {message.codec.label}"
            )
        yield message


def _inner_base_offset(wrapper: Message, last_inner_offset: int) -> int:
    """Return what inner offsets count from."""
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0  # with magic 1 and offset 0, a producer that left the offset to the broker
    if wrapper.offset < last_inner_offset:
        raise CorruptRecords(
            f"a wrapper at offset {wrapper.offset} ends at inner offset {last_inner_offset}"
        )
    return wrapper.offset - last_inner_offset


def message_set(
    records: Iterable[Record],
    magic: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Write records as messages, wrapped in one if there is a codec; headers have no place.

    Records are taken one at a time: those of a large batch never lie in memory all at once.
    """
    attributes = APPEND_TIME_BIT if magic and timestamp_type else 0
    left = iter(records)
    first = next(left, None)
    if first is None:
        return b""
    counted_from = first.offset if magic and codec else 0
    newest, inner = first.timestamp, bytearray()
    for last in chain((first,), left):
        offset, newest = last.offset - counted_from, max(newest, last.timestamp)
        _write(inner, offset, magic, attributes, last.timestamp, last.key, last.value)
    if codec is Codec.NONE:
        return bytes(inner)
    compressed = compress(codec, inner, level)
    if magic == 0 and codec is Codec.LZ4:
        compressed = with_wrong_checksum(compressed)
    wrapper = bytearray()
    _write(wrapper, last.offset, magic, attributes | codec, newest, None, compressed)
    return bytes(wrapper)


def _write(
    to: bytearray,
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    """Append one message. A value may be large, so it is copied once and nowhere else."""
    fixed = (magic, attributes, timestamp) if magic else (magic, attributes)
    before_value = b"".join(
        (
            _INSIDE[magic].pack(*fixed),
            _LENGTH.pack(-1 if key is None else len(key)),
            key or b"",
            _LENGTH.pack(-1 if value is None else len(value)),
        )
    )
    value = value or b""
    crc = zlib.crc32(value, zlib.crc32(before_value))
    to += _OUTSIDE.pack(offset, _LENGTH.size + len(before_value) + len(value), crc)
    to += before_value
    to += value
