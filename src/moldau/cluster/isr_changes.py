"""Decisions on the ISR that a leader proposes (AlterPartition, KIP-497, 841, 903). Pure.

The leader knows who has caught up; the controller knows who is alive. A proposal is refused for
Kafka's reasons, in Kafka's order, and one partition's refusal does not touch the others. A proposal
that is accepted may complete a reassignment, and the leader may be among those who leave: then the
change is made **and** answered with NEW_LEADER_ELECTED.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.brokers import registered_broker
from moldau.cluster.failed_replicas import FailedReplicas
from moldau.cluster.image import MetadataImage, changed_partition
from moldau.cluster.leader_choice import ElectionRules, is_directory_online
from moldau.cluster.model import NO_LEADER, Broker, Partition
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.steps import Stepwise
from moldau.protocol.errors import ErrorCode

_NONE_FAILED = FailedReplicas()

ANY_BROKER_EPOCH = -1
"""A proposal with this epoch does not say which incarnation of a broker has caught up."""


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """The ISR that a leader proposes for one partition."""

    topic_id: TopicId
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]
    """Each member with the epoch of the incarnation that has caught up."""
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The partition after a proposal was accepted, or why it was not."""

    topic_id: TopicId
    index: int
    error: ErrorCode = ErrorCode.NONE
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[BrokerId, ...] = ()
    recovering: bool = False
    partition_epoch: int = -1


def alter_partitions(
    image: MetadataImage,
    broker_id: BrokerId,
    broker_epoch: int,
    proposals: Sequence[IsrProposal],
    *,
    unclean_by_default: bool = False,
    failed: FailedReplicas | None = None,
) -> Stepwise[list[IsrAnswer]]:
    """Decide on what one broker proposes for partitions that it leads."""
    registered_broker(image, broker_id, broker_epoch)
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    changed: dict[tuple[TopicId, int], Partition] = {}
    answers = []
    for proposal in proposals:
        place = proposal.topic_id, proposal.index
        topic = image.topic_by_id(proposal.topic_id)
        if topic is None:
            yield None
            answers.append(IsrAnswer(*place, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if not 0 <= proposal.index < len(topic.partitions):
            yield None
            answers.append(IsrAnswer(*place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        partition = changed.get(place, topic.partitions[proposal.index])
        error = _refusal(image, broker_id, partition, proposal, failed or _NONE_FAILED)
        if error is not ErrorCode.NONE:
            yield None
            answers.append(IsrAnswer(*place, error))
            continue
        target = PartitionTarget(
            isr=tuple(member for member, _ in proposal.isr), recovering=proposal.recovering
        )
        change = change_partition(rules, topic, partition, target)
        yield change
        if change is not None:
            changed[place] = partition = changed_partition(partition, change)
            if change.leader not in (None, broker_id):
                answers.append(IsrAnswer(*place, ErrorCode.NEW_LEADER_ELECTED))
                continue
        answers.append(_accepted(proposal.topic_id, partition))
    return answers


def _refusal(
    image: MetadataImage,
    broker_id: BrokerId,
    partition: Partition,
    proposal: IsrProposal,
    failed: FailedReplicas,
) -> ErrorCode:
    if (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    ):
        # The leader has heard of changes that this controller has not: another one made them.
        error = ErrorCode.NOT_CONTROLLER
    elif proposal.leader_epoch < partition.leader_epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif broker_id != partition.leader:
        error = ErrorCode.INVALID_REQUEST
    elif proposal.partition_epoch < partition.partition_epoch:
        error = ErrorCode.INVALID_UPDATE_VERSION
    elif not _is_isr_of(partition, proposal.isr) or (
        proposal.recovering and (len(proposal.isr) > 1 or not partition.recovering)
    ):
        error = ErrorCode.INVALID_REQUEST
    elif not all(
        (broker := image.brokers.get(member)) is not None
        and _may_join(broker, epoch, partition)
        and not failed.has(broker, (proposal.topic_id, proposal.index))
        for member, epoch in proposal.isr
    ):
        error = ErrorCode.INELIGIBLE_REPLICA
    else:
        error = ErrorCode.NONE
    return error


def _is_isr_of(partition: Partition, isr: Sequence[tuple[BrokerId, int]]) -> bool:
    """Tell whether these are replicas of a partition, each named once, its leader among them."""
    if len(isr) > len(partition.replicas):
        return False  # A request may name a hundred thousand.
    members = {member for member, _ in isr}
    return (
        len(members) == len(isr)
        and members <= set(partition.replicas)
        and partition.leader in members
    )


def _may_join(broker: Broker, broker_epoch: int, partition: Partition) -> bool:
    if broker.fenced:
        return False
    # A leader that shuts down, and still leads, may take in who is to lead after it.
    if broker.in_controlled_shutdown and broker.id != partition.leader:
        return False
    # Kafka does not look at the directory. A proposal under way when it fails would then bring a
    # replica into the ISR that cannot lead, in the place of those that could.
    if not is_directory_online(broker, partition):
        return False
    return broker_epoch in (ANY_BROKER_EPOCH, broker.epoch)


def _accepted(topic_id: TopicId, partition: Partition) -> IsrAnswer:
    return IsrAnswer(
        topic_id,
        partition.index,
        ErrorCode.NONE,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.recovering,
        partition.partition_epoch,
    )
