"""The cluster as a partitioner sees it: read-only, whatever the producer knows meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.producing.outbox import Outbox
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import BrokerImage


class ClusterView:
    """What `PartitionedCluster` promises. Any thread may ask: images are replaced, not changed."""

    __slots__ = ("_cluster", "_outbox")

    def __init__(self, outbox: Outbox[Any], cluster: Cluster) -> None:
        self._outbox = outbox
        self._cluster = cluster

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._outbox.partition_count(topic)

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions that have a leader; all of them if none has."""
        return self._outbox.available_partitions(topic)

    def leader(self, topic: str, partition: int) -> BrokerImage | None:
        """Return the broker that leads a partition, with its rack; None if none does."""
        image = self._cluster.image
        led = image.leader(topic, partition)
        return None if led is None else image.brokers.get(led.leader)

    def brokers(self) -> Sequence[BrokerImage]:
        """Return the brokers of the cluster, each with its id, address and rack."""
        return tuple(self._cluster.image.brokers.values())
