"""Decisions about topics: create, grow, delete. Pure: image in, changes out, ApiError if refused.

A topic may have ten thousand partitions. So changes are made lazily, and the replicas that a user
has chosen are checked when the change of their partition is made.

Codes, texts and order of the checks are those of Kafka's controller: tools print them, people
search for them, and clients depend on them. A request for several topics is decided topic by topic,
each on the image after the one before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from moldau.base.clock import Random
from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId, random_uuid
from moldau.base.texts import shorten
from moldau.cluster.changes import (
    Change,
    ConfigChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.configs import eligible_leaders_kept
from moldau.cluster.image import MetadataImage, collision_name
from moldau.cluster.model import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ConfigResource,
    Partition,
    ResourceType,
    Topic,
)
from moldau.cluster.placement import Site, place
from moldau.protocol.errors import ApiError, ErrorCode

Assignments = Mapping[int, Sequence[BrokerId]]
"""Chosen by the user: the replicas of each partition, the preferred leader first."""

BROKER_DEFAULT: Final = -1
"""A partition count or replication factor: use the broker's default (KIP-464)."""

TOPIC_NAME_LENGTH_MAX: Final = 249
"""A folder is named `<topic>-<partition>`; with its suffixes it may have 255 bytes."""

PARTITIONS_PER_CHANGE_MAX: Final = 10_000
"""Kafka's limit for one operation of the controller."""

EXCESSIVE_PARTITIONS: Final = "Excessively large number of partitions per request."

REPLICAS_CHECKED: Final = 1_000
"""Replicas of one partition that are checked. A request may name a hundred thousand, but no cluster
has so many brokers: then one of the first is unknown or named twice."""

METADATA_TOPIC: Final = "__cluster_metadata"
"""Its folder is the metadata journal."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A request for a new topic."""

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Assignments = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The broker's defaults for new topics."""

    partition_count: int = 1
    replication_factor: int = 1


def create_topic(
    image: MetadataImage, wanted: NewTopic, defaults: TopicDefaults, random: Random
) -> Iterator[Change]:
    """Decide on a new topic. Its configs must have been validated before."""
    check_new_name(image, wanted.name)
    assignments: Iterable[tuple[BrokerId, ...]]
    if wanted.assignments:
        assignments = _manual_assignments(image, wanted)
    else:
        assignments = _placed(image, wanted, defaults)
    topic_id = TopicId(random_uuid(random))
    resource = ConfigResource(ResourceType.TOPIC, wanted.name)
    return chain(
        [TopicCreated(wanted.name, topic_id)],
        [ConfigChanged(resource, key, value) for key, value in wanted.configs.items()],
        _created(image, topic_id, 0, assignments),
    )


def add_partitions(
    image: MetadataImage,
    name: str,
    new_count: int,
    assignments: Sequence[Sequence[BrokerId]] | None = None,
) -> Iterator[Change]:
    """Decide on growing a topic to `new_count` partitions; it never shrinks."""
    topic = find_topic(image, name)
    old_count = len(topic.partitions)
    if new_count == old_count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {old_count} partition(s).")
    if new_count < old_count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {old_count} partition(s);"
            f" {new_count} would not be an increase.",
        )
    added = new_count - old_count
    _check_batch_size(added)
    replica_count = len(topic.partitions[0].replicas)
    if assignments is None:
        placed = place(_sites(image), added, replica_count, image.preferred_leaders, old_count)
        return _created(image, topic.id, old_count, placed)
    if len(assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignments)}"
            " assignment(s) were specified.",
        )
    checked = (
        checked_replicas(image, index, replicas, replica_count)
        for index, replicas in enumerate(assignments, old_count)
    )
    return _created(image, topic.id, old_count, checked)


def delete_topic(image: MetadataImage, name: str) -> list[Change]:
    """Decide on deleting a topic by its name."""
    return [TopicRemoved(find_topic(image, name).id)]


def delete_topic_by_id(image: MetadataImage, topic_id: TopicId) -> list[Change]:
    """Decide on deleting a topic by its id; a newer topic with the same name is not deleted."""
    topic = None if topic_id == ZERO_TOPIC_ID else image.topic_by_id(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    return [TopicRemoved(topic.id)]


def find_topic(image: MetadataImage, name: str) -> Topic:
    """Return a topic; ApiError if it does not exist."""
    topic = image.topic(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def check_topic_name(name: str) -> None:
    """Raise ApiError if this is not a valid name for a topic."""
    shown = f"'{shorten(name)}'"
    if not name:
        problem = "the empty string is not allowed"
    elif name in {".", ".."}:
        problem = f"{shown} is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = (
            f"the length of {shown} is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    elif not _LEGAL_NAME.fullmatch(name):
        problem = (
            f"{shown} contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_new_name(image: MetadataImage, name: str) -> None:
    """Raise ApiError if no new topic can have this name."""
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    if name == METADATA_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    collision = collision_name(name)
    other = None if collision is None else image.colliding_names.get(collision)
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _placed(
    image: MetadataImage, wanted: NewTopic, defaults: TopicDefaults
) -> list[tuple[BrokerId, ...]]:
    if wanted.partition_count == 0 or wanted.partition_count < BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if wanted.replication_factor == 0 or wanted.replication_factor < BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    partition_count = wanted.partition_count
    if partition_count == BROKER_DEFAULT:
        partition_count = defaults.partition_count
    replica_count = wanted.replication_factor
    if replica_count == BROKER_DEFAULT:
        replica_count = defaults.replication_factor
    _check_batch_size(partition_count)
    return place(_sites(image), partition_count, replica_count, image.preferred_leaders)


def _manual_assignments(image: MetadataImage, wanted: NewTopic) -> Iterator[tuple[BrokerId, ...]]:
    if wanted.replication_factor != BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set"
            " to -1.",
        )
    if wanted.partition_count != BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    if sorted(wanted.assignments) != list(range(len(wanted.assignments))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    _check_batch_size(len(wanted.assignments))
    replica_count = len(wanted.assignments[0])
    return (
        checked_replicas(image, index, wanted.assignments[index], replica_count)
        for index in range(len(wanted.assignments))
    )


def checked_replicas(
    image: MetadataImage, index: int, replicas: Sequence[BrokerId], replica_count: int
) -> tuple[BrokerId, ...]:
    """Return the replicas a user has chosen for a partition; ApiError if they cannot be."""
    check_assignment(image, replicas)
    problem = None
    if len(replicas) != replica_count:
        problem = (
            f"The manual partition assignment includes a partition with {len(replicas)}"
            " replica(s), but this is not consistent with previous partitions, which have"
            f" {replica_count} replica(s)."
        )
    elif not any(image.brokers[broker_id].active for broker_id in replicas):
        problem = (
            f"All brokers specified in the manual partition assignment for partition {index}"
            " are fenced or in controlled shutdown."
        )
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return tuple(replicas)


def check_assignment(
    image: MetadataImage, replicas: Sequence[BrokerId], present: Collection[BrokerId] = ()
) -> None:
    """Refuse replicas that no partition can have, wherever they are named.

    The replicas that a partition has at present may stay where they are. With ZooKeeper a broker
    that is down is not registered.
    """
    wrong = "an empty replica list." if not replicas else _wrong_broker(image, replicas, present)
    if wrong is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {wrong}",
        )


def _wrong_broker(
    image: MetadataImage, replicas: Sequence[BrokerId], present: Collection[BrokerId]
) -> str | None:
    previous = None
    for broker_id in sorted(replicas[:REPLICAS_CHECKED]):
        if broker_id not in image.brokers and broker_id not in present:
            return f"broker {broker_id}, but no such broker is registered."
        if broker_id == previous:
            return f"the broker {broker_id} more than once."
        previous = broker_id
    return None


def _check_batch_size(partition_count: int) -> None:
    if partition_count > PARTITIONS_PER_CHANGE_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)


def _sites(image: MetadataImage) -> list[Site]:
    return [
        Site(broker.id, broker.rack, broker.host)
        for broker in image.active_brokers()
        if broker.takes_replicas
    ]


def _created(
    image: MetadataImage,
    topic_id: TopicId,
    first_index: int,
    assignments: Iterable[tuple[BrokerId, ...]],
) -> Iterator[Change]:
    return (
        PartitionCreated(topic_id, new_partition(image, index, replicas))
        for index, replicas in enumerate(assignments, first_index)
    )


def new_partition(image: MetadataImage, index: int, replicas: tuple[BrokerId, ...]) -> Partition:
    """Return an empty partition: all of its active replicas are in sync.

    If none is active, it has no leader. No replica lacks anything yet, so any of them may lead
    once it is there, or the first one in a cluster without eligible leaders.
    """
    brokers = [image.brokers.get(broker_id) for broker_id in replicas]
    isr = tuple(broker.id for broker in brokers if broker and broker.active)
    directories = tuple(
        broker.default_directory if broker else UNASSIGNED_DIRECTORY for broker in brokers
    )
    if isr:
        return Partition(index, replicas, isr, isr[0], directories=directories)
    if eligible_leaders_kept(image):
        waiting = Partition(index, replicas, (), NO_LEADER, eligible_leaders=replicas)
    else:
        waiting = Partition(index, replicas, replicas[:1], NO_LEADER)
    return replace(waiting, directories=directories)
