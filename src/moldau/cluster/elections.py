"""Decisions to elect leaders: on request (ElectLeaders) and from time to time. Pure.

A broker that comes back gets followers, not its partitions: leadership returns to the preferred
replicas when somebody asks for it or at the next sweep. Another sweep looks for partitions that
have waited without a leader and whose topics allow an unclean one by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.base.ids import BrokerId
from moldau.base.texts import shorten
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import Election, ElectionRules
from moldau.cluster.model import NO_LEADER, Partition, Topic
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.steps import Stepwise, walk_partitions
from moldau.protocol.errors import ApiError, ErrorCode

ELECTIONS_PER_SWEEP: Final = 1000
"""Kafka's bound on one sweep; what is left is done in the next one, at once."""


@dataclass(frozen=True, slots=True)
class ElectionAnswer:
    """What became of one partition's election."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def elect_leaders(
    image: MetadataImage,
    wanted: Mapping[str, Iterable[int]] | None,
    *,
    preferred: bool,
) -> Stepwise[list[ElectionAnswer]]:
    """Decide on elections that somebody asks for; None asks for all partitions.

    Of all partitions those that need no election are left out of the answer, as by Kafka.
    """
    rules = ElectionRules(image)
    answers = []
    for topic, index in _every_partition(image) if wanted is None else _named(wanted):
        try:
            change = _elect(image, rules, topic, index, preferred=preferred)
        except ApiError as error:
            yield None
            if wanted is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                answers.append(ElectionAnswer(topic, index, error.code, error.message))
        else:
            yield change
            answers.append(ElectionAnswer(topic, index))
    return answers


def _every_partition(image: MetadataImage) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield topic.name, partition.index


def _named(wanted: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    for topic, indexes in wanted.items():
        for index in indexes:
            yield topic, index


def _elect(
    image: MetadataImage, rules: ElectionRules, name: str, index: int, *, preferred: bool
) -> PartitionChanged:
    topic = image.topic(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shorten(name)}")
    if not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    if not _needs_election(partition, preferred=preferred):
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    change = change_partition(rules, topic, partition, PartitionTarget(election=election))
    if change is not None:
        return change
    if preferred:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    raise ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )


def _needs_election(partition: Partition, *, preferred: bool) -> bool:
    if preferred:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


# Sweeps


def elect_preferred_leaders(
    image: MetadataImage, *, imbalance_percentage: int = 0
) -> Stepwise[bool]:
    """Move leadership back to preferred replicas; return whether some may be left to move.

    With a percentage, this is done for those brokers only of whose partitions more than that are
    led elsewhere. That is Kafka's rule with ZooKeeper; with a quorum it ignores the percentage.
    """
    rules = ElectionRules(image)
    settled: Container[BrokerId] = ()
    if imbalance_percentage:
        settled = yield from _settled_brokers(image, imbalance_percentage)

    def target(_: Topic, partition: Partition) -> PartitionTarget | None:
        if not _needs_election(partition, preferred=True) or partition.replicas[0] in settled:
            return None
        return PartitionTarget(election=Election.PREFERRED)

    # A part of the elections would bring a broker below the percentage, and the rest would stay.
    limit = None if imbalance_percentage else ELECTIONS_PER_SWEEP
    return (yield from _sweep(image, rules, target, limit))


def _settled_brokers(image: MetadataImage, percentage: int) -> Stepwise[Container[BrokerId]]:
    """Return the brokers that lead enough of the partitions whose first replica they have."""
    led_elsewhere: Counter[BrokerId] = Counter()
    for place in walk_partitions(image):
        if place is None:
            yield None
        elif _needs_election(place[1], preferred=True):
            led_elsewhere[place[1].replicas[0]] += 1
    return {
        broker_id
        for broker_id, count in image.preferred_leaders.items()
        if led_elsewhere[broker_id] * 100 <= percentage * count
    }


def elect_unclean_leaders(
    image: MetadataImage, *, unclean_by_default: bool = False
) -> Stepwise[bool]:
    """Elect leaders where there is none and the topic allows any; return whether some are left."""
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)

    def target(topic: Topic, partition: Partition) -> PartitionTarget | None:
        if partition.leader != NO_LEADER:
            return None
        election = rules.usual_election(topic.name)
        return PartitionTarget(election=election) if election is Election.UNCLEAN else None

    return (yield from _sweep(image, rules, target, ELECTIONS_PER_SWEEP))


def _sweep(
    image: MetadataImage,
    rules: ElectionRules,
    target_of: Callable[[Topic, Partition], PartitionTarget | None],
    limit: int | None,
) -> Stepwise[bool]:
    elected = 0
    for place in walk_partitions(image):
        if place is None:
            yield None
            continue
        target = target_of(*place)
        if target is None:
            continue
        change = change_partition(rules, *place, target)
        yield change
        if change is not None:
            elected += 1
            if elected == limit:
                return True
    return False
