"""Cooperative sticky: the shares of sticky, reached in two rounds without a stop (KIP-429).

Members go on reading what they own while they join. A partition that shall move must not be read by
two, so in the first round it is given to nobody: its owner sees it gone from its assignment, gives
it up and joins again; in the second round it is free, and goes where it shall.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.client.assignors.interface import (
    NO_GENERATION,
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    Subscriptions,
)
from moldau.client.assignors.sticky_data import StickyData, decode_cooperative, encode_cooperative
from moldau.client.assignors.sticky_shares import divided


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
