"""The hash that decides which partition a key belongs to: Java's murmur2, bit for bit.

Producers in every language must agree on it, or records of one key part ways. A key in pure Python
costs 1.5 us and more with its length; keys repeat, so the last ones are remembered.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
"""Kafka clears the sign instead of taking the absolute value, which the smallest int has not."""

KEYS_REMEMBERED: Final = 1 << 14
"""Some megabytes at most with usual keys, and nearly all hits where keys are those of users."""


def murmur2(data: bytes) -> int:
    """Hash bytes as Kafka's Java client does; the result is the int's 32 bits, unsigned."""
    size = len(data)
    tail_size = size & 3
    end = size - tail_size
    hashed = _SEED ^ size
    for word in unpack(f"<{end >> 2}I", data[:end]):
        mixed = word * _M & _UINT32
        hashed = hashed * _M & _UINT32 ^ (mixed ^ mixed >> 24) * _M & _UINT32
    if tail_size:
        hashed = (hashed ^ int.from_bytes(data[end:], "little")) * _M & _UINT32
    hashed = (hashed ^ hashed >> 13) * _M & _UINT32
    return hashed ^ hashed >> 15


@lru_cache(KEYS_REMEMBERED)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that a key belongs to."""
    return (murmur2(key) & _POSITIVE) % partition_count
