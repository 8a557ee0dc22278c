"""Replicas that cannot be read, in a cluster whose image does not tell where replicas lie.

With a quorum the image names the log directory of each replica, and those that have failed. The
tree of ZooKeeper has no place for that: the controller remembers what brokers have answered. A
leader would propose a replica for the ISR again that was level when its directory failed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.model import Broker

Replica: TypeAlias = tuple[TopicId, int]
"""A partition, where the broker is known."""


class FailedReplicas:
    """What one controller has heard. A new life of a broker begins without failures."""

    def __init__(self) -> None:
        self._by_life: dict[BrokerId, tuple[int, set[Replica]]] = {}

    def add(self, broker_id: BrokerId, broker_epoch: int, replicas: Collection[Replica]) -> None:
        """Note replicas that a broker cannot read."""
        epoch, failed = self._by_life.get(broker_id, (broker_epoch, set()))
        if epoch != broker_epoch:
            failed = set()
        self._by_life[broker_id] = broker_epoch, failed.union(replicas)

    def remove(self, broker_id: BrokerId, replicas: Collection[Replica]) -> None:
        """Note replicas that a broker can read: one was moved away, and came back elsewhere."""
        if broker_id in self._by_life:
            epoch, failed = self._by_life[broker_id]
            self._by_life[broker_id] = epoch, failed.difference(replicas)

    def has(self, broker: Broker, replica: Replica) -> bool:
        """Tell whether this life of a broker cannot read a replica."""
        epoch, failed = self._by_life.get(broker.id, (broker.epoch, ()))
        return epoch == broker.epoch and replica in failed
