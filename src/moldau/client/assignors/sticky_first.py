"""Sticky shares by the rule of Kafka 1.1, for groups that were planned with it.

It knows no quotas and no racks: members that want the same topics are served by giving and moving,
too. Only the order is another. A group that was there before moves partitions from where most are,
and what is left is given in the order of a hash map; nothing is tried first with what had no owner.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from moldau.client.assignors.hash_order import partitions_in_hash_order, texts_in_hash_order
from moldau.client.assignors.sticky_uneven import UnevenShares
from moldau.client.records import TopicPartition


class FirstShares(UnevenShares):
    """One division as Kafka 1.1 would have made it."""

    def _in_order(self) -> list[TopicPartition]:
        if not self._holders or len(set(self._wishes.values())) > 1:
            return super()._in_order()
        everything = [
            TopicPartition(topic, number)
            for topic in texts_in_hash_order(self._topics)
            for number in range(len(self._topics[topic]))
        ]
        left = [one for one in partitions_in_hash_order(everything) if one not in self._holders]
        return self._fullest_first() + left

    def _fullest_first(self) -> list[TopicPartition]:
        """Return what members have, always the next of the one that still has most."""
        remaining = {member: iter(share) for member, share in self._shares.items()}
        ranking = [entry for entry in self._ranking if entry[0] > 0]
        taken = []
        while ranking:
            count, member = ranking.pop()
            taken.append(next(remaining[member]))
            if count > 1:
                insort(ranking, (count - 1, member))
        return taken

    def _level(self, everything: Sequence[TopicPartition], left: Sequence[TopicPartition]) -> bool:  # noqa: ARG002
        return self._move(everything)
