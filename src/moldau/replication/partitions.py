"""The partitions this broker holds, found by topic name or by topic id.

The composition root keeps the map in step with the cluster's metadata; handlers only look up.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.base.ids import PartitionKey, TopicId
from moldau.replication.partition import Partition


class Partitions:
    """Every partition of this broker. Changed on the event loop's thread only."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[TopicId, str] = {}
        self._partition_counts: dict[TopicId, int] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def snapshot(self) -> tuple[Partition, ...]:
        """Return all partitions at one moment, also for another thread."""
        return tuple(self._by_key.values())

    def get(self, topic: str, index: int) -> Partition | None:
        """Look a partition up by its topic's name."""
        return self._by_key.get((topic, index))

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Name a topic of which a partition is here."""
        return self._topic_names.get(topic_id)

    def add(self, partition: Partition) -> None:
        """Begin to serve a partition."""
        self._by_key[partition.key] = partition
        self._topic_names[partition.topic_id] = partition.key.topic
        held = self._partition_counts.get(partition.topic_id, 0)
        self._partition_counts[partition.topic_id] = held + 1

    def remove(self, key: PartitionKey) -> Partition | None:
        """Stop serving a partition and tell those who wait for it."""
        partition = self._by_key.pop(key, None)
        if partition is None:
            return None
        left = self._partition_counts[partition.topic_id] - 1
        self._partition_counts[partition.topic_id] = left
        if not left:
            del self._partition_counts[partition.topic_id]
            del self._topic_names[partition.topic_id]
        partition.notify()
        return partition
