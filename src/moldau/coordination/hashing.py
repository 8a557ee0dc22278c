"""Which partition of an internal topic, and so which broker, coordinates a key.

The rule is Kafka's, with the hash of a Java string. A data directory may be used by Kafka first and
Moldau later, or the other way round: both must look for a group in the same partition.

The hash is a polynomial in 31, and a key may have 32,767 characters. A loop over them would block
the event loop for ten milliseconds. So the text is read as one large integer of 64-bit lanes, and
the upper half of the lanes is folded onto the lower half until one lane is left. Each fold is a few
operations on large integers. Lanes do not overflow into each other, because each has room for a
product of two 32-bit values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MODULUS: Final = 2**32
_LANE_BITS: Final = 64
_UNITS_PER_LANE: Final = 4
"""Java characters are UTF-16 units of 16 bits: one outside of the basic plane counts as two."""

KEYS_REMEMBERED: Final = 16_384
KEY_LENGTH_REMEMBERED: Final = 256
"""The cache takes a few megabytes at most. Every request of a group hashes the group's id, and ids
are few and short."""


def java_string_hash(text: str) -> int:
    """Return what `String.hashCode` returns in Java: a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    lane_count = len(units) // (_LANE_BITS // 8) + 1
    lanes = int.from_bytes(units)
    low_units = int.from_bytes(b"\x00\x00\xff\xff" * (2 * lane_count))
    lanes = (lanes >> 16 & low_units) * 31 + (lanes & low_units)
    low_halves = int.from_bytes(b"\x00\x00\x00\x00\xff\xff\xff\xff" * lane_count)
    lanes = (lanes >> 32 & low_halves) * 31**2 + (lanes & low_halves)
    while lane_count > 1:
        lane_count = (lane_count + 1) // 2
        kept_bits = lane_count * _LANE_BITS
        weight = pow(31, lane_count * _UNITS_PER_LANE, _MODULUS)
        low_halves >>= low_halves.bit_length() + 32 - kept_bits
        lanes = (lanes >> kept_bits) * weight + (lanes & (1 << kept_bits) - 1) & low_halves
    value = lanes % _MODULUS
    return value - _MODULUS if value >= _MODULUS // 2 else value


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition that holds the state of a group or a transactional id."""
    if len(key) > KEY_LENGTH_REMEMBERED:
        return _partition_of(key, partition_count)
    return _remembered_partition_of(key, partition_count)


def _partition_of(key: str, partition_count: int) -> int:
    """Apply the rule. The smallest hash has no absolute value in 32 bits; Kafka takes 0 for it."""
    value = java_string_hash(key)
    return 0 if value == -_MODULUS // 2 else abs(value) % partition_count


_remembered_partition_of = lru_cache(maxsize=KEYS_REMEMBERED)(_partition_of)
