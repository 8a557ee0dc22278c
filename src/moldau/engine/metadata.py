"""What a client knows of the cluster: brokers, topics, partitions and who leads them.

An image is never changed; an answer makes the next one. Brokers learn of changes at different
times, so an answer may be older than what is known already: a partition's leader is never taken
back to an earlier epoch (KIP-320), unless the topic has been deleted and created again, which its
id shows.

Pure: no connection, no clock. `cluster` asks, this remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.network import Address
from moldau.base.tuples import NamedTuple
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1
NO_EPOCH = -1

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class BrokerImage(NamedTuple):
    """A live broker and its advertised address."""

    broker_id: int
    address: Address
    rack: str | None = None


class PartitionImage(NamedTuple):
    """One partition."""

    partition: int
    leader: int = NO_LEADER
    """The broker that leads it; -1 while there is none."""
    leader_epoch: int = NO_EPOCH
    """The leader's term; -1 where the broker is too old to tell."""
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    """One topic; made with `of`."""

    name: str
    topic_id: bytes
    """Sixteen zero bytes where the broker is too old to tell."""
    partitions: Mapping[int, PartitionImage]
    is_internal: bool
    available: tuple[int, ...]
    """The partitions that have a leader, in order: kept, because every record asks for them."""

    @classmethod
    def of(
        cls,
        name: str,
        topic_id: bytes,
        partitions: Mapping[int, PartitionImage],
        is_internal: bool = False,
    ) -> TopicImage:
        """Make the image of a topic with these partitions."""
        led = [one.partition for one in partitions.values() if one.leader != NO_LEADER]
        return cls(name, topic_id, partitions, is_internal, tuple(sorted(led)))

    @property
    def partition_count(self) -> int:
        """How many partitions there are, led or not."""
        return len(self.partitions)


class MetadataImage(NamedTuple):
    """The cluster as this client knows it."""

    brokers: Mapping[int, BrokerImage] = _NOTHING
    topics: Mapping[str, TopicImage] = _NOTHING
    names: Mapping[bytes, str] = _NOTHING
    """The names of topics by their ids, where ids are known."""
    refusals: Mapping[str, ErrorCode] = _NOTHING
    """Why topics that were asked for are not in `topics`."""
    controller_id: int = -1
    cluster_id: str | None = None

    def leader(self, topic: str, partition: int) -> PartitionImage | None:
        """Return the partition if it is known and has a leader."""
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known is not None else None
        return found if found is not None and found.leader != NO_LEADER else None

    def merged(self, answer: MetadataResponse, *, complete: bool = False) -> MetadataImage:
        """Return the image after an answer; a complete one names every topic there is."""
        topics = {} if complete else dict(self.topics)
        refusals = {} if complete else dict(self.refusals)
        for told in answer.topics:
            if told.name is None:
                continue  # looked up by an id that nobody knows
            topics.pop(told.name, None)
            refusals.pop(told.name, None)
            error = ErrorCode.of(told.error_code)
            if error is ErrorCode.NONE:
                topics[told.name] = _topic(told, self.topics.get(told.name))
            else:
                refusals[told.name] = error
        brokers = {
            one.node_id: BrokerImage(one.node_id, Address(one.host, one.port), one.rack)
            for one in answer.brokers
        }
        return MetadataImage(
            brokers,
            topics,
            _names(topics.values()),
            refusals,
            answer.controller_id,
            answer.cluster_id,
        )

    def with_leader(
        self,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        endpoint: BrokerImage | None = None,
    ) -> MetadataImage:
        """Return the image after a leader was named in an answer to Produce or Fetch (KIP-951).

        The same image where that is no news, or where the leader's address is not known.
        """
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known is not None else None
        if known is None or found is None or leader_epoch <= found.leader_epoch:
            return self
        if endpoint is None and leader not in self.brokers:
            return self
        moved = found._replace(leader=leader, leader_epoch=leader_epoch)
        partitions = {**known.partitions, partition: moved}
        changed = TopicImage.of(topic, known.topic_id, partitions, known.is_internal)
        brokers = self.brokers
        if endpoint is not None and brokers.get(leader) != endpoint:
            brokers = {**brokers, leader: endpoint}
        return self._replace(brokers=brokers, topics={**self.topics, topic: changed})

    def without(self, topics: Iterable[str]) -> MetadataImage:
        """Return the image without topics that nobody watches any more."""
        gone = frozenset(topics)
        kept = {name: topic for name, topic in self.topics.items() if name not in gone}
        refusals = {name: error for name, error in self.refusals.items() if name not in gone}
        return self._replace(topics=kept, names=_names(kept.values()), refusals=refusals)


def _names(topics: Iterable[TopicImage]) -> Mapping[bytes, str]:
    return {topic.topic_id: topic.name for topic in topics if topic.topic_id != ZERO_TOPIC_ID}


def _topic(told: MetadataResponseTopic, known: TopicImage | None) -> TopicImage:
    assert told.name is not None
    same = known if known is not None and _is_same(told.topic_id, known.topic_id) else None
    partitions = {}
    for one in sorted(told.partitions, key=_index):
        before = same.partitions.get(one.partition_index) if same is not None else None
        partitions[one.partition_index] = _partition(one, before)
    return TopicImage.of(told.name, told.topic_id, partitions, told.is_internal)


def _index(partition: MetadataResponsePartition) -> int:
    return partition.partition_index


def _is_same(told: bytes, known: bytes) -> bool:
    """Tell whether two ids may be the same topic's; brokers before 2.8 name none."""
    return ZERO_TOPIC_ID in (told, known) or told == known


def _partition(told: MetadataResponsePartition, known: PartitionImage | None) -> PartitionImage:
    if known is not None and NO_EPOCH < told.leader_epoch < known.leader_epoch:
        return known
    return PartitionImage(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
    )
