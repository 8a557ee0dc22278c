"""Groups in few words, for the tests of the assignors: `{"C1": "t0 t1"}` over `{"t0": 3}`."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.assignors.interface import (
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    Subscription,
)
from moldau.client.records import TopicPartition


def topics(counts: Mapping[str, int]) -> ClusterTopics:
    """Topics with that many partitions, their racks unknown."""
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def partitions(text: str) -> list[TopicPartition]:
    """Read `t0p1 t2p0`."""
    words = (word.rpartition("p") for word in text.split())
    return [TopicPartition(topic, int(number)) for topic, _, number in words]


def divided(
    assignor: PartitionAssignor, counts: Mapping[str, int], wishes: Mapping[str, str]
) -> dict[str, str]:
    """Let an assignor divide among new members; the answer as `shares` writes it."""
    subscriptions = {member: Subscription(wish.split()) for member, wish in wishes.items()}
    return shares(assignor.assign(topics(counts), subscriptions))


def shares(assignments: Assignments) -> dict[str, str]:
    """Write who gets what as `t0p1 t2p0`, by topic and number."""
    return {
        member: " ".join(f"{topic}p{number}" for topic, number in sorted(assignment.partitions))
        for member, assignment in sorted(assignments.items())
    }


def next_round(
    assignor: PartitionAssignor,
    counts: Mapping[str, int],
    wishes: Mapping[str, str],
    before: Mapping[str, str],
    generation: int = 1,
) -> dict[str, str]:
    """Let an assignor divide among members of which some have been assigned partitions before."""
    subscriptions = {}
    for member, wish in wishes.items():
        own = type(assignor)()
        owned = partitions(before.get(member, ""))
        if member in before:
            own.on_assignment(Assignment(owned), generation)
        subscriptions[member] = Subscription(
            wish.split(), own.metadata(wish.split()), owned, generation if member in before else -1
        )
    return shares(assignor.assign(topics(counts), subscriptions))
