"""What generated codecs call at run time: the parts of the wire format not worth inlining.

Everything here is bounded by the bytes at hand. A reader takes the data and a position and either
moves forward or raises; a length is never trusted before it is compared with what is left. The
common cases (one-byte varints, short strings, fixed-size fields) do not come here: `decoding` and
`encoding` write them out in place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from moldau.base.errors import MoldauError, ProtocolError
from moldau.base.files import Buffer, FileRegion
from moldau.base.network import Part

LENGTH_VARINT_BYTES = 5
"""A varint of 32 bits never needs more; a longer one is an attack or garbage."""

LENGTH_MAX = 2**31 - 1
"""Lengths and counts are signed 32-bit numbers wherever they are not varints."""

TEXT_BYTES_MAX = 2**15 - 1
"""The classic form of a text has a signed length of 16 bits; no form of it may be longer."""

TAGS_MAX = 1024
"""Tagged fields of one struct. Kafka's structs have ten at most; a section of two-byte fields that
nobody knows would otherwise keep the reader busy for a second per five megabytes."""

SCALARS_PER_STEP = 2048
"""A codec that works in slices reads long arrays of scalars in pieces of this many."""

SMALL_COUNT = 17
"""Arrays of scalars below this count (replicas, partitions, ISRs) use a `Struct` made once."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte, by value."""


class EncodeError(MoldauError):
    """A message of ours does not fit the wire in the version asked for: the caller's mistake."""


def parts_size(parts: Sequence[Part]) -> int:
    """Sum the bytes of buffers and file regions; regions are not read for it."""
    size = 0
    for part in parts:
        size += part.size if isinstance(part, FileRegion) else len(part)
    return size


def records_parts(value: Buffer | Sequence[Part]) -> tuple[Sequence[Part], int]:
    """Spread the value of a `records` field into parts and tell their size."""
    if isinstance(value, (bytes, memoryview, bytearray)):
        return (value,), len(value)
    if isinstance(value, FileRegion):
        raise TypeError("a file region stands in a sequence of parts")
    return value, parts_size(value)


def uvarint(value: int) -> bytes:
    """Encode a number that is not negative, seven bits a byte, the lowest first."""
    if value < 128:
        return ONE_BYTE[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def long_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish a varint whose first byte, already read, says that more follow."""
    value = first & 127
    shift = 7
    while shift < 7 * LENGTH_VARINT_BYTES:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > LENGTH_MAX:
                raise ProtocolError(f"a length of {value} is beyond 32 bits")
            return value, position
        shift += 7
    raise ProtocolError(f"a varint is longer than {LENGTH_VARINT_BYTES} bytes")


def long_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish a compact length. Zero means null only in one byte: padded, it is garbage.

    Two and three bytes reach two megabytes, which is nearly every record batch: no loop for those.
    """
    second = data[position]
    if second < 128:
        value, position = first & 127 | second << 7, position + 1
    elif data[position + 1] < 128:
        value = first & 127 | (second & 127) << 7 | data[position + 1] << 14
        position += 2
    else:
        value, position = long_uvarint(data, position, first)
    if not value:
        raise ProtocolError("a compact length of zero is padded to several bytes")
    return value, position


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a varint; IndexError at the end of the data."""
    first = data[position]
    if first < 128:
        return first, position + 1
    return long_uvarint(data, position + 1, first)


def skip_tags(data: Buffer, position: int, count: int) -> int:
    """Step over a section of tagged fields that nobody here knows; `count` is its first byte."""
    if count > 127:
        count, position = long_uvarint(data, position, count)
        if count > TAGS_MAX:
            raise ProtocolError(f"a struct has {count} tagged fields, the limit is {TAGS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
    return position


def tagged(tag: bytes, body: bytes) -> bytes:
    """Frame one tagged field: its tag (already a varint), its exact size, its value."""
    return tag + uvarint(len(body)) + body


@cache
def scalar_packers(code: str) -> tuple[Callable[..., bytes], ...]:
    """Functions that pack 0, 1, 2, ... scalars of this struct code."""
    return tuple(struct.Struct(">" + code * count).pack for count in range(SMALL_COUNT))


@cache
def scalar_unpackers(code: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    """Functions that unpack 0, 1, 2, ... scalars of this struct code."""
    return tuple(struct.Struct(">" + code * count).unpack_from for count in range(SMALL_COUNT))


def pack_scalars(code: str, values: Sequence[Any]) -> bytes:
    """Pack many scalars in one call; `Struct` keeps no cache that a format could fill."""
    return struct.Struct(f">{len(values)}{code}").pack(*values)


def unpack_scalars(code: str, data: Buffer, position: int, count: int) -> list[Any]:
    """Unpack many scalars in one call; the caller has seen their bytes to be there."""
    many = f"{count}{code}" if len(code) == 1 else code * count  # a UUID is "16s"
    return [*struct.Struct(">" + many).unpack_from(data, position)]


def null_value(label: str) -> ProtocolError:
    """Build the refusal of a null where this version allows none."""
    return ProtocolError(f"{label} is null, which this version does not allow")


def bad_length(label: str, length: int) -> ProtocolError:
    """Build the refusal of a length that is negative, too large, or null where none may be."""
    return ProtocolError(f"{label} has length {length}")


def bad_count(label: str, count: int, left: int) -> ProtocolError:
    """Build the refusal of an array that cannot be in the bytes that are left."""
    return ProtocolError(f"{label} claims {count} elements in {left} bytes")


def too_many_elements(label: str, count: int, bound: int) -> ProtocolError:
    """Build the refusal of an array that takes its request beyond the bound on elements."""
    return ProtocolError(
        f"{label} has {count} elements: a request of this API may have {bound} in all its arrays"
    )


def bad_tag(label: str, tag: int) -> ProtocolError:
    """Build the refusal of a tagged field that is not as long as it says."""
    return ProtocolError(f"{label} has a tagged field {tag} of another size than it says")


def undecodable(label: str, data: Buffer, position: int, error: Exception) -> ProtocolError:
    """Turn what stopped a decoder into one line for the log."""
    if isinstance(error, UnicodeDecodeError) and position <= len(data):
        return ProtocolError(f"{label} has text that is not UTF-8 near byte {position}")
    if isinstance(error, ProtocolError):
        return ProtocolError(f"{label}: {error}")
    return ProtocolError(f"{label} ends too early: {len(data)} bytes stop inside a field")
