"""Takes the updates of a controller: from the pieces of one update to the next image.

An update states what is now. What the image has already is dropped, so that listeners hear of real
changes only, in the form that `image_difference` has. Images do not change, so an update that is
refused in the middle has changed nothing.

The same request may come twice, because the controller repeats it until it is answered. A piece
that was taken is not taken again, and an update that the image has already changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId, TopicId, uuid_text
from moldau.cluster.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Partition, ResourceType
from moldau.cluster.steps import PARTITIONS_PER_STEP, Step
from moldau.cluster.zookeeper.commands.pieces import PIECE_WEIGHT_MAX, request_weight
from moldau.cluster.zookeeper.commands.statements import (
    UpdateRefused,
    stated_broker,
    stated_configs,
    stated_feature,
    stated_partition,
    stated_topic,
)
from moldau.protocol.messages.replication import UpdateMetadataRequest

UPDATE_WEIGHT_MAX: Final = 2_000_000
"""What one update may state in all its pieces: a cluster of a million partitions."""


class UpdateOutOfOrder(MoldauError):  # noqa: N818 - it names the event
    """An update that does not continue from here. The controller has to send a full one.

    It is no mistake: the controller does not know yet what this broker has, or its request was
    held up on the way and comes after newer ones.
    """


@dataclass(slots=True)
class StatedTopic:
    """What an update states about one topic."""

    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataUpdate:
    """One update of a controller, with all of its pieces."""

    controller_id: BrokerId
    controller_epoch: int
    base_version: int
    """The version of the image that it continues from; -1 if it states everything."""
    version: int
    topics: dict[TopicId, StatedTopic] = field(default_factory=dict)
    removed_topics: set[TopicId] = field(default_factory=set)
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    removed_brokers: set[BrokerId] = field(default_factory=set)
    configs: dict[ConfigResource, dict[str, str | None]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it states everything, and what it does not state is gone."""
        return self.base_version < 0

    def add(self, request: UpdateMetadataRequest) -> None:
        """Add one piece."""
        for broker in map(stated_broker, request.live_brokers):
            _refuse_if(broker.id in self.brokers, f"broker {broker.id} is stated twice")
            self.brokers[broker.id] = broker
        for name, level in map(stated_feature, request.features):
            _refuse_if(name in self.features, "a feature is stated twice")
            self.features[name] = level
        self.removed_topics.update(map(TopicId, request.removed_topics))
        self.removed_brokers.update(map(BrokerId, request.removed_brokers))
        self.next_producer_id = max(self.next_producer_id, request.next_producer_id)
        self._add_topics(request)
        self._add_configs(request)

    def _add_topics(self, request: UpdateMetadataRequest) -> None:
        for topic in request.topic_states:
            name, topic_id = stated_topic(topic)
            stated = self.topics.setdefault(topic_id, StatedTopic(name))
            if stated.name != name:
                raise UpdateRefused(f"topics {name} and {stated.name} are stated with the same id")
            for state in topic.partition_states:
                partition = stated_partition(name, state)
                if partition.index in stated.partitions:
                    raise UpdateRefused(f"partition {name}-{partition.index} is stated twice")
                stated.partitions[partition.index] = partition

    def _add_configs(self, request: UpdateMetadataRequest) -> None:
        for resource, entries in map(stated_configs, request.configs):
            settings = self.configs.setdefault(resource, {})
            for key, value in entries:
                _refuse_if(key in settings, "a config is stated twice")
                settings[key] = value


class Updates:
    """Puts the pieces of updates together. One update is begun at a time."""

    def __init__(self) -> None:
        self._begun: MetadataUpdate | None = None
        self._next_piece = 0
        self._weight = 0

    def take(self, request: UpdateMetadataRequest, image_version: int) -> MetadataUpdate | None:
        """Take one request of a controller that is not fenced; return the update it completes.

        None means that the request is to be answered without an error: more pieces follow, or the
        image at this version has the update already.
        """
        try:
            return self._take(request, image_version)
        except UpdateRefused:
            self._begun = None
            raise

    def _take(self, request: UpdateMetadataRequest, image_version: int) -> MetadataUpdate | None:
        weight = request_weight(request)
        _refuse_if(weight > PIECE_WEIGHT_MAX, "a piece of an update is too large")
        _check_header(request, image_version)
        if request.version == image_version:
            return None
        if request.piece == 0:
            self._begin(request)
        update = self._continued(request)
        if request.piece < self._next_piece:
            return None
        self._weight += weight
        _refuse_if(self._weight > UPDATE_WEIGHT_MAX, "an update is too large")
        update.add(request)
        self._next_piece += 1
        if not request.is_last:
            return None
        self._begun = None
        return update

    def _begin(self, request: UpdateMetadataRequest) -> None:
        self._begun = MetadataUpdate(
            BrokerId(request.controller_id),
            request.controller_epoch,
            request.base_version,
            request.version,
        )
        self._next_piece = 0
        self._weight = 0

    def _continued(self, request: UpdateMetadataRequest) -> MetadataUpdate:
        """Return the update that this piece belongs to."""
        begun = self._begun
        if (
            begun is None
            or request.piece > self._next_piece
            or (begun.controller_id, begun.controller_epoch, begun.base_version, begun.version)
            != (
                request.controller_id,
                request.controller_epoch,
                request.base_version,
                request.version,
            )
        ):
            raise UpdateOutOfOrder(
                f"piece {request.piece} of the update to version {request.version} is not the next"
            )
        return begun


def _check_header(request: UpdateMetadataRequest, image_version: int) -> None:
    base, version = request.base_version, request.version
    _refuse_if(version < 0, "an update without a version")
    _check_newer(version, image_version)
    _refuse_if(not -1 <= base <= version, f"an update goes from version {base} to {version}")
    _refuse_if(
        min(request.controller_id, request.controller_epoch, request.piece) < 0
        or request.next_producer_id < 0,
        "an update has a number below 0",
    )
    _refuse_if(
        base == -1 and bool(request.removed_topics or request.removed_brokers),
        "a full update removes something",
    )


def _check_newer(version: int, image_version: int) -> None:
    if version < image_version:
        raise UpdateOutOfOrder(
            f"an update goes from version {image_version} back to {version}: it comes late"
        )


def updated_image(
    image: MetadataImage, update: MetadataUpdate
) -> Generator[None, None, tuple[list[Change], MetadataImage]]:
    """Return what an update changes, and the image after it; pauses where it yields."""
    if update.version == image.version:
        return [], image
    _check_newer(update.version, image.version)
    if not update.is_full and update.base_version != image.version:
        raise UpdateOutOfOrder(
            f"an update continues from version {update.base_version}, but {image.version} is here"
        )
    changes: list[Change] = []
    draft = image.draft()
    for count, change in enumerate(_changes(image, update), 1):
        if change is not None:
            draft.take(change)
            changes.append(change)
        if not count % PARTITIONS_PER_STEP:
            yield
    for count, _ in enumerate(draft.settle_topics(), 1):
        if not count % PARTITIONS_PER_STEP:
            yield
    return changes, draft.finish(update.version)


def _changes(image: MetadataImage, update: MetadataUpdate) -> Iterator[Step]:
    """Return the changes in the order of a snapshot, None for what did not change."""
    yield from _features(image, update)
    yield from _brokers(image, update)
    removed_names: set[str] = set()
    for topic_id in _removed_topics(image, update):
        if topic_id is None:
            yield None
        else:
            removed_names.add(image.topic_names[topic_id])
            yield TopicRemoved(topic_id)
    yield from _topics(image, update, removed_names)
    yield from _configs(image, update, removed_names)
    yield from _producer_ids(image, update)
    yield from _removed_brokers(image, update)


def _features(image: MetadataImage, update: MetadataUpdate) -> Iterator[Step]:
    for name, level in update.features.items():
        yield None if image.features.get(name, 0) == level else FeatureLevelSet(name, level)
    for name in image.features if update.is_full else ():
        if name not in update.features:
            yield FeatureLevelSet(name, 0)


def _brokers(image: MetadataImage, update: MetadataUpdate) -> Iterator[Step]:
    for broker_id, broker in update.brokers.items():
        known = image.brokers.get(broker_id)
        if known == broker:
            yield None
            continue
        if (
            known is not None
            and (broker.epoch, broker.incarnation_id) != (known.epoch, known.incarnation_id)
            and broker.epoch <= known.epoch
        ):
            raise _older(image, f"broker {broker_id} is stated with an older epoch, {broker.epoch}")
        yield BrokerRegistered(broker)


def _older(image: MetadataImage, what: str) -> MoldauError:
    """Return the error for a statement that is older than the image.

    At version 0 the image was read from the tree, and the controller may not have followed the
    tree that far: then nothing is wrong, and it sends its update again.
    """
    return UpdateRefused(what) if image.version else UpdateOutOfOrder(what)


def _removed_brokers(image: MetadataImage, update: MetadataUpdate) -> Iterator[Step]:
    removed = image.brokers.keys() - update.brokers.keys()
    if not update.is_full:
        _refuse_if(
            not update.removed_brokers <= removed,
            "an update removes a broker that is not there, or that it states",
        )
        removed = update.removed_brokers
    for broker_id in sorted(removed):
        yield BrokerUnregistered(broker_id, image.brokers[broker_id].epoch)


def _removed_topics(image: MetadataImage, update: MetadataUpdate) -> Iterator[TopicId | None]:
    if update.is_full:
        for topic_id in image.topic_names:
            yield None if topic_id in update.topics else topic_id
        return
    for topic_id in update.removed_topics:
        _refuse_if(
            topic_id not in image.topic_names or topic_id in update.topics,
            f"topic id {uuid_text(topic_id)} is removed, but not there or stated as well",
        )
        yield topic_id


def _topics(
    image: MetadataImage, update: MetadataUpdate, removed_names: set[str]
) -> Iterator[Step]:
    created: set[str] = set()
    for topic_id, stated in update.topics.items():
        known = image.topic_by_id(topic_id)
        if known is None:
            name = stated.name
            is_free = name not in image.topics or name in removed_names
            _refuse_if(not is_free or name in created, f"topic {name} is stated with another id")
            created.add(name)
            yield TopicCreated(name, topic_id)
        elif known.name != stated.name:
            raise UpdateRefused(f"topic {stated.name} is stated with the id of {known.name}")
        yield from _partitions(image, topic_id, stated, is_full=update.is_full)


def _partitions(
    image: MetadataImage, topic_id: TopicId, stated: StatedTopic, *, is_full: bool
) -> Iterator[Step]:
    topic = image.topic_by_id(topic_id)
    known = () if topic is None else topic.partitions
    added = 0
    for index, partition in stated.partitions.items():
        before = known[index] if index < len(known) else None
        if before == partition:
            yield None
            continue
        if before is None:
            added += 1
        elif (
            partition.leader_epoch < before.leader_epoch
            or partition.partition_epoch < before.partition_epoch
        ):
            raise _older(image, f"partition {stated.name}-{index} is stated with an older epoch")
        yield PartitionCreated(topic_id, partition)
    count = len(known) + added
    without_some = f"topic {stated.name} is stated without some of its partitions"
    _refuse_if(max(stated.partitions, default=-1) >= count, without_some)
    if is_full and len(stated.partitions) < count:
        raise _older(image, without_some)


def _configs(
    image: MetadataImage, update: MetadataUpdate, removed_names: set[str]
) -> Iterator[Step]:
    for resource, settings in update.configs.items():
        # The configs of a topic that was removed went with it.
        went = resource.type == ResourceType.TOPIC and resource.name in removed_names
        before = {} if went else image.config(resource)
        for key, value in settings.items():
            same = before.get(key) == value
            yield None if same else ConfigChanged(resource, key, value)
    for resource in image.configs if update.is_full else ():
        if resource.type == ResourceType.TOPIC and resource.name in removed_names:
            continue
        stated = update.configs.get(resource, {})
        for key in image.config(resource):
            yield None if key in stated else ConfigChanged(resource, key, None)


def _producer_ids(image: MetadataImage, update: MetadataUpdate) -> Iterator[Step]:
    following = update.next_producer_id
    if following > image.next_producer_id:
        yield ProducerIdsAllocated(BrokerId(-1), -1, following)
    elif following < image.next_producer_id and (update.is_full or following > 0):
        known = image.next_producer_id
        raise _older(image, f"the next producer id goes from {known} back to {following}")


def _refuse_if(condition: bool, problem: str) -> None:
    if condition:
        raise UpdateRefused(problem)
