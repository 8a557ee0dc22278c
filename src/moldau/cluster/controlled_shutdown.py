"""The controlled shutdown of a broker that asks for it by request, as with ZooKeeper. Pure.

With a quorum a broker asks by its heartbeats (`heartbeats`), and leads nothing from then on. With
ZooKeeper it sends ControlledShutdown and is told what it still leads: partitions of which no other
replica can lead without losing records. It goes on leading those, so that followers can catch up,
and asks again some seconds later. When it has asked often enough, it stops all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.brokers import departure, registered_broker
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import Election, ElectionRules
from moldau.cluster.model import NO_LEADER, Broker, Partition, Topic
from moldau.cluster.partition_update import change_partition
from moldau.cluster.steps import Stepwise, walk_partitions
from moldau.protocol.errors import ApiError, ErrorCode

UNKNOWN_BROKER_EPOCH: Final = -1
"""Of a request whose version does not have it."""


class ShutdownAnswer(NamedTuple):
    """What a broker that wants to stop has to know."""

    still_led: tuple[PartitionKey, ...]
    """Partitions that others may lead later, when their replicas have caught up."""
    version: int
    """Brokers that have read this version of the metadata know who leads all others."""


def answer_shutdown_request(
    image: MetadataImage, broker_id: BrokerId, broker_epoch: int = UNKNOWN_BROKER_EPOCH
) -> Stepwise[ShutdownAnswer]:
    """Let a broker leave its partitions before it stops; may be called until it leads nothing.

    The only replica of a partition leads until the broker is gone.
    """
    broker = _asking(image, broker_id, broker_epoch)
    still_led: list[PartitionKey] = []
    has_changes = False
    if not broker.in_controlled_shutdown:
        yield BrokerChanged(broker.id, broker.epoch, in_controlled_shutdown=True)
        has_changes = True
    rules = ElectionRules(image).with_broker(replace(broker, in_controlled_shutdown=True))
    for place in walk_partitions(image):
        if place is None:
            yield None
            continue
        topic, partition = place
        change = _departure(rules, topic, partition, broker_id)
        if change is None:
            continue
        if partition.leader == broker_id and change.leader == NO_LEADER:
            if _may_be_led_later(image, partition, broker_id):
                still_led.append(PartitionKey(topic.name, partition.index))
            yield None
        else:
            yield change
            has_changes = True
    return ShutdownAnswer(tuple(still_led), image.version + 1 if has_changes else image.version)


def _asking(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> Broker:
    """Return the broker that asks; ApiError with Kafka's codes unless it is there."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    if broker_epoch == UNKNOWN_BROKER_EPOCH:
        return broker
    return registered_broker(image, broker_id, broker_epoch)


def _may_be_led_later(image: MetadataImage, partition: Partition, broker_id: BrokerId) -> bool:
    """Tell whether another replica may catch up: its broker lives, and does not stop as well."""
    return any(
        one != broker_id and one in image.brokers and image.brokers[one].active
        for one in partition.replicas
    )


def _departure(
    rules: ElectionRules, topic: Topic, partition: Partition, broker_id: BrokerId
) -> PartitionChanged | None:
    target = departure(rules, partition, broker_id, may_lack_records=False)
    if target is None:
        return None
    # An orderly stop loses nothing, whatever the topic allows.
    return change_partition(rules, topic, partition, replace(target, election=Election.ONLINE))
