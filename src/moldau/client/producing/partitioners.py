"""Partitioners: they choose the partition of a record.

By default a record goes to its given partition, else to the partition of its key's hash
(`murmur2`), else to the sticky partition (`accumulator`). A user can replace that: with round
robin, with librdkafka's hash, with Kafka 0.8's random partition per metadata age, or with a
partitioner of their own. A partitioner is called for every record without a partition.

Pure: a partitioner gets its clock and its random numbers as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

from moldau.base.clock import Clock, Random
from moldau.engine.metadata import BrokerImage
from moldau.engine.murmur2 import partition_for_key


class PartitionedCluster(Protocol):
    """A read-only view of the cluster for partitioners."""

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        ...

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions with a leader; all partitions if none has one."""
        ...

    def leader(self, topic: str, partition: int) -> BrokerImage | None:
        """Return the leader of a partition; None if it has none."""
        ...

    def brokers(self) -> Sequence[BrokerImage]:
        """Return the brokers of the cluster with id, address and rack."""
        ...


PartitionFunction = Callable[[str, Any, bytes | None, Any, bytes | None, PartitionedCluster], int]
"""A function with the arguments of `Partitioner.partition`."""


class Partitioner(Protocol):
    """Chooses partitions; implement this for your own partitioner."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Receive the producer's settings; called once, first."""
        ...

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: PartitionedCluster,
    ) -> int:
        """Return the partition of a record, given its key and value and their bytes."""
        ...

    def close(self) -> None:
        """Release resources; called once, last."""
        ...


AnyPartitioner = Partitioner | type[Partitioner] | PartitionFunction | str
"""A partitioner, its class, a function, or the name of a built-in one."""


class RoundRobinPartitioner:
    """Each record to the next partition, ignoring keys; starts at random per topic."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._turns: dict[str, int] = {}

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Nothing to set."""

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ARG002 - the key has no say
        key_bytes: bytes | None,  # noqa: ARG002
        value: Any,  # noqa: ARG002
        value_bytes: bytes | None,  # noqa: ARG002
        cluster: PartitionedCluster,
    ) -> int:
        """Return the next partition with a leader."""
        available = cluster.available_partitions(topic)
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._random.randrange(len(available))
        self._turns[topic] = turn + 1
        return available[turn % len(available)]

    def close(self) -> None:
        """Nothing is held."""


class KeyedRoundRobinPartitioner(RoundRobinPartitioner):
    """The default of Kafka 1.x: hash of the key; round robin for records without a key."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: PartitionedCluster,
    ) -> int:
        """Return the key's partition, or the next one with a leader."""
        if key_bytes is not None:
            return partition_for_key(bytes(key_bytes), cluster.partition_count(topic))
        return super().partition(topic, key, key_bytes, value, value_bytes, cluster)


class ConsistentRandomPartitioner:
    """librdkafka's default: CRC-32 of the key; a random partition for records without a key.

    An empty key counts as none. All producers of a keyed topic must use the same partitioner.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Nothing to set."""

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ARG002 - as the protocol has it
        key_bytes: bytes | None,
        value: Any,  # noqa: ARG002
        value_bytes: bytes | None,  # noqa: ARG002
        cluster: PartitionedCluster,
    ) -> int:
        """Return the key's partition, or a random one with a leader."""
        if key_bytes:
            return crc32(key_bytes) % cluster.partition_count(topic)
        available = cluster.available_partitions(topic)
        return available[self._random.randrange(len(available))]

    def close(self) -> None:
        """Nothing is held."""


class FunctionPartitioner:
    """Wraps a user's function as a partitioner."""

    def __init__(self, function: PartitionFunction) -> None:
        self.partition = function

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Nothing to set."""

    def close(self) -> None:
        """Nothing is held."""


class MetadataAgePartitioner:
    """One random partition for all records without a key until metadata is refreshed.

    Kafka 0.8 did this to save connections. Keys are hashed with murmur2, unlike in 0.8.
    """

    def __init__(self, random: Random, clock: Clock) -> None:
        self._random = random
        self._clock = clock
        self._age_s = 0.0
        self._chosen: dict[str, tuple[int, float]] = {}

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the metadata age."""
        self._age_s = configs["metadata_max_age_ms"] / 1000

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ARG002 - as the protocol has it
        key_bytes: bytes | None,
        value: Any,  # noqa: ARG002
        value_bytes: bytes | None,  # noqa: ARG002
        cluster: PartitionedCluster,
    ) -> int:
        """Return the key's partition, or the current random one."""
        if key_bytes is not None:
            return partition_for_key(key_bytes, cluster.partition_count(topic))
        now = self._clock.monotonic()
        partition, until = self._chosen.get(topic, (-1, 0.0))
        available = cluster.available_partitions(topic)
        if now >= until or partition not in available:
            partition = available[self._random.randrange(len(available))]
            self._chosen[topic] = partition, now + self._age_s
        return partition

    def close(self) -> None:
        """Nothing is held."""
