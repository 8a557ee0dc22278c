"""Decisions about reassignments and elections, for a cluster of one broker. Pure.

Nothing can move while there is one broker. A request for the present state is accepted, as in
Kafka; every other request is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.ids import BrokerId
from moldau.base.texts import shorten
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Partition
from moldau.cluster.topics import checked_replicas
from moldau.protocol.errors import ApiError, ErrorCode


def check_reassignment(
    image: MetadataImage, topic: str, index: int, replicas: Sequence[int] | None
) -> None:
    """Raise ApiError unless the replicas stay where they are; None asks to cancel a move."""
    partition = _find(image, topic, index)
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    wanted = checked_replicas(image, index, [BrokerId(one) for one in replicas], len(replicas))
    if wanted != partition.replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas cannot be moved while there is one broker; they are on "
            f"{list(partition.replicas)}.",
        )


def check_election(image: MetadataImage, topic: str, index: int, *, preferred: bool) -> None:
    """Raise ApiError: a partition with a leader needs no election, others have no candidate."""
    partition = _find(image, topic, index)
    if not needs_election(partition, preferred=preferred):
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    if preferred:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    raise ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )


def needs_election(partition: Partition, *, preferred: bool) -> bool:
    """Tell whether an election of this kind could change the leader."""
    if preferred:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


def _find(image: MetadataImage, topic: str, index: int) -> Partition:
    found = image.topic(topic)
    if found is None:
        problem = f"Unable to find a topic named {shorten(topic)}."
    elif not 0 <= index < len(found.partitions):
        problem = f"Unable to find partition {topic}:{index}."
    else:
        return found.partitions[index]
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem)
