"""Keys of offsets, read by what many of them have in common.

A key says type, group, topic and partition, in this order, and all partitions of one topic for one
group have keys that differ in their last four bytes only. What comes before, the prefix, is
decoded once and remembered, which takes half of the time of decoding every key, and no new texts.

Only prefixes are remembered whose key had nothing behind its partition. Since the lengths of group
and topic stand in the prefix, another key that begins with one of these, and has four bytes more,
says the same group and topic.
"""

from __future__ import annotations

from typing import Final

from moldau.coordination.groups.records import OffsetKey

PARTITION_SIZE: Final = 4
"""The int32 at the end of a key."""

_FIXED_SIZE: Final = 2 + 2 + 2 + PARTITION_SIZE
"""The type, the lengths of two strings, the partition."""

PREFIXES_MAX: Final = 1_000
"""Prefixes that one shard remembers: as many pairs of group and topic as are usual for one of fifty
shards. With names of the greatest length they take some megabytes."""


class KeyPrefixes(dict[bytes, tuple[str, str]]):
    """Group and topic by the prefix of a key; forgets all when it has too many."""

    __slots__ = ()

    def learn(self, data: bytes, key: OffsetKey) -> None:
        """Remember the prefix of a key that was decoded from these bytes."""
        names_size = len(key.group.encode()) + len(key.topic.encode())
        if len(data) != _FIXED_SIZE + names_size:
            return
        if len(self) >= PREFIXES_MAX:
            self.clear()
        self[data[:-PARTITION_SIZE]] = (key.group, key.topic)
