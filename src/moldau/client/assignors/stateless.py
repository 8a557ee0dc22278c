"""The assignors that remember nothing: range and round robin.

Both serve members in the same order, on every leader and over restarts. Static members come first,
by the names they keep; the others follow by the ids the broker gave them. A static member thus
keeps its place though a restart gives it a new id (KIP-345).

Round robin deals all partitions of all topics in turn, like cards. Members that do not want a card
are passed over, so equal subscriptions give shares that differ by one at most, and unequal ones may
not.

Range cuts each topic by itself into runs of partitions, one for each member. The members that come
first get one partition more where the cut is not even. Topics with as many partitions and the same
members are cut alike, so that partition n of one and partition n of the other go to the same
member: what a join of two topics by key needs. Where racks matter (KIP-881), members first take,
within the number that is theirs, partitions with a replica in their rack; topics that would be cut
alike are matched together, number by number, so that they stay together. What is left is cut into
runs as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from moldau.client.assignors.interface import (
    Assignment,
    Assignments,
    ClusterTopics,
    PartitionAssignor,
    Shares,
    Subscriptions,
)
from moldau.client.assignors.racks import member_racks, racks_matter
from moldau.client.records import TopicPartition


def in_order(subscriptions: Subscriptions) -> list[str]:
    """Return the ids of all members, in the order they are served."""

    def place(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].instance_id
        return (True, member) if instance_id is None else (False, instance_id)

    return sorted(subscriptions, key=place)


def subscribers(subscriptions: Subscriptions, topics: Iterable[str]) -> dict[str, list[str]]:
    """Return, of each of these topics, who subscribes to it, in the order they are served."""
    members: dict[str, list[str]] = {topic: [] for topic in topics}
    for member in in_order(subscriptions):
        for topic in dict.fromkeys(subscriptions[member].topics):
            if topic in members:
                members[topic].append(member)
    return members


class RoundRobinAssignor(PartitionAssignor):
    """Assigns all partitions, ordered by topic and number, to the members in turn."""

    name = "roundrobin"

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Assign the partitions of all subscribed topics."""
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


class RangeAssignor(PartitionAssignor):
    """Assigns each subscriber of a topic a range of its partitions."""

    name = "range"

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Assign the partitions of all subscribed topics."""
        racks = member_racks(subscriptions)
        cuts = [
            _Cut(topic, topics[topic], members, racks)
            for topic, members in subscribers(subscriptions, sorted(topics)).items()
            if members
        ]
        if any(cut.racks_matter for cut in cuts):
            for together in _cut_alike(cuts):
                _match_racks(together)
        for cut in cuts:
            cut.give_runs(lambda _member, _partition: True)
        shares: Shares = {member: [] for member in subscriptions}
        for cut in cuts:
            for member, partitions in cut.given.items():
                shares[member] += [TopicPartition(cut.topic, n) for n in sorted(partitions)]
        return {member: Assignment(share) for member, share in shares.items()}


class _Cut:
    """One topic being cut: who has got what so far, and how much each may still get."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[frozenset[str]],
        members: list[str],
        racks: dict[str, str],
    ) -> None:
        self.topic = topic
        self.given: dict[str, list[int]] = {member: [] for member in members}
        self.count = len(partitions)
        self._partition_racks = partitions
        self._member_racks = {member: racks[member] for member in members if member in racks}
        self.racks_matter = racks_matter(self._member_racks, partitions)
        self._least, self._more = divmod(len(partitions), len(members))
        self._left = dict.fromkeys(range(len(partitions)))

    def room(self, member: str) -> int:
        """Tell how many partitions the member may still get."""
        most = self._least + (1 if self._more > 0 else 0)
        return max(0, most - len(self.given[member]))

    def same_rack(self, member: str, partition: int) -> bool:
        """Tell whether the member stands where the partition has a replica, or stands nowhere."""
        rack = self._member_racks.get(member)
        return rack is None or rack in self._partition_racks[partition]

    def give(self, member: str, partitions: list[int]) -> None:
        """Give partitions that are left to a member that has room for them."""
        had = len(self.given[member])
        self.given[member] += partitions
        if had <= self._least < len(self.given[member]):
            self._more -= 1
        for partition in partitions:
            del self._left[partition]

    def give_runs(self, suits: Callable[[str, int], bool]) -> None:
        """Fill one member after the other with the first partitions left that suit it."""
        for member in self.given:
            if not self._left:
                return
            room = self.room(member)
            if room:
                suiting = (partition for partition in self._left if suits(member, partition))
                self.give(member, list(islice(suiting, room)))


def _cut_alike(cuts: list[_Cut]) -> list[list[_Cut]]:
    """Group the topics that have the same members and as many partitions."""
    groups: dict[tuple[int, tuple[str, ...]], list[_Cut]] = {}
    for cut in cuts:
        groups.setdefault((cut.count, tuple(cut.given)), []).append(cut)
    return list(groups.values())


def _match_racks(cuts: list[_Cut]) -> None:
    """Give what has a replica in a member's rack to that member; topics cut alike together."""
    first = cuts[0]
    if len(cuts) == 1:
        if first.racks_matter:
            first.give_runs(first.same_rack)
        return
    members = list(first.given)
    for partition in range(first.count):
        for member in members:
            # They are given the same numbers, so who has room in one topic has room in all.
            if first.room(member) and all(cut.same_rack(member, partition) for cut in cuts):
                for cut in cuts:
                    cut.give(member, [partition])
                if not first.room(member):
                    members.remove(member)
                break
