"""Metadata to test with: brokers, images, and one of every change."""

from __future__ import annotations

import random
from collections.abc import Iterable

from moldau.base.ids import BrokerId, LeaderEpoch, TopicId
from moldau.cluster.brokers import Registration, register_broker
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    OpaqueRecorded,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
)
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def directory_id(broker_id: int) -> bytes:
    return bytes([0xD0, broker_id]) * 8


def registration(broker_id: int, rack: str | None = None) -> Registration:
    return Registration(
        BrokerId(broker_id),
        bytes([0x1C, broker_id]) * 8,
        (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + broker_id, 0),),
        (directory_id(broker_id),),
        rack,
    )


def with_brokers(
    ids: Iterable[int], racks: dict[int, str] | None = None, image: MetadataImage | None = None
) -> MetadataImage:
    """An image in which these brokers are registered and active."""
    image = image or MetadataImage(features={"eligible.leader.replicas.version": 1})
    for broker_id in ids:
        changes = register_broker(image, registration(broker_id, (racks or {}).get(broker_id)))
        image = image.apply(changes, image.version + len(changes))
    return image


def with_topic(image: MetadataImage, wanted: NewTopic, seed: int = 1) -> MetadataImage:
    dice = random.Random(f"{seed}{wanted.name}")
    changes = list(create_topic(image, wanted, TopicDefaults(), dice))
    return image.apply(changes, image.version + len(changes))


def lone_partition(index: int, broker_id: int) -> Partition:
    alone = (BrokerId(broker_id),)
    return Partition(index, alone, alone, alone[0], directories=(directory_id(broker_id),))


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
