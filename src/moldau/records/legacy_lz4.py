"""The wrong header checksum of LZ4 in messages of magic 0 (KAFKA-3160).

An LZ4 frame starts with its magic number, a descriptor, and one byte of the descriptor's xxHash.
Kafka before 0.10 hashed the magic number along, so its clients write a byte that no library
accepts and refuse the right one. Kept bug for bug for magic 0; magic 1 and 2 have it right.
"""

from __future__ import annotations

from typing import Final

_DESCRIPTOR_START: Final = 4
_CONTENT_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01

_WORD: Final = 0xFFFFFFFF
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def with_wrong_checksum(frame: bytes) -> bytes:
    """Make a frame as readers of magic 0 expect it; ours have a descriptor of two bytes."""
    return _with_checksum(frame, hashed_from=0)


def with_right_checksum(frame: bytes) -> bytes:
    """Make a frame of magic 0 readable; whatever checksum it has is not looked at."""
    return _with_checksum(frame, hashed_from=_DESCRIPTOR_START)


def _with_checksum(frame: bytes, *, hashed_from: int) -> bytes:
    position = _DESCRIPTOR_START + _descriptor_size(frame)
    if position >= len(frame):
        return frame  # cut, or not LZ4 at all: the decompressor has better words for it
    checksum = xxhash32(frame[hashed_from:position]) >> 8 & 0xFF
    return frame[:position] + bytes((checksum,)) + frame[position + 1 :]


def _descriptor_size(frame: bytes) -> int:
    flags = frame[_DESCRIPTOR_START] if len(frame) > _DESCRIPTOR_START else 0
    return 2 + (8 if flags & _CONTENT_SIZE_FLAG else 0) + (4 if flags & _DICTIONARY_FLAG else 0)


def xxhash32(data: bytes) -> int:
    """Hash fewer than 16 bytes, which take the short way through xxHash (seed 0)."""
    prime1, prime2, prime3, prime4, prime5 = _PRIMES
    assert len(data) < 16, "a descriptor is shorter"
    state = prime5 + len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        lane = int.from_bytes(data[position : position + 4], "little")
        state = _rotated(state + lane * prime3, 17) * prime4
    for byte in data[whole:]:
        state = _rotated(state + byte * prime5, 11) * prime1
    state &= _WORD
    state = (state ^ state >> 15) * prime2 & _WORD
    state = (state ^ state >> 13) * prime3 & _WORD
    return state ^ state >> 16


def _rotated(value: int, count: int) -> int:
    value &= _WORD
    return value << count | value >> 32 - count
