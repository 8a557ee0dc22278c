"""Sticky: shares as even as can be and, within that, everybody keeps what it had (KIP-54).

Eager: members give up everything before they join, so each remembers what it had and sends it along
as user data. `CooperativeStickyAssignor` makes the same shares for members that give up nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from moldau.client.assignors.interface import (
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    Subscriptions,
)
from moldau.client.assignors.sticky_data import StickyData, decode_sticky, encode_sticky
from moldau.client.assignors.sticky_shares import divided, divided_as_at_first


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
