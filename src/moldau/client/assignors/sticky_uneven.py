"""Sticky shares when members want different topics: give, then move until no move helps.

How even the shares can be is not known beforehand. So everybody keeps what it had and still wants;
what is left goes, the topics that few want first, to whoever has least; then partitions move from
members that have more to members that have at least two less, for as long as there are such. If
all that moving did not make the shares more even, it is undone.

Members that can neither give nor get stand aside while partitions move: all they have is of topics
that nobody else wants, and they have all of it.

Moving one partition of a topic from A to B and another of the same topic from B to A leaves the
counts as they were and costs two members their partition. So when the second is asked for, the
first goes back instead.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate

from moldau.client.assignors.hash_order import (
    HashOrderedSet,
    partitions_in_hash_order,
    texts_in_hash_order,
)
from moldau.client.assignors.interface import ClusterTopics, Shares, Subscriptions
from moldau.client.assignors.racks import RackMap
from moldau.client.assignors.sticky_claims import Claims
from moldau.client.records import TopicPartition

_Way = tuple[str, str, str]
"""Topic, from whom, to whom."""


class Movements:
    """Where partitions came from and went to, over all their moves."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, _Way] = {}
        self._moved: dict[_Way, HashOrderedSet] = {}

    def record(self, partition: TopicPartition, giver: str, taker: str) -> None:
        """Note a move; one that moved before counts from where it was first."""
        way = self._ways.pop(partition, None)
        if way is not None:
            self._moved[way].remove(partition)
            if not self._moved[way]:
                del self._moved[way]
            giver = way[1]
        if giver != taker:
            way = (partition.topic, giver, taker)
            self._ways[partition] = way
            self._moved.setdefault(way, HashOrderedSet()).add(partition)

    def instead_of(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """Return what to move from giver to taker: what came the other way, if anything did."""
        way = self._ways.get(partition)
        if way is not None:
            giver = way[1]
        back = self._moved.get((partition.topic, taker, giver))
        return back.first() if back else partition


class UnevenShares:
    """One division among members of which each wants its own topics."""

    def __init__(
        self, topics: ClusterTopics, subscriptions: Subscriptions, claims: Claims, racks: RackMap
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._former = claims.former
        self._wishes = {
            member: frozenset(one.topics).intersection(topics)
            for member, one in subscriptions.items()
        }
        self._shares: dict[str, dict[TopicPartition, None]] = {}
        """What each has; dictionaries, to take out of them quickly."""
        self._holders: dict[TopicPartition, str] = {}
        self._dropped = False
        """Somebody had what it wants no more, or is far from."""
        for member, owned in claims.owned.items():
            self._keep(member, owned)
        self._ranking = sorted((len(share), member) for member, share in self._shares.items())
        """Members by how much they have, the least first."""
        self._movements = Movements()
        self._detours = sum(map(len, topics.values()))
        """How many moves that make nothing more even are still allowed.

        What goes back in place of another may come from a member that has little itself. That is
        Kafka's rule, and moves like that could go in circles; those that help cannot.
        """

    def divide(self) -> Shares:
        """Work it out."""
        everything = self._in_order()
        begun = self._ranking[-1][0] > 0
        left = [one for one in everything if one not in self._holders]
        if self._racks:
            self._give(left, to_far=False)
        self._give([one for one in left if one not in self._holders], to_far=True)
        movable = self._movable_topics()
        self._set_aside(movable)
        spread = _spread(self._ranking)
        before = {member: dict(share) for member, share in self._shares.items()}
        everything = [one for one in everything if one.topic in movable]
        left = [one for one in left if one.topic in movable]
        moved = self._level(everything, left)
        if begun and moved and _spread(self._ranking) >= spread:
            self._shares = before
        return {member: list(share) for member, share in self._shares.items()}

    def _keep(self, member: str, owned: Iterable[TopicPartition]) -> None:
        kept = self._shares[member] = {}
        for one in owned:
            if one.topic in self._wishes[member] and not self._racks.far(member, one):
                kept[one] = None
                self._holders[one] = member
            else:
                self._dropped = True

    def _in_order(self) -> list[TopicPartition]:
        """Return all partitions in the order to give and move them: few want it, it comes first."""
        takers = self._takers()
        return [
            TopicPartition(topic, number)
            for topic in sorted(self._topics, key=lambda topic: (takers[topic], topic))
            for number in range(len(self._topics[topic]))
        ]

    def _takers(self) -> dict[str, int]:
        """Count who wants a topic."""
        takers = dict.fromkeys(self._topics, 0)
        for wishes in self._wishes.values():
            for topic in wishes:
                takers[topic] += 1
        return takers

    def _give(self, partitions: Iterable[TopicPartition], *, to_far: bool) -> None:
        """Give each to the one that has least of those that want it."""
        for one in partitions:
            for _count, member in self._ranking:
                if one.topic in self._wishes[member] and (
                    to_far or not self._racks.far(member, one)
                ):
                    self._put(one, member)
                    break

    def _movable_topics(self) -> set[str]:
        return {topic for topic, count in self._takers().items() if count > 1}

    def _set_aside(self, movable: set[str]) -> None:
        """Take those out of the ranking that can neither give nor get."""

        def takes_part(member: str) -> bool:
            share = self._shares[member]
            most = sum(len(self._topics[topic]) for topic in self._wishes[member])
            return len(share) < most or any(one.topic in movable for one in share)

        self._ranking = [entry for entry in self._ranking if takes_part(entry[1])]

    def _level(self, everything: Sequence[TopicPartition], left: Sequence[TopicPartition]) -> bool:
        """Move partitions until that helps nobody; tell whether what members had moved, too.

        Where nobody lost anything yet, what had no owner moves first, at the cost of nobody.
        """
        if not self._dropped:
            self._move(left)
        return self._move(everything)

    def _move(self, partitions: Sequence[TopicPartition]) -> bool:
        """Go through the partitions again and again, until none moves; tell whether any did."""
        moves = -1
        total = 0
        while moves:
            moves = sum(map(self._move_one, partitions))
            total += moves
        return total > 0

    def _move_one(self, one: TopicPartition) -> bool:
        """Move a partition to a member that has two less, if there is one."""
        holder = self._holders[one]
        enough = len(self._shares[holder]) - 1
        taker = self._former.get(one)
        if (
            taker is None
            or one.topic not in self._wishes[taker]
            or len(self._shares[taker]) >= enough
        ):
            taker = self._least_loaded(one.topic, enough)
        if taker is None:
            return False
        moved = self._movements.instead_of(one, holder, taker)
        giver = self._holders[moved]
        if len(self._shares[giver]) < len(self._shares[taker]) + 2:
            if self._detours == 0:
                moved, giver = one, holder
            else:
                self._detours -= 1
        self._movements.record(moved, giver, taker)
        self._rank(giver, -1)
        del self._shares[giver][moved]
        self._put(moved, taker)
        return True

    def _least_loaded(self, topic: str, enough: int) -> str | None:
        """Return who has least of those that want a topic and have less than enough."""
        for count, member in self._ranking:
            if count >= enough:
                return None
            if topic in self._wishes[member]:
                return member
        return None

    def _put(self, one: TopicPartition, member: str) -> None:
        self._rank(member, 1)
        self._shares[member][one] = None
        self._holders[one] = member

    def _rank(self, member: str, change: int) -> None:
        count = len(self._shares[member])
        del self._ranking[bisect_left(self._ranking, (count, member))]
        insort(self._ranking, (count + change, member))


def _spread(ranking: Sequence[tuple[int, str]]) -> int:
    """Sum the differences between all pairs of counts: nothing where all are equal."""
    counts = [count for count, _member in ranking]
    below = accumulate(counts, initial=0)
    return sum(
        place * count - lower
        for place, (count, lower) in enumerate(zip(counts, below, strict=False))
    )


class FirstShares(UnevenShares):
    """One division as Kafka 1.1 would have made it, for groups that were planned with it.

    It knows no quotas and no racks: members that want the same topics are served by giving and
    moving, too. Only the order is another. A group that was there before moves partitions from
    where most are, and what is left is given in the order of a hash map; nothing is tried first
    with what had no owner.
    """

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
