"""What changed between two images, found without looking at what did not.

A cluster may have a hundred thousand partitions, and each step of its history changes a few. Who
sends updates to a broker collects what the steps touched since the last one, and compares the two
images only there. What was touched may be the same again, or gone: the images decide.

A topic is known by its id. One that was deleted and made again under its name is one that is gone,
and one that is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from moldau.base.ids import BrokerId, TopicId
from moldau.base.tuples import NamedTuple
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, Partition, Topic
from moldau.cluster.steps import PARTITIONS_PER_STEP

Key = TypeVar("Key")

_NO_PARTITIONS: Final[tuple[Partition, ...]] = ()


class Touched:
    """What a number of changes touched. Its methods compare two images there, and only there.

    With `all` set, the whole images are compared: nobody knows what changed between them.
    """

    def __init__(self, *, all: bool = False) -> None:  # noqa: A002 - it reads as it should
        self.all = all
        self._features: set[str] = set()
        self._brokers: set[BrokerId] = set()
        self._partitions: dict[TopicId, set[int]] = {}
        self._whole_topics: set[str] = set()
        self._all_topics = all
        self._configs: dict[ConfigResource, set[str]] = {}

    def take(self, changes: Iterable[Change]) -> None:
        """Add what these changes touch."""
        for change in changes:
            match change:
                case PartitionChanged():
                    self._partitions.setdefault(change.topic_id, set()).add(change.index)
                case PartitionCreated():
                    index = change.partition.index
                    self._partitions.setdefault(change.topic_id, set()).add(index)
                case TopicCreated() | TopicRemoved():
                    self._partitions.setdefault(change.topic_id, set())
                case ConfigChanged():
                    self._configs.setdefault(change.resource, set()).add(change.key)
                case BrokerRegistered():
                    self._brokers.add(change.broker.id)
                case BrokerChanged() | BrokerUnregistered():
                    self._brokers.add(change.broker_id)
                case FeatureLevelSet():
                    self._features.add(change.name)
                case EligibleLeadersCleared():
                    self._clear_eligible_leaders(change.topic)
                case _:
                    pass  # Producer ids are one number. Opaque records do not travel.

    def _clear_eligible_leaders(self, name: str) -> None:
        if name:
            self._whole_topics.add(name)
        else:
            self._all_topics = True

    def features(self, old: MetadataImage, new: MetadataImage) -> Iterator[tuple[str, int]]:
        """Return the features whose level differs, with the level in `new`; 0 if it is off."""
        names = _either(old.features, new.features) if self.all else sorted(self._features)
        for name in names:
            level = new.features.get(name, 0)
            if old.features.get(name, 0) != level:
                yield name, level

    def brokers(self, old: MetadataImage, new: MetadataImage) -> Iterator[BrokerId]:
        """Return the brokers that differ, also those that are gone."""
        ids = _either(old.brokers, new.brokers) if self.all else sorted(self._brokers)
        for broker_id in ids:
            if old.brokers.get(broker_id) != new.brokers.get(broker_id):
                yield broker_id

    def configs(
        self, old: MetadataImage, new: MetadataImage
    ) -> Iterator[tuple[ConfigResource, str, str | None] | None]:
        """Return configs with their value in `new`, or None if they are not set; None is a pause.

        A value that did not change is returned as well: a topic that was deleted took its configs
        with it, and the one that was made again may have the same.
        """
        if not self.all:
            for resource, keys in self._configs.items():
                settings = new.config(resource)
                for key in sorted(keys):
                    yield resource, key, settings.get(key)
                yield None
            return
        for resource in _either(old.configs, new.configs):
            settings = new.config(resource)
            for key in _either(old.config(resource), settings):
                yield resource, key, settings.get(key)
            yield None

    def removed_topics(self, old: MetadataImage, new: MetadataImage) -> Iterator[Topic | None]:
        """Return the topics of `old` that are gone; None where the walk may pause."""
        ids: Iterable[TopicId] = old.topic_names if self._all_topics else self._partitions
        for count, topic_id in enumerate(ids, 1):
            if topic_id not in new.topic_names:
                topic = old.topic_by_id(topic_id)
                if topic is not None:  # None: it was created and deleted in between
                    yield topic
            if not count % PARTITIONS_PER_STEP:
                yield None

    def changed_topics(
        self, old: MetadataImage, new: MetadataImage
    ) -> Iterator[ChangedTopic | None]:
        """Return the topics of `new` that may differ; None where the walk may pause."""
        if self._all_topics:
            candidates: Iterable[tuple[TopicId, set[int] | None]] = (
                (topic_id, None) for topic_id in new.topic_names
            )
        else:
            named = (new.topic(name) for name in self._whole_topics)
            whole = {topic.id for topic in named if topic is not None}
            candidates = chain(
                ((topic_id, None) for topic_id in whole),
                ((key, indexes) for key, indexes in self._partitions.items() if key not in whole),
            )
        for count, (topic_id, indexes) in enumerate(candidates, 1):
            after, before = new.topic_by_id(topic_id), old.topic_by_id(topic_id)
            if after is not None and after is not before:
                yield ChangedTopic(before, after, indexes)
            if not count % PARTITIONS_PER_STEP:
                yield None

    def changed_partitions(
        self, old: MetadataImage, new: MetadataImage
    ) -> Iterator[ChangedPartition | None]:
        """Return the partitions of `new` that differ; None where the walk may pause."""
        for changed in self.changed_topics(old, new):
            if changed is None:
                yield None
            else:
                yield from changed.partitions()


class ChangedPartition(NamedTuple):
    """A partition that differs between two images."""

    topic: Topic
    before: Partition | None
    after: Partition


class ChangedTopic(NamedTuple):
    """A topic that may differ between two images."""

    before: Topic | None
    after: Topic
    indexes: set[int] | None
    """The partitions that may differ; None for all."""

    def partitions(self) -> Iterator[ChangedPartition | None]:
        """Return the partitions that differ; None where the walk may pause."""
        known = _NO_PARTITIONS if self.before is None else self.before.partitions
        every = self.before is None or self.indexes is None
        indexes = range(len(self.after.partitions)) if every else sorted(self.indexes or ())
        for count, index in enumerate(indexes, 1):
            before = known[index] if index < len(known) else None
            after = self.after.partitions[index]
            if before is not after and before != after:
                yield ChangedPartition(self.after, before, after)
            if not count % PARTITIONS_PER_STEP:
                yield None


def _either(first: Iterable[Key], second: Iterable[Key]) -> Iterator[Key]:
    """Return the keys of both, each once."""
    return iter(dict.fromkeys(chain(first, second)))
