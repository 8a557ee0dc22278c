"""Sticky shares when all members want the same topics: quotas are known before anything is dealt.

Every member gets `least` partitions or one more, and how many get one more is known as well. So
each keeps what it had up to its quota, and what is left fills those that have too little. Nothing
moves twice, and all of it takes time in proportion to the partitions.

Where racks matter, nobody keeps what is far from it, and what is left goes first, the partitions
that few are near to before the others, to members near to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from moldau.client.assignors.interface import ClusterTopics, Shares
from moldau.client.assignors.racks import RackMap
from moldau.client.assignors.sticky_claims import Claims
from moldau.client.records import TopicPartition


class EvenShares:
    """One division among members that all want all of the topics."""

    def __init__(self, topics: ClusterTopics, claims: Claims, racks: RackMap) -> None:
        self.shares: Shares = {member: [] for member in claims.owned}
        self.moving: dict[TopicPartition, str] = {}
        """What had an owner and goes to another member now."""
        self._claims = claims
        self._racks = racks
        self._least, self._more = divmod(sum(map(len, topics.values())), len(claims.owned))
        self._given_up: dict[TopicPartition, str | None] = dict.fromkeys(claims.contested)
        """What members could not keep, and who they are."""
        self._short: list[str] = []
        """Who has less than `least`."""
        self._level: list[str] = []
        """Who has `least` and may get one more."""
        self._keep()
        self._short.sort()
        self._level.sort()
        left = racks.scarcest_first(self._left(topics))
        self._deal(self._deal_near(left) if racks else left)

    def _keep(self) -> None:
        """Let everybody keep what it had and is not far from, up to its quota."""
        for member, owned in self._claims.owned.items():
            keeps = []
            for one in owned:
                if one in self._claims.contested:
                    continue
                if self._racks.far(member, one):
                    self._given_up[one] = member
                else:
                    keeps.append(one)
            keeps.sort(key=lambda one: (one.partition, one.topic))
            quota = self._least
            if len(keeps) < self._least:
                self._short.append(member)
            elif len(keeps) > self._least and self._more > 0:
                quota += 1
                self._spend_extra()
            elif self._more > 0:
                self._level.append(member)
            self.shares[member] += keeps[:quota]
            self._given_up.update(dict.fromkeys(keeps[quota:], member))

    def _left(self, topics: ClusterTopics) -> list[TopicPartition]:
        kept = {one for share in self.shares.values() for one in share}
        return [
            one
            for topic in sorted(topics)
            for number in range(len(topics[topic]))
            if (one := TopicPartition(topic, number)) not in kept
        ]

    def _deal_near(self, left: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members near to them, in turn; return what is left."""
        turn = 0
        far = []
        for one in left:
            if (place := self._near(one, self._short, turn)) is not None:
                turn = self._fill(one, place)
            elif (place := self._near(one, self._level, 0)) is not None:
                self._give(one, self._level.pop(place))
                self._spend_extra()
            else:
                far.append(one)
        return far

    def _near(self, one: TopicPartition, members: list[str], start: int) -> int | None:
        """Find the first member from a place on, and around, that is near to a partition."""
        for place in chain(range(start, len(members)), range(start)):
            if self._racks.near(members[place], one):
                return place
        return None

    def _deal(self, left: Sequence[TopicPartition]) -> None:
        """Give the rest in turn, first up to `least`, then one more."""
        turn = 0
        for one in left:
            if self._short:
                turn = self._fill(one, turn)
            else:
                self._give(one, self._level.pop(0))

    def _fill(self, one: TopicPartition, place: int) -> int:
        """Give a partition to a member that is short of some; return whose turn is next."""
        member = self._short[place]
        self._give(one, member)
        if len(self.shares[member]) < self._least:
            place += 1
        else:
            del self._short[place]
            if self._more > 0:
                self._level.append(member)
        return place % len(self._short) if self._short else 0

    def _spend_extra(self) -> None:
        self._more -= 1
        if self._more == 0:
            self._level.clear()

    def _give(self, one: TopicPartition, member: str) -> None:
        self.shares[member].append(one)
        if self._given_up.get(one, member) != member:
            self.moving[one] = member
