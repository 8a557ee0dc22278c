"""Who may keep what: the claims of sticky members, made consistent.

Members tell what they had, each from its own memory. A member that was away speaks of an older
generation, and what it had may have gone to somebody else since; a fault may make two of the same
generation claim one partition. So the later generation prevails, and what two claim in the same
generation is given to neither of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.client.assignors.interface import NO_GENERATION, ClusterTopics, Subscriptions
from moldau.client.assignors.sticky_data import StickyData
from moldau.client.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Claims:
    """What members had, without contradictions."""

    owned: dict[str, dict[TopicPartition, None]]
    """By member, in the order given: what it had, in the order it said."""
    contested: set[TopicPartition]
    """What two members of one generation claimed."""
    former: dict[TopicPartition, str]
    """Who had a partition, of those that speak of a generation before the latest."""


def settled(
    topics: ClusterTopics, subscriptions: Subscriptions, remembered: Mapping[str, StickyData]
) -> Claims:
    """Settle what members remember of topics that still exist."""
    owned: dict[str, dict[TopicPartition, None]] = {}
    contested: set[TopicPartition] = set()
    owners: dict[TopicPartition, str] = {}
    for member in subscriptions:
        mine = owned[member] = {}
        generation = _generation(remembered[member])
        for one in remembered[member].partitions:
            if one in mine or not 0 <= one.partition < len(topics.get(one.topic, ())):
                continue
            other = owners.get(one)
            other_generation = NO_GENERATION if other is None else _generation(remembered[other])
            if other is not None and generation < other_generation:
                continue
            owners[one] = member
            if other is not None:
                owned[other].pop(one, None)
                if generation == other_generation:
                    contested.add(one)
                    continue
            mine[one] = None
    return Claims(owned, contested, _former(subscriptions, remembered))


def _generation(data: StickyData) -> int:
    return NO_GENERATION if data.generation is None else data.generation


def _former(
    members: Iterable[str], remembered: Mapping[str, StickyData]
) -> dict[TopicPartition, str]:
    """Return the last owner of what members of past generations had."""
    latest = max(map(_generation, remembered.values()), default=NO_GENERATION)
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        generation = _generation(remembered[member])
        if generation < latest:
            for partition in remembered[member].partitions:
                known = former.get(partition)
                if known is None or generation > known[0]:
                    former[partition] = (generation, member)
    return {partition: member for partition, (_generation, member) in former.items()}
