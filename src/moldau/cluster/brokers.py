"""Decisions about brokers: one registers, one leaves, one asks for producer ids. Pure.

A broker that registers is unfenced in the same step, and takes back what only it can lead: its
own partitions after a restart, and those that nobody leads and for which it is in the ISR,
eligible, or the only replica there is. Naming it leader again raises the leader epoch, so that
nothing written before the restart can be mistaken for something written after it.

Leaving follows Kafka's controller: leadership goes to the next live member of the ISR; where
there is none, the partition waits without a leader, and the last one who had everything is kept
on record as eligible (KIP-966), or, in a cluster without that feature, as the last of the ISR.
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
"""How many producer ids a broker is given at once; Kafka's number, kept for equal logs."""

SUPPORTED_FEATURES: Final = (
    FeatureRange("eligible.leader.replicas.version", 0, 1),
    FeatureRange("group.version", 0, 1),
    FeatureRange("kraft.version", 0, 1),
    FeatureRange("metadata.version", 7, 30),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
)
"""The feature levels whose records we keep intact: those of Kafka 4.3. A controller refuses a
registration that does not span the levels in force, so all of them must be here, used or not."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says about itself when it starts."""

    broker_id: BrokerId
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_directories: tuple[bytes, ...]
    rack: str | None = None


def register_broker(image: MetadataImage, registration: Registration) -> list[Change]:
    """Decide on a broker that starts; its epoch is the version the decision was based on."""
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
    """Return how many must be in sync; never more than there are replicas."""
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
        # With no other replica there is nobody to recover from: what it has is what there is.
        change = replace(change, recovering=False)
    return change


def retire_broker(image: MetadataImage, broker_id: BrokerId) -> list[Change]:
    """Decide on a broker that stops in an orderly way; nothing if it is not registered."""
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
    """Decide on the next block: from `image.next_producer_id` up to the one in the answer."""
    following = image.next_producer_id + PRODUCER_ID_BLOCK
    return ProducerIdsAllocated(broker.id, broker.epoch, following)
