"""Sticky assignors: balanced first, then as few moves as possible (KIP-54).

`StickyAssignor` is eager: members revoke all partitions before they rejoin. So each member sends
its previous assignment as user data.

`CooperativeStickyAssignor` reaches the same assignment in two rounds without a stop (KIP-429).
Members keep reading while they rejoin. No two members may read a partition that moves, so the first
round assigns it to nobody: its owner revokes it and rejoins. The second round assigns it.
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
    """The version of the algorithm; the leader's decides if members differ."""

    KAFKA_4_3 = "4.3"
    KAFKA_1_1 = "1.1"


class StickyAssignor(PartitionAssignor):
    """Balances partitions and moves as few as possible; eager."""

    name = "sticky"
    version = 1

    def __init__(self, rule: StickyRule = StickyRule.KAFKA_4_3) -> None:
        self._divide = divided if rule is StickyRule.KAFKA_4_3 else divided_as_at_first
        self._had: StickyData | None = None

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - all it had counts
        """Return this member's previous assignment, or None if it had none."""
        return None if self._had is None else encode_sticky(self._had)

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Assign the partitions of all subscribed topics."""
        remembered = {
            member: decode_sticky(subscription.user_data)
            for member, subscription in subscriptions.items()
        }
        shares = self._divide(topics, subscriptions, remembered).shares
        return {member: Assignment(share) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remember this member's assignment."""
        self._had = StickyData(tuple(assignment.partitions), generation)


class CooperativeStickyAssignor(PartitionAssignor):
    """Balances partitions and moves as few as possible, while members keep reading."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - the rest is known
        """Return the generation of this member's partitions, for leaders before KIP-792."""
        return encode_cooperative(self._generation)

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Assign the partitions of all subscribed topics, except those that move."""
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
