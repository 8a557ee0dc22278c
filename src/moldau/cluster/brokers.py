"""Decisions about brokers: registration, shutdown, producer ids. Pure.

A broker that registers is unfenced in the same step. It becomes the leader of the partitions that
it led before the restart, and of partitions without a leader for which it is in the ISR, eligible,
or the only replica. The election raises the leader epoch, so that records written before the
restart can be told from those written after it.

A shutdown follows Kafka's controller. The next active replica in the ISR becomes the leader. If
there is none, the partition has no leader, and the broker that stops is kept as eligible (KIP-966);
in a cluster without that feature it stays in the ISR. So no replica without all committed records
can become the leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    Change,
    PartitionChanged,
    ProducerIdsAllocated,
)
from moldau.cluster.configs import eligible_leaders_kept, min_insync_replicas
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Broker, Endpoint, FeatureRange, Partition, Topic

PRODUCER_ID_BLOCK: Final = 1000
"""The number of producer ids that a broker gets at once; Kafka's number, for equal logs."""

SUPPORTED_FEATURES: Final = (
    FeatureRange("eligible.leader.replicas.version", 0, 1),
    FeatureRange("group.version", 0, 1),
    FeatureRange("kraft.version", 0, 1),
    FeatureRange("metadata.version", 7, 30),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
)
"""The feature levels of Kafka 4.3, whose records we keep intact. A controller refuses a broker that
does not support the levels in force. So all of them are here, also those that we do not use."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker reports about itself when it starts."""

    broker_id: BrokerId
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_directories: tuple[bytes, ...]
    rack: str | None = None


def register_broker(image: MetadataImage, registration: Registration) -> list[Change]:
    """Decide on a broker that starts. Its epoch is the version that the decision is based on.

    Every commit raises the version, so each registration of a broker has a larger epoch.
    """
    epoch = image.version
    broker = Broker(
        registration.broker_id,
        epoch,
        registration.incarnation_id,
        registration.endpoints,
        registration.rack,
        SUPPORTED_FEATURES,
        log_directories=registration.log_directories,
    )
    return [
        BrokerRegistered(broker),
        BrokerChanged(broker.id, epoch, fenced=False),
        *_taken_back(image, broker.id),
    ]


def _taken_back(image: MetadataImage, broker_id: BrokerId) -> Iterator[Change]:
    for topic, partition in image.replicas_on(broker_id):
        if partition.leader == broker_id or (
            partition.leader == NO_LEADER and _may_lead(partition, broker_id)
        ):
            yield _elected(image, topic, partition, broker_id)


def _may_lead(partition: Partition, broker_id: BrokerId) -> bool:
    if partition.isr:
        return broker_id in partition.isr
    if partition.eligible_leaders:
        return broker_id in partition.eligible_leaders
    return partition.replicas == (broker_id,)


def _minimum(image: MetadataImage, topic: Topic, partition: Partition) -> int:
    """Return how many replicas must be in sync; at most the number of replicas."""
    return min(min_insync_replicas(image, topic.name), len(partition.replicas))


def _elected(
    image: MetadataImage, topic: Topic, partition: Partition, broker_id: BrokerId
) -> PartitionChanged:
    isr = partition.isr or (broker_id,)
    eligible = tuple(other for other in partition.eligible_leaders if other not in isr)
    if len(isr) >= _minimum(image, topic, partition):
        eligible = ()
    change = PartitionChanged(topic.id, partition.index, leader=broker_id)
    if isr != partition.isr:
        change = replace(change, isr=isr)
    if eligible != partition.eligible_leaders:
        change = replace(change, eligible_leaders=eligible)
    if partition.last_known_leaders:
        change = replace(change, last_known_leaders=())
    if partition.recovering and partition.replicas == (broker_id,):
        # With no other replica there is nothing to recover from: its log is all there is.
        change = replace(change, recovering=False)
    return change


def retire_broker(image: MetadataImage, broker_id: BrokerId) -> list[Change]:
    """Decide on a controlled shutdown; no changes if the broker is not registered or fenced.

    The order is Kafka's: the broker is marked, its partitions change, then it is fenced.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return []
    leaving = [
        change
        for topic, partition in image.replicas_on(broker_id)
        if (change := _left(image, topic, partition, broker_id)) is not None
    ]
    return [
        BrokerChanged(broker_id, broker.epoch, in_controlled_shutdown=True),
        *leaving,
        BrokerChanged(broker_id, broker.epoch, fenced=True),
    ]


def _left(
    image: MetadataImage, topic: Topic, partition: Partition, broker_id: BrokerId
) -> PartitionChanged | None:
    if broker_id not in partition.isr:
        return None
    remaining = tuple(other for other in partition.isr if other != broker_id)
    change = PartitionChanged(topic.id, partition.index)
    if partition.leader == broker_id:
        change = replace(change, leader=_next_leader(image, partition, remaining))
    if not eligible_leaders_kept(image):
        return replace(change, isr=remaining) if remaining else _if_any(change)
    if len(remaining) < _minimum(image, topic, partition):
        eligible = (*partition.eligible_leaders, broker_id)
        change = replace(change, eligible_leaders=eligible)
    if not remaining:
        change = replace(change, last_known_leaders=(broker_id,))
    return replace(change, isr=remaining)


def _if_any(change: PartitionChanged) -> PartitionChanged | None:
    return None if change.leader is None else change


def _next_leader(
    image: MetadataImage, partition: Partition, candidates: tuple[BrokerId, ...]
) -> BrokerId:
    for other in partition.replicas:
        broker = image.brokers.get(other)
        if other in candidates and broker is not None and broker.active:
            return other
    return NO_LEADER


def allocate_producer_ids(image: MetadataImage, broker: Broker) -> ProducerIdsAllocated:
    """Decide on the next block: from `image.next_producer_id` to that of the change, exclusive."""
    following = image.next_producer_id + PRODUCER_ID_BLOCK
    return ProducerIdsAllocated(broker.id, broker.epoch, following)
