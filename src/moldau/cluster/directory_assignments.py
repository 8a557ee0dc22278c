"""Decisions on where replicas lie (AssignReplicasToDirs, KIP-858). Pure.

A broker with several log directories chooses one for each of its replicas and tells the controller.
So the controller knows which replicas are gone when a directory fails. A replica that was recorded
in a directory which its broker does not have any more may neither lead nor join an ISR; it may
again once its broker has said where it lies now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.brokers import departure, registered_broker
from moldau.cluster.image import MetadataImage, changed_partition
from moldau.cluster.leader_choice import ElectionRules
from moldau.cluster.model import Broker, Partition
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.record_codec import DIRECTORIES_LEVEL, metadata_level
from moldau.cluster.steps import Stepwise
from moldau.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class ReplicaDirectory:
    """A replica of the broker that tells, and the id of the log directory it lies in."""

    topic_id: TopicId
    index: int
    directory: bytes


@dataclass(frozen=True, slots=True)
class DirectoryAnswer:
    """What became of one of them."""

    replica: ReplicaDirectory
    error: ErrorCode = ErrorCode.NONE


def assign_directories(
    image: MetadataImage,
    broker_id: BrokerId,
    broker_epoch: int,
    replicas: Sequence[ReplicaDirectory],
    *,
    unclean_by_default: bool = False,
) -> Stepwise[list[DirectoryAnswer]]:
    """Decide on where a broker says that its replicas lie, each by itself.

    One whose directory has failed by now leaves its ISR, as if it had failed afterwards.
    """
    if metadata_level(image) < DIRECTORIES_LEVEL:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = registered_broker(image, broker_id, broker_epoch)
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    changed: dict[tuple[TopicId, int], Partition] = {}
    answers = []
    for one in replicas:
        yield None
        topic = image.topic_by_id(one.topic_id)
        if topic is None:
            answers.append(DirectoryAnswer(one, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if not 0 <= one.index < len(topic.partitions):
            answers.append(DirectoryAnswer(one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        # The same replica may be named twice.
        partition = changed.get((topic.id, one.index), topic.partitions[one.index])
        if broker_id not in partition.replicas:
            answers.append(DirectoryAnswer(one, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            continue
        change = change_partition(rules, topic, partition, _target(rules, broker, partition, one))
        if change is not None:
            yield change
            changed[topic.id, one.index] = changed_partition(partition, change)
        answers.append(DirectoryAnswer(one))
    return answers


def _target(
    rules: ElectionRules, broker: Broker, partition: Partition, replica: ReplicaDirectory
) -> PartitionTarget:
    target = None
    if replica.directory not in broker.log_directories:
        target = departure(rules, partition, broker.id, may_lack_records=True)
    return replace(target or PartitionTarget(), directory=(broker.id, replica.directory))
