"""The metadata image: the state after all changes up to a version. Pure.

An image never changes; `apply` makes the next one and shares the parts that the changes did not
touch. Topics are the large part: to create one copies the dict of topics (references only, tens of
microseconds for ten thousand), never the topics in it. A handler that holds an image holds one
consistent state, also across an await.

The version, the epochs of partitions and brokers, and the next producer id only grow. Brokers use
them to refuse what is older. So a change that would take one back is refused here, whoever made it:
on a broken log the store does not start, and a broken decision is not committed.

The image also keeps three small totals, so that decisions need not go through all topics:
partitions, preferred leaders per broker, and names that differ only in "." and "_".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, cast

from moldau.base.checks import invariant
from moldau.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId, uuid_text
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
from moldau.cluster.model import (
    Broker,
    ConfigResource,
    Partition,
    RegisteredController,
    ResourceType,
    Topic,
)

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


def collision_name(topic: str) -> str | None:
    """Return a topic's name in metrics, where "." becomes "_"; None if it has neither."""
    return topic.replace(".", "_") if "." in topic or "_" in topic else None


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole metadata at one version. Its mappings must not be changed."""

    version: int = 0
    """The number of log records in it: the offset that the next record gets."""
    cluster_id: str = ""
    topics: Mapping[str, Topic] = field(default_factory=lambda: _NOTHING)
    topic_names: Mapping[TopicId, str] = field(default_factory=lambda: _NOTHING)
    brokers: Mapping[BrokerId, Broker] = field(default_factory=lambda: _NOTHING)
    controllers: Mapping[BrokerId, RegisteredController] = field(default_factory=lambda: _NOTHING)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=lambda: _NOTHING)
    features: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    next_producer_id: int = 0
    opaque: tuple[OpaqueRecorded, ...] = ()
    partition_count: int = 0
    preferred_leaders: Mapping[BrokerId, int] = field(default_factory=lambda: _NOTHING)
    colliding_names: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def topic(self, name: str) -> Topic | None:
        """Return the topic of this name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        """Return the topic of this id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, key: PartitionKey) -> Partition | None:
        """Return one partition; None if it does not exist."""
        topic = self.topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the configs that were set for a resource itself, without defaults."""
        return self.configs.get(resource, _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the configs that were set for a topic itself."""
        return self.configs.get(ConfigResource(ResourceType.TOPIC, name), _NOTHING)

    def active_brokers(self) -> tuple[Broker, ...]:
        """Return the brokers that may lead and get new replicas, by id."""
        return tuple(broker for _, broker in sorted(self.brokers.items()) if broker.active)

    def replicas_on(self, broker_id: BrokerId) -> Iterator[tuple[Topic, Partition]]:
        """Walk over all partitions that have this broker as a replica."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                if broker_id in partition.replicas:
                    yield topic, partition

    def apply(self, changes: Iterable[Change], version: int) -> MetadataImage:
        """Return the image after these changes; this one stays as it is."""
        draft = self.draft()
        for change in changes:
            draft.take(change)
        return draft.finish(version)

    def draft(self) -> ImageDraft:
        """Begin to apply changes one by one, with pauses if there are thousands."""
        return ImageDraft(self)

    def as_changes(self) -> Iterator[Change]:
        """Return changes that make this image from an empty one, for a snapshot.

        Features come first, because they decide how Kafka reads the records after them.
        """
        for name, level in self.features.items():
            yield FeatureLevelSet(name, level)
        for broker in self.brokers.values():
            yield BrokerRegistered(broker)
        for controller in self.controllers.values():
            yield ControllerRegistered(controller)
        for topic in self.topics.values():
            yield TopicCreated(topic.name, topic.id)
            for partition in topic.partitions:
                yield PartitionCreated(topic.id, partition)
        for resource, settings in self.configs.items():
            for key, value in settings.items():
                yield ConfigChanged(resource, key, value)
        if self.next_producer_id:
            yield ProducerIdsAllocated(BrokerId(-1), -1, self.next_producer_id)
        yield from self.opaque


class ImageDraft:
    """An image that is being built: a part is copied when it is first changed."""

    __slots__ = ("base", "copies", "opaque", "touched")

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.copies: dict[str, Any] = {}
        self.touched: dict[TopicId, dict[int, Partition]] = {}
        """Partitions of the changed topics, by number: they may come in any order."""
        self.opaque: list[OpaqueRecorded] = []

    def take(self, change: Change) -> None:
        """Apply one change."""
        _APPLY[type(change)](self, change)

    def writable(self, part: str) -> dict[Any, Any]:
        copy = self.copies.get(part)
        if copy is None:
            copy = self.copies[part] = dict(getattr(self.base, part))
        return copy

    def read(self, part: str) -> Any:
        return self.copies.get(part, getattr(self.base, part))

    def partitions(self, topic_id: TopicId) -> dict[int, Partition]:
        touched = self.touched.get(topic_id)
        if touched is None:
            name = self.read("topic_names").get(topic_id)
            invariant(name is not None, f"topic id {uuid_text(topic_id)} does not exist")
            touched = dict(enumerate(self.read("topics")[name].partitions))
            self.touched[topic_id] = touched
        return touched

    def finish(self, version: int) -> MetadataImage:
        """Return the image after all changes that were taken."""
        # Equal for a preview. An older one would make a commit on an old image look current.
        invariant(
            version >= self.base.version,
            f"the metadata goes from version {self.base.version} back to {version}",
        )
        for _ in self.settle_topics():
            pass
        if self.opaque:
            self.copies["opaque"] = (*self.base.opaque, *self.opaque)
        return replace(self.base, version=version, **self.copies)

    def settle_topics(self) -> Iterator[None]:
        """Bring each topic that was written to up to date, for those who pause in between.

        Only `finish` may follow: not every change can be taken after it.
        """
        for topic_id in tuple(self.touched):
            partitions = self.touched.pop(topic_id)
            name = self.read("topic_names")[topic_id]
            ordered = tuple(partition for _, partition in sorted(partitions.items()))
            invariant(
                not ordered or ordered[-1].index == len(ordered) - 1,
                f"topic {name} has a gap between its partitions",
            )
            self.count(self.read("topics")[name].partitions, ordered)
            topics = self.writable("topics")
            topics[name] = replace(topics[name], partitions=ordered)
            yield

    def count(self, old: tuple[Partition, ...], new: tuple[Partition, ...]) -> None:
        if len(old) != len(new):
            grown = len(new) - len(old)
            self.copies["partition_count"] = self.read("partition_count") + grown
        difference = Counter(partition.replicas[0] for partition in new)
        difference.subtract(partition.replicas[0] for partition in old)
        for broker_id, step in difference.items():
            if step:
                leaders = self.writable("preferred_leaders")
                leaders[broker_id] = leaders.get(broker_id, 0) + step
                if not leaders[broker_id]:
                    del leaders[broker_id]

    def topic_created(self, change: TopicCreated) -> None:
        invariant(change.name not in self.read("topics"), f"topic {change.name} exists already")
        self.writable("topics")[change.name] = Topic(change.name, change.topic_id)
        self.writable("topic_names")[change.topic_id] = change.name
        if (collision := collision_name(change.name)) is not None:
            self.writable("colliding_names")[collision] = change.name

    def topic_removed(self, change: TopicRemoved) -> None:
        name = self.read("topic_names").get(change.topic_id)
        invariant(name is not None, f"topic id {uuid_text(change.topic_id)} does not exist")
        self.touched.pop(change.topic_id, None)
        del self.writable("topic_names")[change.topic_id]
        self.count(self.writable("topics").pop(name).partitions, ())
        collision = collision_name(name)
        if collision is not None and self.read("colliding_names").get(collision) == name:
            del self.writable("colliding_names")[collision]
        self.writable("configs").pop(ConfigResource(ResourceType.TOPIC, name), None)

    def partition_created(self, change: PartitionCreated) -> None:
        new, partitions = change.partition, self.partitions(change.topic_id)
        old = partitions.get(new.index)
        # With lower epochs brokers would take the new state for an old one, and keep their roles.
        invariant(
            old is None
            or (
                new.leader_epoch >= old.leader_epoch and new.partition_epoch >= old.partition_epoch
            ),
            f"partition {new.index} of a topic is stated again with older epochs",
        )
        partitions[new.index] = new

    def partition_changed(self, change: PartitionChanged) -> None:
        partitions = self.partitions(change.topic_id)
        old = partitions.get(change.index)
        invariant(old is not None, f"partition {change.index} of a changed topic does not exist")
        partitions[change.index] = changed_partition(cast(Partition, old), change)

    def eligible_leaders_cleared(self, change: EligibleLeadersCleared) -> None:
        topics = self.read("topics")
        named = [topics[change.topic]] if change.topic else list(topics.values())
        for topic_id in [topic.id for topic in named]:
            for partition in list(self.partitions(topic_id).values()):
                if partition.eligible_leaders or partition.last_known_leaders:
                    cleared = PartitionChanged(
                        topic_id, partition.index, eligible_leaders=(), last_known_leaders=()
                    )
                    self.partition_changed(cleared)

    def config_changed(self, change: ConfigChanged) -> None:
        configs = self.writable("configs")
        settings = dict(configs.get(change.resource, _NOTHING))
        if change.value is None:
            settings.pop(change.key, None)
        else:
            settings[change.key] = change.value
        if settings:
            configs[change.resource] = settings
        else:
            configs.pop(change.resource, None)

    def broker_registered(self, change: BrokerRegistered) -> None:
        broker = change.broker
        old = self.read("brokers").get(broker.id)
        # Requests of an earlier incarnation would otherwise be taken for those of this one. Kafka
        # keeps the epoch if the same incarnation registers again.
        invariant(
            old is None
            or broker.epoch > old.epoch
            or (broker.epoch, broker.incarnation_id) == (old.epoch, old.incarnation_id),
            f"broker {broker.id} registers again with epoch {broker.epoch}",
        )
        self.writable("brokers")[broker.id] = broker

    def broker_changed(self, change: BrokerChanged) -> None:
        broker = self.read("brokers").get(change.broker_id)
        # The change was decided for one registration. It must not apply to a later one.
        invariant(
            broker is not None and broker.epoch == change.broker_epoch,
            f"a change names broker {change.broker_id} at epoch {change.broker_epoch}",
        )
        given = _given(change, _BROKER_PARTS)
        self.writable("brokers")[change.broker_id] = replace(broker, **given)

    def broker_unregistered(self, change: BrokerUnregistered) -> None:
        self.writable("brokers").pop(change.broker_id, None)

    def controller_registered(self, change: ControllerRegistered) -> None:
        self.writable("controllers")[change.controller.id] = change.controller

    def controller_unregistered(self, change: ControllerUnregistered) -> None:
        self.writable("controllers").pop(change.controller_id, None)

    def producer_ids_allocated(self, change: ProducerIdsAllocated) -> None:
        # Two producers with one id would share their sequence numbers: a partition would drop
        # batches of one as duplicates of the other's.
        invariant(
            change.next_producer_id > self.read("next_producer_id"),
            f"producer ids from {change.next_producer_id} on are given out twice",
        )
        self.copies["next_producer_id"] = change.next_producer_id

    def feature_level_set(self, change: FeatureLevelSet) -> None:
        if change.level:
            self.writable("features")[change.name] = change.level
        else:
            self.writable("features").pop(change.name, None)

    def opaque_recorded(self, change: OpaqueRecorded) -> None:
        self.opaque.append(change)


_PARTITION_PARTS = tuple(
    part.name
    for part in fields(PartitionChanged)
    if part.name not in {"topic_id", "index", "leader"}
)
_BROKER_PARTS = tuple(
    part.name for part in fields(BrokerChanged) if part.name not in {"broker_id", "broker_epoch"}
)


def _given(change: Any, parts: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that a change sets; None means unchanged."""
    return {name: value for name in parts if (value := getattr(change, name)) is not None}


def changed_partition(old: Partition, change: PartitionChanged) -> Partition:
    """Return the partition after a change, with its epochs raised as the change asks."""
    given = _given(change, _PARTITION_PARTS)
    if change.leader is not None:
        given["leader"] = change.leader
        given["leader_epoch"] = LeaderEpoch(old.leader_epoch + 1)
    return replace(old, partition_epoch=old.partition_epoch + 1, **given)


_APPLY: dict[type[Any], Callable[[ImageDraft, Any], None]] = {
    TopicCreated: ImageDraft.topic_created,
    TopicRemoved: ImageDraft.topic_removed,
    PartitionCreated: ImageDraft.partition_created,
    PartitionChanged: ImageDraft.partition_changed,
    EligibleLeadersCleared: ImageDraft.eligible_leaders_cleared,
    ConfigChanged: ImageDraft.config_changed,
    BrokerRegistered: ImageDraft.broker_registered,
    BrokerChanged: ImageDraft.broker_changed,
    BrokerUnregistered: ImageDraft.broker_unregistered,
    ControllerRegistered: ImageDraft.controller_registered,
    ControllerUnregistered: ImageDraft.controller_unregistered,
    ProducerIdsAllocated: ImageDraft.producer_ids_allocated,
    FeatureLevelSet: ImageDraft.feature_level_set,
    OpaqueRecorded: ImageDraft.opaque_recorded,
}
