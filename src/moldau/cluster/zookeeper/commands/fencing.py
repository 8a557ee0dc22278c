"""Tells which commands of controllers are too old to be carried out.

A controller that was replaced may not know it yet, and its commands may arrive late. So every
command names the epoch of its controller and the life of the broker that it is meant for, and a
broker refuses what is older than the newest it has heard of (KAFKA-7235). The roles and deletions
in a command are judged by the image, which UpdateMetadata brings first.

Requests without topics in groups (LeaderAndIsr before version 2, StopReplica before version 3) are
not for us: no controller of ours sends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, PartitionKey, TopicId
from moldau.base.tuples import NamedTuple
from moldau.cluster.image import MetadataImage
from moldau.cluster.zookeeper.commands.outgoing import TOPIC_DELETED
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
)

NO_EPOCH: Final = -1
"""The broker epoch or leader epoch of a request that has none."""


class CommandFence:
    """The newest controller that a broker has heard of."""

    def __init__(self) -> None:
        self.controller_id = BrokerId(-1)
        self.controller_epoch = 0
        """Below that of every controller: the first has epoch 1."""

    def hear_of(self, controller_id: int, controller_epoch: int) -> None:
        """Note a controller; an older one than the newest changes nothing."""
        if controller_epoch >= self.controller_epoch:
            self.controller_id = BrokerId(controller_id)
            self.controller_epoch = controller_epoch

    def check(
        self, controller_id: int, controller_epoch: int, broker_epoch: int, own_broker_epoch: int
    ) -> ErrorCode | None:
        """Return the error that a command is refused with; None if it is to be carried out."""
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        # No two controllers have the same epoch: whoever says so is none.
        if controller_epoch == self.controller_epoch and controller_id != self.controller_id:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        # Also a command for another life tells who is controller.
        self.hear_of(controller_id, controller_epoch)
        # With a newer epoch, the broker has not learnt of its own registration yet. The controller
        # repeats the command.
        if broker_epoch not in (NO_EPOCH, own_broker_epoch):
            return ErrorCode.STALE_BROKER_EPOCH
        return None


class Verdict(NamedTuple):
    """Whether one partition of a command is to be carried out."""

    key: PartitionKey
    topic_id: TopicId
    """That of the request; zero in StopReplica, which has none."""
    error: ErrorCode | None
    """None: carry it out, and answer then."""


def role_verdicts(
    image: MetadataImage, broker_id: BrokerId, request: LeaderAndIsrRequest
) -> Iterator[Verdict]:
    """Judge the roles that a controller gives to a broker, in the order of the request."""
    for topic in request.topic_states:
        topic_id = TopicId(topic.topic_id)
        known = image.topic(topic.topic_name)
        is_other = known is None or topic_id not in (ZERO_TOPIC_ID, known.id)
        for state in topic.partition_states:
            key = PartitionKey(topic.topic_name, state.partition_index)
            error = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if is_other
                else _role_error(image, broker_id, key, state)
            )
            yield Verdict(key, topic_id, error)


def _role_error(
    image: MetadataImage,
    broker_id: BrokerId,
    key: PartitionKey,
    state: LeaderAndIsrPartitionState,
) -> ErrorCode | None:
    partition = image.partition(key)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        state.leader_epoch < partition.leader_epoch
        or state.partition_epoch < partition.partition_epoch
    ):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return None if broker_id in partition.replicas else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def stop_verdicts(
    image: MetadataImage, broker_id: BrokerId, request: StopReplicaRequest
) -> Iterator[Verdict]:
    """Judge the replicas that a broker is to stop or delete, in the order of the request."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            key = PartitionKey(topic.topic_name, state.partition_index)
            yield Verdict(key, ZERO_TOPIC_ID, _stop_error(image, broker_id, key, state))


def _stop_error(
    image: MetadataImage, broker_id: BrokerId, key: PartitionKey, state: StopReplicaPartitionState
) -> ErrorCode | None:
    partition = image.partition(key)
    if partition is None:
        return None
    # The command came late, and the replica was given to this broker again (KAFKA-9539). Nothing
    # that a command says may delete it.
    if broker_id in partition.replicas:
        return ErrorCode.FENCED_LEADER_EPOCH
    is_older = state.leader_epoch < partition.leader_epoch
    if is_older and state.leader_epoch not in (TOPIC_DELETED, NO_EPOCH):
        return ErrorCode.FENCED_LEADER_EPOCH
    return None
