"""What happened between two images, as changes. Pure.

A broker that begins again with a snapshot does not hear the changes in between, only what they
added up to. Listeners are told this difference instead: applied to the older image it gives the
newer one. A partition or broker that has changed is stated as a whole, because a single change
raises its epochs by one and these may have been raised by more. A topic that was deleted and made
again under its name is removed and created.

Records that we keep without understanding them only ever become more here; which of them took
back another one is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    ControllerRegistered,
    ControllerUnregistered,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType, Topic


def image_difference(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    """Return the changes that lead from one image to another."""
    return chain.from_iterable(difference_in_pieces(old, new))


def difference_in_pieces(old: MetadataImage, new: MetadataImage) -> Iterator[Sequence[Change]]:
    """Return the same piece by piece, also the empty ones: looking at each costs a little.

    In the order of a snapshot: features decide how the rest is read, and brokers come before the
    partitions that name them.
    """
    yield from _features(old, new)
    for broker_id, broker in new.brokers.items():
        yield [] if old.brokers.get(broker_id) == broker else [BrokerRegistered(broker)]
    yield _controllers(old, new)
    for topic in old.topics.values():
        yield [TopicRemoved(topic.id)] if _is_gone(topic, new) else []
    for topic in new.topics.values():
        yield _topic(old.topic_by_id(topic.id), topic)
    yield from _configs(old, new)
    if old.next_producer_id != new.next_producer_id:
        yield [ProducerIdsAllocated(BrokerId(-1), -1, new.next_producer_id)]
    yield list((Counter(new.opaque) - Counter(old.opaque)).elements())
    for broker_id, broker in old.brokers.items():
        if broker_id not in new.brokers:
            yield [BrokerUnregistered(broker_id, broker.epoch)]


def _features(old: MetadataImage, new: MetadataImage) -> Iterator[Sequence[Change]]:
    for name, level in new.features.items():
        if old.features.get(name) != level:
            yield [FeatureLevelSet(name, level)]
    for name in old.features:
        if name not in new.features:
            yield [FeatureLevelSet(name, 0)]


def _controllers(old: MetadataImage, new: MetadataImage) -> Sequence[Change]:
    changes: list[Change] = [
        ControllerUnregistered(controller_id)
        for controller_id in old.controllers
        if controller_id not in new.controllers
    ]
    changes.extend(
        ControllerRegistered(controller)
        for controller_id, controller in new.controllers.items()
        if old.controllers.get(controller_id) != controller
    )
    return changes


def _is_gone(topic: Topic, new: MetadataImage) -> bool:
    """Tell whether a topic was deleted; one of its name may be there, under another id."""
    return topic.id not in new.topic_names


def _topic(before: Topic | None, topic: Topic) -> Sequence[Change]:
    if before is topic:
        return []
    changes: list[Change] = []
    if before is None:
        changes.append(TopicCreated(topic.name, topic.id))
    known = () if before is None else before.partitions
    changes.extend(
        PartitionCreated(topic.id, partition)
        for partition in topic.partitions
        if partition.index >= len(known) or known[partition.index] != partition
    )
    return changes


def _configs(old: MetadataImage, new: MetadataImage) -> Iterator[Sequence[Change]]:
    for resource in old.configs:
        # The configs of a topic that was removed went with it.
        if not _went_with_its_topic(resource, old, new):
            gone = old.config(resource).keys() - new.config(resource).keys()
            yield [ConfigChanged(resource, key, None) for key in sorted(gone)]
    for resource, settings in new.configs.items():
        before = {} if _went_with_its_topic(resource, old, new) else old.config(resource)
        yield [
            ConfigChanged(resource, key, value)
            for key, value in settings.items()
            if before.get(key) != value
        ]


def _went_with_its_topic(resource: ConfigResource, old: MetadataImage, new: MetadataImage) -> bool:
    if resource.type != ResourceType.TOPIC:
        return False
    topic = old.topics.get(resource.name)
    return topic is not None and _is_gone(topic, new)
