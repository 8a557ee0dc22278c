"""Decisions to move replicas (KIP-455): begin, cancel, list. Pure.

A reassignment begins by adding the new replicas beside the old ones. It ends inside whatever change
comes next once the new ones are in sync (`partition_update`), at once if there are none to add.
While one runs, another target may be given, or it may be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from moldau.base.ids import BrokerId, PartitionKey
from moldau.base.texts import shorten
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import Election, ElectionRules
from moldau.cluster.model import Partition, Topic
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.steps import Stepwise
from moldau.cluster.topics import check_assignment
from moldau.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class WantedReplicas:
    """Where one partition is to be; None cancels a move that is under way."""

    topic: str
    index: int
    replicas: tuple[BrokerId, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentAnswer:
    """What became of one partition's move."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class OngoingReassignment(NamedTuple):
    """A partition whose replicas are being moved."""

    topic: str
    partition: Partition


def alter_reassignments(
    image: MetadataImage,
    wanted: Sequence[WantedReplicas],
    *,
    may_change_replica_count: bool = True,
    unclean_by_default: bool = False,
) -> Stepwise[list[ReassignmentAnswer]]:
    """Decide on moves that somebody asks for; each partition is named once."""
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    answers = []
    for one in wanted:
        try:
            topic, partition = _find(image, one)
            if one.replicas is None:
                change = _cancel(rules, topic, partition)
            else:
                check_assignment(image, one.replicas, partition.replicas)
                if not may_change_replica_count:
                    _check_replica_count(partition, one.replicas)
                change = _begin(rules, topic, partition, one.replicas)
        except ApiError as error:
            yield None
            answers.append(ReassignmentAnswer(one.topic, one.index, error.code, error.message))
        else:
            yield change
            answers.append(ReassignmentAnswer(one.topic, one.index))
    return answers


def list_reassignments(
    image: MetadataImage, wanted: Mapping[str, Iterable[int]] | None = None
) -> Iterator[OngoingReassignment | None]:
    """Yield the moves that are under way, of these partitions or of all; None for any other."""
    for name in image.topics if wanted is None else wanted:
        topic = image.topic(name)
        count = 0 if topic is None else len(topic.partitions)
        for index in range(count) if wanted is None else wanted[name]:
            partition = topic.partitions[index] if topic and 0 <= index < count else None
            moves = partition is not None and is_reassigned(partition)
            yield OngoingReassignment(name, partition) if partition and moves else None


def is_under_way(image: MetadataImage, wanted: WantedReplicas) -> bool:
    """Tell whether replicas are being moved there. If not, the move is over, or was replaced."""
    partition = image.partition(PartitionKey(wanted.topic, wanted.index))
    if partition is None or not is_reassigned(partition):
        return False
    removing = partition.removing_replicas
    return wanted.replicas == tuple(one for one in partition.replicas if one not in removing)


def is_reassigned(partition: Partition) -> bool:
    """Tell whether replicas of a partition are being moved."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _find(image: MetadataImage, wanted: WantedReplicas) -> tuple[Topic, Partition]:
    topic = image.topic(wanted.topic)
    if topic is None:
        problem = f"Unable to find a topic named {shorten(wanted.topic)}."
    elif not 0 <= wanted.index < len(topic.partitions):
        problem = f"Unable to find partition {wanted.topic}:{wanted.index}."
    else:
        return topic, topic.partitions[wanted.index]
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem)


def _begin(
    rules: ElectionRules, topic: Topic, partition: Partition, replicas: tuple[BrokerId, ...]
) -> PartitionChanged | None:
    # Replicas that an earlier reassignment was still adding have to catch up for this one as well.
    # Kafka forgets that, and may complete the second reassignment without them.
    original = set(partition.replicas) - set(partition.adding_replicas)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    target = PartitionTarget(
        replicas=(*replicas, *removing),
        adding=tuple(sorted(set(replicas) - original)),
        removing=removing,
        election=Election.ONLINE,
    )
    return change_partition(rules, topic, partition, target)


def _cancel(rules: ElectionRules, topic: Topic, partition: Partition) -> PartitionChanged | None:
    """Go back to the replicas without those that were being added.

    Where only those are known to have all records, that would lose some: Kafka then takes any
    other, and so do we, but mark the partition as recovering.
    """
    if not is_reassigned(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    added = partition.adding_replicas
    replicas = tuple(one for one in partition.replicas if one not in added)
    isr = tuple(one for one in partition.isr if one not in added)
    target = PartitionTarget(isr=isr, replicas=replicas, adding=(), removing=())
    on_record = {*partition.isr, *partition.eligible_leaders}
    if on_record and on_record <= set(added):
        if rules.usual_election(topic.name) is not Election.UNCLEAN:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{partition.index} because"
                " it would require an unclean leader election.",
            )
        # Without eligible leaders an ISR cannot be empty, so somebody has to be taken for it.
        isr = () if rules.keeps_eligible_leaders else replicas[:1]
        target = replace(target, isr=isr, recovering=True)
    return change_partition(rules, topic, partition, target)


def _check_replica_count(partition: Partition, replicas: Sequence[BrokerId]) -> None:
    count = len(set(partition.replicas) - set(partition.removing_replicas))
    if count != len(replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {count} to {len(replicas)}",
        )
