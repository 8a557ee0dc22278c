"""A cache for decoding the keys of offsets.

A key has type, group, topic and partition, in this order. The keys of all partitions of one topic
for one group differ only in their last four bytes. The prefix before them is decoded once and
cached. That takes half of the time of decoding each key, and makes no new strings.

A prefix is cached only if its key had no bytes after the partition. The prefix has the lengths of
group and topic. So another key with this prefix and four more bytes has the same group and topic.
"""

from __future__ import annotations

from typing import Final

from moldau.coordination.groups.records import OffsetKey

PARTITION_SIZE: Final = 4
"""The int32 at the end of a key."""

_FIXED_SIZE: Final = 2 + 2 + 2 + PARTITION_SIZE
"""The type, the lengths of two strings, the partition."""

PREFIXES_MAX: Final = 1_000
"""Prefixes that one shard caches: enough pairs of group and topic for one of fifty shards. With the
longest names they take some megabytes."""


class KeyPrefixes(dict[bytes, tuple[str, str]]):
    """Group and topic by the prefix of a key; cleared when it is full."""

    __slots__ = ()

    def learn(self, data: bytes, key: OffsetKey) -> None:
        """Cache the prefix of a key that was decoded from these bytes."""
        names_size = len(key.group.encode()) + len(key.topic.encode())
        if len(data) != _FIXED_SIZE + names_size:
            return
        if len(self) >= PREFIXES_MAX:
            self.clear()
        self[data[:-PARTITION_SIZE]] = (key.group, key.topic)
