"""Round robin: all partitions of all topics are dealt out in turn, like cards.

Members that do not want a card are passed over, so equal subscriptions give shares that differ by
one at most, and unequal ones may not.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.assignors.interface import (
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    Shares,
    Subscriptions,
)
from moldau.client.assignors.members import in_order
from moldau.client.records import TopicPartition


class RoundRobinAssignor(PartitionAssignor):
    """Deals all partitions, by topic and number, to the members in turn."""

    name = "roundrobin"

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Divide the partitions of every topic that somebody wants."""
        cards = (
            TopicPartition(topic, partition)
            for topic in sorted(topics)
            for partition in range(len(topics[topic]))
        )
        shares = dealt(cards, subscriptions)
        return {member: Assignment(share) for member, share in shares.items()}


def dealt(cards: Iterable[TopicPartition], subscriptions: Subscriptions) -> Shares:
    """Deal partitions in the order given; those that nobody wants are left out."""
    members = in_order(subscriptions)
    wishes = [frozenset(subscriptions[member].topics) for member in members]
    wanted = frozenset[str]().union(*wishes)
    shares: Shares = {member: [] for member in subscriptions}
    turn = 0
    for card in cards:
        if card.topic not in wanted:
            continue
        while card.topic not in wishes[turn]:
            turn = (turn + 1) % len(members)
        shares[members[turn]].append(card)
        turn = (turn + 1) % len(members)
    return shares
