"""Zig-zag varints: how lengths and deltas are written inside a version 2 batch.

Zig-zag puts small numbers of either sign first (0, -1, 1, -2, 2 become 0, 1, 2, 3, 4) and the
result is written seven bits a byte, lowest first, high bit set on all but the last. Owns both
directions; knows nothing of records. Readers are given bytes they may run out of: then IndexError
leaves, which the caller turns into its own complaint once per batch instead of once per number.
"""

from __future__ import annotations

from typing import Final

from moldau.base.errors import CorruptRecords

_TWO_BYTES_END: Final = 1 << 13
"""Numbers below it take at most two bytes; they are nearly all lengths and deltas in practice."""


SMALL_NUMBERS: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
"""What a varint of one byte stands for, for who reads such in place."""


def _encode(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


class _Written(dict[int, bytes]):
    """The written form of any number: small ones remembered once made, others made each time."""

    def __missing__(self, value: int) -> bytes:
        written = _encode(value)
        if -1 <= value < _TWO_BYTES_END:
            self[value] = written
        return written


VARINT: Final[dict[int, bytes]] = _Written()
"""`VARINT[n]` is n as bytes; the caller knows that n fits the 32 or 64 bits of its field."""


SMALL_END: Final = 256
WRITTEN: Final = [
    *[bytes((number << 1,)) for number in range(64)],
    *[bytes((number << 1 & 0x7F | 0x80, number >> 6)) for number in range(64, SMALL_END)],
    b"\x01",
]
"""The written forms of the numbers below SMALL_END, for who needs the quickest way to them; of -1
at index -1."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a 32-bit number; return it and the position behind it."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return _read_long(data, position, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Read a 64-bit number; return it and the position behind it."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return _read_long(data, position, 64)


def _read_long(data: bytes, position: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < bits:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                break
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise CorruptRecords(f"a varint of more than {bits} bits ends at byte {position}")
