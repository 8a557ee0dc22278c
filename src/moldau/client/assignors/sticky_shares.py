"""Who gets what, from what members want and remember: the rule that all sticky assignors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.assignors.hash_order import texts_in_hash_order
from moldau.client.assignors.interface import ClusterTopics, Shares, Subscriptions
from moldau.client.assignors.racks import RackMap
from moldau.client.assignors.sticky_claims import settled
from moldau.client.assignors.sticky_data import StickyData
from moldau.client.assignors.sticky_even import EvenShares
from moldau.client.assignors.sticky_first import FirstShares
from moldau.client.assignors.sticky_uneven import UnevenShares
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
