"""Metadata to test with: brokers, images, and one of every change."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

from moldau.base.ids import BrokerId, LeaderEpoch, TopicId
from moldau.cluster.brokers import BrokerRegistration, register_broker, unfence_broker
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    ControllerRegistered,
    ControllerUnregistered,
    EligibleLeadersCleared,
    FeatureLevelSet,
    OpaqueRecorded,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.controller import Controller
from moldau.cluster.heartbeats import Heartbeat
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    RegisteredController,
    ResourceType,
)
from moldau.cluster.steps import Stepwise
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic

T = TypeVar("T")


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def directory_id(broker_id: int) -> bytes:
    return bytes([0xD0, broker_id]) * 8


def registration(
    broker_id: int, rack: str | None = None, *, incarnation: int = 0x1C, previous_epoch: int = -1
) -> BrokerRegistration:
    return BrokerRegistration(
        BrokerId(broker_id),
        incarnation.to_bytes(8, "big") + bytes([0x1C, broker_id]) * 4,
        (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + broker_id, 0),),
        (directory_id(broker_id),),
        rack,
        previous_epoch,
    )


def after(image: MetadataImage, steps: Iterable[Change | None]) -> MetadataImage:
    """The image after a decision."""
    changes = [step for step in steps if step is not None]
    return image.apply(changes, image.version + len(changes))


def decided(image: MetadataImage, steps: Stepwise[T]) -> tuple[T, MetadataImage]:
    """What a decision answers, and the image after it."""
    changes: list[Change | None] = []
    while True:
        try:
            changes.append(next(steps))
        except StopIteration as end:
            return end.value, after(image, changes)


def with_brokers(
    ids: Iterable[int], racks: dict[int, str] | None = None, image: MetadataImage | None = None
) -> MetadataImage:
    """An image in which these brokers have registered once more, and are active."""
    image = image or MetadataImage(features={"eligible.leader.replicas.version": 1})
    for broker_id in ids:
        rack = (racks or {}).get(broker_id)
        old = image.brokers.get(BrokerId(broker_id))
        wanted = registration(
            broker_id,
            rack,
            incarnation=image.version,
            previous_epoch=-1 if old is None else old.epoch,
        )
        image = after(image, register_broker(image, wanted))
        image = after(image, unfence_broker(image, image.brokers[wanted.broker_id]))
    return image


async def bring_up(controller: Controller, wanted: BrokerRegistration) -> int:
    """Register a broker with a controller and unfence it; return its epoch."""
    epoch = await controller.register_broker(wanted)
    answer = await controller.heartbeat(Heartbeat(wanted.broker_id, epoch, epoch))
    assert not answer.is_fenced
    return epoch


def with_topic(image: MetadataImage, wanted: NewTopic, seed: int = 1) -> MetadataImage:
    dice = random.Random(f"{seed}{wanted.name}")
    changes = list(create_topic(image, wanted, TopicDefaults(), dice))
    return image.apply(changes, image.version + len(changes))


def lone_partition(index: int, broker_id: int) -> Partition:
    alone = (BrokerId(broker_id),)
    return Partition(index, alone, alone, alone[0], directories=(directory_id(broker_id),))


def controller(controller_id: int, incarnation: int = 0x2C) -> RegisteredController:
    """A controller as it registers itself, no part at its default."""
    return RegisteredController(
        BrokerId(controller_id),
        bytes([incarnation]) * 16,
        (Endpoint("CONTROLLER", "host-c", 65535, 1), Endpoint("INNER", "::1", 9094, 2)),
        (FeatureRange("metadata.version", 7, 30), FeatureRange("kraft.version", 0, 1)),
        zk_migration_ready=True,
    )


def every_change() -> list[Change]:
    """Changes of every kind that can be applied in this order, no part at its default."""
    broker = Broker(
        BrokerId(7),
        70,
        b"incarnation-7...",
        (Endpoint("A", "host-a", 65535, 1), Endpoint("B", "::1", 9093, 3)),
        "rack-1",
        (FeatureRange("metadata.version", 7, 30),),
        fenced=True,
        in_controlled_shutdown=True,
        log_directories=(directory_id(1), directory_id(2)),
        cordoned_log_directories=(directory_id(2),),
    )
    partition = Partition(
        0,
        (BrokerId(7), BrokerId(8)),
        (BrokerId(7),),
        BrokerId(7),
        LeaderEpoch(3),
        9,
        (BrokerId(8),),
        (BrokerId(7),),
        (BrokerId(8),),
        (BrokerId(8),),
        recovering=True,
        directories=(directory_id(1), directory_id(3)),
    )
    topic, gone = topic_id(1), topic_id(2)
    return [
        FeatureLevelSet("metadata.version", 30),
        FeatureLevelSet("group.version", 1),
        FeatureLevelSet("group.version", 0),
        BrokerRegistered(broker),
        BrokerChanged(BrokerId(7), 70, fenced=False),
        BrokerChanged(BrokerId(7), 70, fenced=True),
        BrokerChanged(BrokerId(7), 70, in_controlled_shutdown=True),
        BrokerChanged(BrokerId(7), 70, log_directories=(directory_id(4), directory_id(5))),
        BrokerChanged(BrokerId(7), 70, cordoned_log_directories=(directory_id(4),)),
        BrokerRegistered(Broker(BrokerId(8), 71, bytes(16))),
        BrokerUnregistered(BrokerId(8), 71),
        ControllerRegistered(controller(7)),
        ControllerRegistered(controller(9)),
        ControllerUnregistered(BrokerId(9)),
        TopicCreated("orders.v1", topic),
        PartitionCreated(topic, partition),
        PartitionCreated(topic, lone_partition(1, 8)),
        PartitionChanged(
            topic,
            1,
            isr=(),
            leader=BrokerId(-1),
            replicas=(BrokerId(8), BrokerId(7)),
            adding_replicas=(BrokerId(7),),
            removing_replicas=(BrokerId(8),),
            eligible_leaders=(BrokerId(8),),
            last_known_leaders=(BrokerId(8),),
            recovering=True,
            directories=(directory_id(1), directory_id(3)),
        ),
        PartitionChanged(topic, 0, recovering=False),
        EligibleLeadersCleared("orders.v1"),
        TopicCreated("gone", gone),
        PartitionCreated(gone, lone_partition(0, 7)),
        EligibleLeadersCleared(),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "gone"), "retention.ms", "1"),
        TopicRemoved(gone),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "orders.v1"), "retention.ms", "1000"),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "orders.v1"), "segment.ms", "5"),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "orders.v1"), "segment.ms", None),
        ConfigChanged(ConfigResource(ResourceType.GROUP, "g"), "share.record.lock", ""),
        ProducerIdsAllocated(BrokerId(7), 70, 3000),
        OpaqueRecorded(18, 0, b"an access rule"),
        OpaqueRecorded(99, 300, b""),
    ]
