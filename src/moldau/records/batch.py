"""A version 2 batch from the outside: its header, its checksum, its place among others.

This is all the broker looks at when it takes, stores and serves records; it copies nothing and
never touches a single record (`record` does). The layout, big-endian:

    position  size
           0     8  base offset           } the leader's to write: outside of the checksum,
           8     4  length (what follows) } which starts behind itself
          12     4  leader epoch          }
          16     1  magic, 2
          17     4  CRC-32C of all that follows this field
          21     2  attributes: bits 0-2 codec, 3 append time, 4 transactional, 5 control,
                    6 base timestamp is the delete horizon (KIP-534)
          23     4  last offset delta
          27     8  base timestamp
          35     8  max timestamp
          43     8  producer id           } -1 without idempotence
          51     2  producer epoch        }
          53     4  base sequence         }
          57     4  record count; 0 in a batch that compaction emptied
          61        the records, as one compressed stream if there is a codec

Messages of magic 0 and 1 share the first twelve bytes and the place of the magic, so `peek` and
`iter_batches` walk all three kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.base.tuples import NamedTuple
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec

HEADER_SIZE: Final = 61
LENGTH_END: Final = 12
"""Offset and length come before what the length counts."""
CHECKED_POSITION: Final = 21
"""From here on the checksum counts."""
PREFIX_SIZE: Final = 16
"""Base offset, length, leader epoch: what a leader rewrites without touching the checksum."""
PEEK_SIZE: Final = 17
"""The fewest bytes that tell how large a batch is and of which kind."""
MAGIC: Final = 2

_LENGTH_OF_EMPTY: Final = HEADER_SIZE - LENGTH_END
_CHECKED_FROM_LENGTH: Final = CHECKED_POSITION - LENGTH_END
_MIN_SIZES: Final = {0: 26, 1: 34, 2: HEADER_SIZE}
"""By magic: an old message with neither key nor value, a batch without records."""

CODEC_BITS: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
_PEEK: Final = Struct(">qi4xb")
_PACK_PREFIX: Final = Struct(">qii").pack
_PACK_HEAD: Final = Struct(">qiibI").pack
"""What stands before that."""
_CHECKED: Final = Struct(">hiqqqhii")
_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17


class TimestampType(IntEnum):
    """Who set the timestamps: the producer, or the leader when it appended."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order."""

    base_offset: int
    length: int
    """As on the wire: the bytes behind this field. `size` is the whole batch."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # a header is not searched; tuple.count gives way

    @property
    def size(self) -> int:
        return LENGTH_END + self.length

    @property
    def codec(self) -> Codec:
        try:
            return Codec(self.attributes & CODEC_BITS)
        except ValueError:
            raise CorruptRecords(f"no codec has number {self.attributes & CODEC_BITS}") from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.append_time else TimestampType.CREATE_TIME

    @property
    def append_time(self) -> bool:
        return self.attributes & APPEND_TIME_BIT != 0

    @property
    def transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; numbers go on at 0 after 2^31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class BatchSpan(NamedTuple):
    """Where one batch, or one message of an old format, lies in a buffer."""

    position: int
    size: int
    base_offset: int
    magic: int


def parse_header(view: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of a version 2 batch; the records behind it need not be there."""
    if len(view) - position < HEADER_SIZE:
        raise CorruptRecords(f"a batch header has 61 bytes, {len(view) - position} are left")
    header = BatchHeader._make(_HEADER.unpack_from(view, position))
    if header.magic != MAGIC:
        raise CorruptRecords(f"magic {header.magic} where a batch of magic 2 was expected")
    if header.length < _LENGTH_OF_EMPTY:
        raise CorruptRecords(f"a batch cannot be {header.length} bytes long behind its length")
    return header


def peek(view: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Read (base offset, size, magic) from the first 17 bytes of a batch or old message."""
    if len(view) - position < PEEK_SIZE:
        raise CorruptRecords(f"{len(view) - position} bytes are too few to tell what they begin")
    base_offset, length, magic = _PEEK.unpack_from(view, position)
    size = LENGTH_END + length
    if size < _MIN_SIZES.get(magic, PEEK_SIZE):
        raise CorruptRecords(f"a batch of magic {magic} cannot have {size} bytes")
    if not 0 <= magic <= MAGIC:
        raise CorruptRecords(f"unknown magic {magic}")
    return base_offset, size, magic


def is_transactional(view: Buffer) -> bool:
    """Tell from the attributes alone whether this is a batch that belongs to a transaction."""
    return (
        len(view) >= HEADER_SIZE
        and view[PEEK_SIZE - 1] == MAGIC
        and view[CHECKED_POSITION + 1] & TRANSACTIONAL_BIT != 0
        and LENGTH_END + _PEEK.unpack_from(view)[1] == len(view)
    )


def iter_batches(view: Buffer, *, allow_cut: bool = False) -> Iterator[BatchSpan]:
    """Walk batches and old messages that stand one behind the other.

    A fetch answer or a file being written may end inside a batch: with `allow_cut` such a rest is
    left out, without it the rest is corrupt.
    """
    position, end = 0, len(view)
    while position < end:
        if allow_cut and end - position < PEEK_SIZE:
            return
        base_offset, size, magic = peek(view, position)
        if size > end - position:
            if allow_cut:
                return
            raise CorruptRecords(
                f"a batch of {size} bytes at {position} has only {end - position} of them"
            )
        yield BatchSpan(position, size, base_offset, magic)
        position += size


def crc_ok(view: Buffer, position: int, size: int) -> bool:
    """Tell whether a version 2 batch of this size carries its own checksum."""
    checked = memoryview(view)[position + CHECKED_POSITION : position + size]
    stored: int = _CRC.unpack_from(view, position + _CRC_POSITION)[0]
    return crc32c(checked) == stored


def seal(base_offset: int, checked: bytes, leader_epoch: int) -> bytes:
    """Make a batch of what its checksum covers."""
    length = _CHECKED_FROM_LENGTH + len(checked)
    return _PACK_HEAD(base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def batch_prefix(base_offset: int, size: int, leader_epoch: int) -> bytes:
    """Make the 16 bytes that lead a batch of this size: `[prefix, view[16:]]` is it as stored."""
    return _PACK_PREFIX(base_offset, size - LENGTH_END, leader_epoch)


def with_append_time(
    header: BatchHeader, view: Buffer, append_time_ms: int
) -> tuple[BatchHeader, list[Buffer]]:
    """Give a batch the leader's time: its new header, and its bytes in two parts.

    The records are not copied. Their own deltas stay as they are: a reader takes the max timestamp
    for all of them once the bit is set.
    """
    attributes = header.attributes | APPEND_TIME_BIT
    records = memoryview(view)[HEADER_SIZE : header.size]
    stamped, head = _sealed(
        header._replace(attributes=attributes, max_timestamp=append_time_ms), records
    )
    return stamped, [head, records]


def pack_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Put a header before records (compressed already, if its codec says so).

    Length and checksum are computed; all else is taken from the header as it is.
    """
    return seal_batch(header, payload)[1]


def seal_batch(header: BatchHeader, payload: Buffer) -> tuple[BatchHeader, bytes]:
    """Do the same as `pack_batch`, for who also wants to know the header as it stands there."""
    sealed, head = _sealed(header, payload)
    return sealed, b"".join((head, payload))


def pack_fields(
    base_offset: int, leader_epoch: int, fields: tuple[int, ...], payload: Buffer
) -> bytes:
    """Do the same as `pack_batch`, for who has no header: `fields` are those from attributes on."""
    return b"".join((_sealed_fields(base_offset, leader_epoch, fields, payload)[1], payload))


def _sealed(header: BatchHeader, payload: Buffer) -> tuple[BatchHeader, bytes]:
    """Fit length and checksum to these records; return the header also as bytes."""
    fields = header[5:]
    before, head = _sealed_fields(header.base_offset, header.leader_epoch, fields, payload)
    return BatchHeader._make(before + fields), head


def _sealed_fields(
    base_offset: int, leader_epoch: int, fields: tuple[int, ...], payload: Buffer
) -> tuple[tuple[int, ...], bytes]:
    """Return the fields before the attributes, and all of them as bytes."""
    checked = _CHECKED.pack(*fields)
    crc = crc32c(payload, crc32c(checked))
    before = (base_offset, _LENGTH_OF_EMPTY + len(payload), leader_epoch, MAGIC, crc)
    return before, _PACK_HEAD(*before) + checked
