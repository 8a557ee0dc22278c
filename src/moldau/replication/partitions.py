"""The partitions this broker holds, found by topic name or by topic id.

`server.lifecycle.replicas` keeps the map in step with the metadata. Handlers only read it.
A partition whose log directory has failed has no log to serve. It is remembered all the same: its
clients must get KAFKA_STORAGE_ERROR, and not that the partition does not exist.

Most partitions of a cluster are on other brokers. A client that asks for one of those here gets
NOT_LEADER_OR_FOLLOWER, on which it looks for the leader; whether the cluster has the partition says
the port `KnownTopics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.replication.partition import Partition


class KnownTopics(Protocol):
    """What this broker's image of the metadata says of all topics, also of those elsewhere."""

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic; None if the cluster has none of this id."""
        ...

    def has_partition(self, topic: str, index: int) -> bool:
        """Tell whether the cluster has this partition."""
        ...


class _NoTopics:
    """The metadata of a broker that knows of nothing but its own partitions."""

    def topic_name(self, topic_id: TopicId) -> str | None:
        del topic_id
        return None

    def has_partition(self, topic: str, index: int) -> bool:
        del topic, index
        return False


class Partitions:
    """Every partition of this broker. Changed on the event loop's thread only."""

    def __init__(self, known_topics: KnownTopics | None = None) -> None:
        self._known_topics = known_topics or _NoTopics()
        self._by_key: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], TopicId] = {}
        self._topic_names: dict[TopicId, str] = {}
        self._topic_keys: dict[TopicId, dict[PartitionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def snapshot(self) -> tuple[Partition, ...]:
        """Return all partitions of this moment. Another thread may call this."""
        return tuple(self._by_key.values())

    def get(self, topic: str, index: int) -> Partition | None:
        """Return a partition by its topic's name; None if it is not served here."""
        return self._by_key.get((topic, index))

    def missing(self, topic: str, index: int) -> ErrorCode:
        """Return the error for a partition that `get` does not find."""
        if (topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._known_topics.has_partition(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def keys_of(self, topic_id: TopicId) -> tuple[PartitionKey, ...]:
        """List the partitions of a topic on this broker, offline ones included."""
        return tuple(self._topic_keys.get(topic_id, ()))

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic that has a partition here, or on another broker."""
        name = self._topic_names.get(topic_id)
        return self._known_topics.topic_name(topic_id) if name is None else name

    def add(self, partition: Partition) -> None:
        """Begin to serve a partition, in place of one with the same name."""
        self.remove(partition.key)
        self._by_key[partition.key] = partition
        self._note(partition.key, partition.topic_id)

    def add_offline(self, key: PartitionKey, topic_id: TopicId) -> None:
        """Remember a partition that is on this broker but cannot be served."""
        self.remove(key)
        self._offline[key] = topic_id
        self._note(key, topic_id)

    def _note(self, key: PartitionKey, topic_id: TopicId) -> None:
        self._topic_names[topic_id] = key.topic
        self._topic_keys.setdefault(topic_id, {})[key] = None

    def remove(self, key: PartitionKey) -> Partition | None:
        """Stop serving a partition; fail the operations that wait for it."""
        partition = self._by_key.pop(key, None)
        topic_id = self._offline.pop(key, None) if partition is None else partition.topic_id
        if topic_id is None:
            return None
        keys = self._topic_keys[topic_id]
        del keys[key]
        if not keys:
            del self._topic_keys[topic_id]
            del self._topic_names[topic_id]
        # Last: operations that fail now may look the partition up, and must not find it.
        if partition is not None:
            partition.retire(self.missing(*key))
        return partition
