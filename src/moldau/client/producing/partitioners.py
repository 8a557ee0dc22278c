"""Which partition a record goes to, where neither the user nor the key's hash decides.

The usual way needs nothing of this: a given partition, else the key's hash (`murmur2`), else the
sticky partition (`accumulator`). Here is what a user can put in its place: round robin, with keys
or without; librdkafka's hash; the oldest way of Kafka 0.8, one random partition for as long as
metadata is good; or a partitioner of their own, a function or an object with the same three
methods. A partitioner is asked for every record without a partition.

Pure: a partitioner that needs time or chance is given them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

from moldau.base.clock import Clock, Random
from moldau.engine.metadata import BrokerImage
from moldau.engine.murmur2 import partition_for_key


class PartitionedCluster(Protocol):
    """What a partitioner may know of the cluster: a view that it cannot change anything by."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        ...

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions that have a leader; all of them if none has."""
        ...

    def leader(self, topic: str, partition: int) -> BrokerImage | None:
        """Return the broker that leads a partition, with its rack; None if none does."""
        ...

    def brokers(self) -> Sequence[BrokerImage]:
        """Return the brokers of the cluster, each with its id, address and rack."""
        ...


PartitionFunction = Callable[[str, Any, bytes | None, Any, bytes | None, PartitionedCluster], int]
"""Chooses partitions as the method of a `Partitioner` does."""


class Partitioner(Protocol):
    """Chooses partitions: the user's own implements this."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the producer's settings, once, before anything else."""
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
        """Return the partition for a record, before and after it was serialized."""
        ...

    def close(self) -> None:
        """Give back what it holds; called once, last."""
        ...


AnyPartitioner = Partitioner | type[Partitioner] | PartitionFunction | str
"""What a user may give: the last is the name of one that is built in."""


class RoundRobinPartitioner:
    """One partition after the other, whatever the key, from a random start for each topic."""

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
        """Return the next partition that has a leader."""
        available = cluster.available_partitions(topic)
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._random.randrange(len(available))
        self._turns[topic] = turn + 1
        return available[turn % len(available)]

    def close(self) -> None:
        """Nothing is held."""


class KeyedRoundRobinPartitioner(RoundRobinPartitioner):
    """The default of Kafka 1.x: a key's hash decides; records without a key take turns."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: PartitionedCluster,
    ) -> int:
        """Return the key's partition, or the next that has a leader."""
        if key_bytes is not None:
            return partition_for_key(bytes(key_bytes), cluster.partition_count(topic))
        return super().partition(topic, key, key_bytes, value, value_bytes, cluster)


class ConsistentRandomPartitioner:
    """librdkafka's default: a key's CRC-32 decides; records without one go anywhere.

    An empty key counts as none. All producers that share a keyed topic have to agree on it.
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
        """Return the key's partition, or any that has a leader."""
        if key_bytes:
            return crc32(key_bytes) % cluster.partition_count(topic)
        available = cluster.available_partitions(topic)
        return available[self._random.randrange(len(available))]

    def close(self) -> None:
        """Nothing is held."""


class FunctionPartitioner:
    """A function of the user's as a partitioner."""

    def __init__(self, function: PartitionFunction) -> None:
        self.partition = function

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Nothing to set."""

    def close(self) -> None:
        """Nothing is held."""


class MetadataAgePartitioner:
    """One random partition for all records without a key until metadata is due again.

    Kafka 0.8's way, which spared connections; keys are not hashed by it but by murmur2.
    """

    def __init__(self, random: Random, clock: Clock) -> None:
        self._random = random
        self._clock = clock
        self._age_s = 0.0
        self._chosen: dict[str, tuple[int, float]] = {}

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Learn how long metadata is good."""
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
        """Return the key's partition, or the random one of this while."""
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
