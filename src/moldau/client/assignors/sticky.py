"""Sticky: shares as even as can be and, within that, everybody keeps what it had (KIP-54).

`StickyAssignor` is eager: members give up everything before they join, so each remembers what it
had and sends it along as user data.

`CooperativeStickyAssignor` reaches the same shares in two rounds without a stop (KIP-429). Members
go on reading what they own while they join. A partition that shall move must not be read by two, so
in the first round it is given to nobody: its owner sees it gone from its assignment, gives it up
and joins again; in the second round it is free, and goes where it shall.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from moldau.client.assignors.hash_order import texts_in_hash_order
from moldau.client.assignors.interface import (
    NO_GENERATION,
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    RebalanceProtocol,
    Shares,
    Subscription,
    Subscriptions,
)
from moldau.client.assignors.racks import RackMap
from moldau.client.assignors.sticky_claims import (
    StickyData,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
    settled,
)
from moldau.client.assignors.sticky_even import EvenShares
from moldau.client.assignors.sticky_uneven import FirstShares, UnevenShares
from moldau.client.records import TopicPartition


class Division(NamedTuple):
    """A share for every member, and what goes from one member to another by it."""

    shares: Shares
    moving: Mapping[TopicPartition, str]
    """What a member had and another gets; to whom it goes."""


def divided(
    topics: ClusterTopics, subscriptions: Subscriptions, remembered: Mapping[str, StickyData]
) -> Division:
    """Divide by the rule of Kafka 4.3."""
    if not subscriptions:
        return Division({}, {})
    topics, subscriptions = _wanted(topics, subscriptions), _ordered(subscriptions)
    claims = settled(topics, subscriptions, remembered)
    racks = RackMap(topics, subscriptions)
    if len({frozenset(one.topics) for one in subscriptions.values()}) == 1:
        even = EvenShares(topics, claims, racks)
        return Division(even.shares, even.moving)
    shares = UnevenShares(topics, subscriptions, claims, racks).divide()
    return Division(shares, _moving(shares, remembered))


def divided_as_at_first(
    topics: ClusterTopics, subscriptions: Subscriptions, remembered: Mapping[str, StickyData]
) -> Division:
    """Divide by the rule of Kafka 1.1, which knew neither racks nor generations."""
    if not subscriptions:
        return Division({}, {})
    topics, subscriptions = _wanted(topics, subscriptions), _ordered(subscriptions)
    claims = settled(topics, subscriptions, remembered)
    shares = FirstShares(topics, subscriptions, claims, RackMap({}, {})).divide()
    return Division(shares, _moving(shares, remembered))


def _wanted(topics: ClusterTopics, subscriptions: Subscriptions) -> ClusterTopics:
    wanted = {topic for one in subscriptions.values() for topic in one.topics}
    return {topic: partitions for topic, partitions in topics.items() if topic in wanted}


def _ordered(subscriptions: Subscriptions) -> Subscriptions:
    return {member: subscriptions[member] for member in texts_in_hash_order(subscriptions)}


def _moving(shares: Shares, remembered: Mapping[str, StickyData]) -> dict[TopicPartition, str]:
    had = {member: set(data.partitions) for member, data in remembered.items()}
    given_up = {one for member, share in shares.items() for one in had[member].difference(share)}
    return {
        one: member
        for member, share in shares.items()
        for one in given_up.intersection(share) - had[member]
    }


class StickyRule(Enum):
    """Whose rule makes the shares; if members of a group differ, that of the leader counts."""

    KAFKA_4_3 = "4.3"
    KAFKA_1_1 = "1.1"


class StickyAssignor(PartitionAssignor):
    """Makes shares even, and leaves what members had where it was, as far as that goes."""

    name = "sticky"
    version = 1

    def __init__(self, rule: StickyRule = StickyRule.KAFKA_4_3) -> None:
        self._divide = divided if rule is StickyRule.KAFKA_4_3 else divided_as_at_first
        self._had: StickyData | None = None

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - all it had counts
        """Tell what this member had; nothing, if it has been in no generation yet."""
        return None if self._had is None else encode_sticky(self._had)

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Divide the partitions of every topic that somebody wants."""
        remembered = {
            member: decode_sticky(subscription.user_data)
            for member, subscription in subscriptions.items()
        }
        shares = self._divide(topics, subscriptions, remembered).shares
        return {member: Assignment(share) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remember what this member got."""
        self._had = StickyData(tuple(assignment.partitions), generation)


class CooperativeStickyAssignor(PartitionAssignor):
    """Makes even and sticky shares for members that keep reading meanwhile."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - the rest is known
        """Tell the generation of what this member owns, for leaders before KIP-792."""
        return encode_cooperative(self._generation)

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Divide the partitions of every topic that somebody wants; what moves, waits a round."""
        remembered = {member: _remembered(one) for member, one in subscriptions.items()}
        shares, moving = divided(topics, subscriptions, remembered)
        return {
            member: Assignment([one for one in share if moving.get(one) != member])
            for member, share in shares.items()
        }

    def on_assignment(self, assignment: Assignment, generation: int) -> None:  # noqa: ARG002
        """Remember the generation."""
        self._generation = generation


def _remembered(subscription: Subscription) -> StickyData:
    generation: int | None = subscription.generation
    if subscription.generation < 0:
        generation = decode_cooperative(subscription.user_data)
    return StickyData(tuple(subscription.owned_partitions), generation)
