"""Which partition of an internal topic, and so which broker, looks after a key.

The rule is Kafka's, down to the hash of a Java string: clients find their coordinator by it, and a
folder that changes hands between Kafka and Moldau must be read by the same rule it was written by.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_CODE_UNIT_SIZE: Final = 2
"""Java counts characters in UTF-16: one outside of the basic plane counts as two."""

KEYS_REMEMBERED: Final = 16_384
"""A few megabytes; every request of a group hashes its id, and ids are few and come again."""


def java_string_hash(text: str) -> int:
    """Return what `String.hashCode` returns in Java: a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), _CODE_UNIT_SIZE):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=KEYS_REMEMBERED)
def partition_of(key: str, partition_count: int) -> int:
    """Return the partition that holds everything about a group or a transactional id.

    The smallest hash has no positive counterpart in 32 bits; Kafka takes 0 for it.
    """
    value = java_string_hash(key)
    return 0 if value == -0x8000_0000 else abs(value) % partition_count
