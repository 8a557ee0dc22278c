"""Makes the commands to a broker: what changed between two images, as requests of a controller.

The older image is what the broker has, None if nobody knows: then everything is stated. All
commands come in pieces, and None where whoever takes them may do something else.

UpdateMetadata goes first. With it the broker has the newer image, and knows its replicas.
LeaderAndIsr and StopReplica ask for an answer for each replica. The brokers that Kafka lists as
leaders in LeaderAndIsr are in the image, so that list stays empty.

Log directories and opaque records are not in the tree of ZooKeeper, and do not travel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.base.ids import BrokerId, PartitionKey
from moldau.base.tuples import NamedTuple
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Partition, Topic
from moldau.cluster.zookeeper.commands.pieces import (
    PIECE_WEIGHT,
    broker_weight,
    config_weight,
    partition_weight,
)
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataBrokerFeature,
    UpdateMetadataConfigEntry,
    UpdateMetadataConfigResource,
    UpdateMetadataEndpoint,
    UpdateMetadataFeature,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INCREMENTAL: Final = 1
FULL: Final = 2

TOPIC_DELETED: Final = -2
"""The leader epoch in StopReplica that says so."""

_NAME_LENGTH_MAX: Final = 8_000
"""The wire has no longer names. A tool may have written one to ZooKeeper, and nobody reads it."""

_NOTHING: Final = MetadataImage()


class Sender(NamedTuple):
    """The controller that gives the commands."""

    controller_id: BrokerId
    controller_epoch: int


def update_metadata(
    sender: Sender,
    broker_epoch: int,
    old: MetadataImage | None,
    new: MetadataImage,
    touched: Touched,
) -> Iterator[UpdateMetadataRequest | None]:
    """Return the requests that lead a broker from one image to another."""
    if old is None:
        pieces = _UpdatePieces(sender, broker_epoch, -1, new.version)
        return pieces.cut(_NOTHING, new, Touched(all=True))
    return _UpdatePieces(sender, broker_epoch, old.version, new.version).cut(old, new, touched)


class _UpdatePieces:
    """Cuts an update into requests."""

    def __init__(self, sender: Sender, broker_epoch: int, base_version: int, version: int) -> None:
        self._sender = sender
        self._broker_epoch = broker_epoch
        self._base_version = base_version
        self._version = version
        self._number = 0
        self._weight = 0
        self._piece = self._begin()

    def cut(
        self, old: MetadataImage, new: MetadataImage, touched: Touched
    ) -> Iterator[UpdateMetadataRequest | None]:
        if old.next_producer_id != new.next_producer_id:
            self._piece.next_producer_id = new.next_producer_id
        for weight in self._statements(old, new, touched):
            self._weight += weight
            if self._weight >= PIECE_WEIGHT:
                yield self._piece
                self._number += 1
                self._weight = 0
                self._piece = self._begin()
            elif not weight:
                yield None
        self._piece.is_last = True
        yield self._piece

    def _begin(self) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self._sender.controller_id,
            controller_epoch=self._sender.controller_epoch,
            broker_epoch=self._broker_epoch,
            type=FULL if self._base_version < 0 else INCREMENTAL,
            base_version=self._base_version,
            version=self._version,
            piece=self._number,
        )

    def _statements(
        self, old: MetadataImage, new: MetadataImage, touched: Touched
    ) -> Iterator[int]:
        """Add one statement after the other to the piece; return their weights, 0 for a pause."""
        for name, level in touched.features(old, new):
            self._piece.features.append(UpdateMetadataFeature(name, level))
            yield 1
        for broker_id in touched.brokers(old, new):
            yield self._broker(broker_id, new.brokers.get(broker_id))
        for removed in touched.removed_topics(old, new):
            if removed is not None:
                self._piece.removed_topics.append(removed.id)
            yield 0 if removed is None else 1
        yield from self._topics(old, new, touched)
        for config in touched.configs(old, new):
            yield 0 if config is None else self._config(*config)

    def _broker(self, broker_id: BrokerId, broker: Broker | None) -> int:
        if broker is None:
            self._piece.removed_brokers.append(broker_id)
            return 1
        stated = _stated_broker(broker)
        self._piece.live_brokers.append(stated)
        return broker_weight(stated)

    def _topics(self, old: MetadataImage, new: MetadataImage, touched: Touched) -> Iterator[int]:
        epoch = self._sender.controller_epoch
        for changed in touched.changed_topics(old, new):
            if changed is None:
                yield 0
                continue
            if changed.before is None:
                self._topic(changed.after)  # It is a topic also without a partition.
                yield 0
            for partition in changed.partitions():
                if partition is None:
                    yield 0
                    continue
                state = _stated_partition(partition.after, epoch)
                self._topic(changed.after).partition_states.append(state)
                yield partition_weight(state)

    def _topic(self, topic: Topic) -> UpdateMetadataTopicState:
        """Return where the partitions of a topic go: a topic may go on in the next piece."""
        states = self._piece.topic_states
        if not states or states[-1].topic_id != topic.id:
            states.append(UpdateMetadataTopicState(topic.name, topic.id))
            self._weight += 1
        return states[-1]

    def _config(self, resource: ConfigResource, key: str, value: str | None) -> int:
        configs = self._piece.configs
        if max(len(resource.name), len(key)) > _NAME_LENGTH_MAX:
            return 0
        if not configs or (configs[-1].resource_type, configs[-1].resource_name) != resource:
            configs.append(UpdateMetadataConfigResource(*resource))
            self._weight += 1
        entry = UpdateMetadataConfigEntry(key, None if value is None else value.encode())
        configs[-1].entries.append(entry)
        return config_weight(entry.value)


def _stated_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                endpoint.port, endpoint.host, endpoint.listener, endpoint.security_protocol
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
        epoch=broker.epoch,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        features=[UpdateMetadataBrokerFeature(*feature) for feature in broker.features],
    )


def _stated_partition(partition: Partition, controller_epoch: int) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=partition.index,
        controller_epoch=controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        eligible_leaders=list(partition.eligible_leaders),
        last_known_leaders=list(partition.last_known_leaders),
        recovering=partition.recovering,
    )


def leader_and_isr(
    sender: Sender,
    broker_id: BrokerId,
    broker_epoch: int,
    old: MetadataImage | None,
    new: MetadataImage,
    touched: Touched,
) -> Iterator[LeaderAndIsrRequest | None]:
    """Return the requests for the changed partitions that have a replica on this broker."""
    if old is None:
        touched = Touched(all=True)
    states: list[LeaderAndIsrTopicState] = []
    count = 0
    for changed in touched.changed_partitions(old or _NOTHING, new):
        if changed is None or broker_id not in changed.after.replicas:
            yield None
            continue
        topic, before, after = changed
        if not states or states[-1].topic_id != topic.id:
            states.append(LeaderAndIsrTopicState(topic.name, topic.id))
        is_new = old is not None and before is None
        states[-1].partition_states.append(_role(after, sender, is_new=is_new))
        count += 1
        if not count % PIECE_WEIGHT:
            yield _role_request(sender, broker_epoch, states, is_full=old is None)
            states = []
    if states:
        yield _role_request(sender, broker_epoch, states, is_full=old is None)


def _role_request(
    sender: Sender, broker_epoch: int, states: list[LeaderAndIsrTopicState], *, is_full: bool
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        type=FULL if is_full else INCREMENTAL,
        topic_states=states,
    )


def _role(partition: Partition, sender: Sender, *, is_new: bool) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition.index,
        controller_epoch=sender.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        is_new=is_new,
        leader_recovery_state=int(partition.recovering),
    )


def stop_replica(
    sender: Sender,
    broker_id: BrokerId,
    broker_epoch: int,
    old: MetadataImage | None,
    new: MetadataImage,
    touched: Touched,
) -> Iterator[StopReplicaRequest | None]:
    """Return the requests for the replicas that this broker has to delete.

    Without an older image there are none: the broker compares its logs with the image itself.
    """
    if old is None:
        return
    states: list[StopReplicaTopicState] = []
    count = 0
    for stopped in _stopped(broker_id, old, new, touched):
        if stopped is None:
            yield None
            continue
        name, state = stopped
        if not states or states[-1].topic_name != name:
            states.append(StopReplicaTopicState(name))
        states[-1].partition_states.append(state)
        count += 1
        if not count % PIECE_WEIGHT:
            yield _stop_request(sender, broker_epoch, states)
            states = []
    if states:
        yield _stop_request(sender, broker_epoch, states)


def _stop_request(
    sender: Sender, broker_epoch: int, states: list[StopReplicaTopicState]
) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=states,
    )


def _stopped(
    broker_id: BrokerId, old: MetadataImage, new: MetadataImage, touched: Touched
) -> Iterator[tuple[str, StopReplicaPartitionState] | None]:
    for removed in touched.removed_topics(old, new):
        if removed is not None:
            yield from _deleted(broker_id, removed, new)
        yield None
    for changed in touched.changed_partitions(old, new):
        if changed is None or changed.before is None:
            yield None
            continue
        name, after = changed.topic.name, changed.after
        is_gone = broker_id in changed.before.replicas and broker_id not in after.replicas
        yield (name, _stop(after.index, after.leader_epoch)) if is_gone else None


def _deleted(
    broker_id: BrokerId, topic: Topic, new: MetadataImage
) -> Iterator[tuple[str, StopReplicaPartitionState] | None]:
    for partition in topic.partitions:
        # StopReplica has no topic ids. A partition of a topic that was made again under its name
        # would be taken for the deleted one. The broker tells them apart by the image.
        again = new.partition(PartitionKey(topic.name, partition.index))
        is_held = again is not None and broker_id in again.replicas
        is_gone = broker_id in partition.replicas and not is_held
        yield (topic.name, _stop(partition.index, TOPIC_DELETED)) if is_gone else None


def _stop(index: int, leader_epoch: int) -> StopReplicaPartitionState:
    return StopReplicaPartitionState(index, leader_epoch, delete_partition=True)
