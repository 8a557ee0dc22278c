"""Where members and replicas stand, and whether an assignor should mind (KIP-881).

Racks are minded only if that can bring a member closer to its data: some member stands where some
replica does, and not every partition has replicas in all those racks anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from moldau.client.assignors.interface import ClusterTopics, Subscriptions
from moldau.client.records import TopicPartition


def member_racks(subscriptions: Subscriptions) -> dict[str, str]:
    """Return the racks of the members that name one."""
    return {
        member: subscription.rack
        for member, subscription in subscriptions.items()
        if subscription.rack
    }


def racks_matter(members: Mapping[str, str], partitions: Collection[frozenset[str]]) -> bool:
    """Tell whether some assignments of these partitions are nearer to these members than others."""
    everywhere = frozenset[str]().union(*partitions)
    if everywhere.isdisjoint(members.values()):
        return False
    return any(racks != everywhere for racks in partitions)


class RackMap:
    """Members and replicas by rack; empty where racks do not matter: then nobody is near or far."""

    def __init__(self, topics: ClusterTopics, subscriptions: Subscriptions) -> None:
        members = member_racks(subscriptions)
        if not racks_matter(members, [racks for topic in topics.values() for racks in topic]):
            members = {}
        self._topics = topics
        self._members = members
        self._population = Counter(members.values())

    def __bool__(self) -> bool:
        return bool(self._members)

    def near(self, member: str, partition: TopicPartition) -> bool:
        """Tell whether the member names a rack and a replica stands in it."""
        rack = self._members.get(member)
        return rack is not None and rack in self._racks_of(partition)

    def far(self, member: str, partition: TopicPartition) -> bool:
        """Tell whether the member names a rack and no replica stands in it."""
        rack = self._members.get(member)
        return rack is not None and rack not in self._racks_of(partition)

    def scarcest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Put partitions first that few members are near to; else keep their order."""
        if not self._members:
            return list(partitions)
        near = self._population
        return sorted(partitions, key=lambda one: sum(near[rack] for rack in self._racks_of(one)))

    def _racks_of(self, partition: TopicPartition) -> frozenset[str]:
        return self._topics[partition.topic][partition.partition]
