"""What sticky members remember of their last assignment, and who of them may keep what.

The eager assignor has its members give up everything before they join, so what they had goes into
the user data: partitions by topic and, since the second form of it, the generation they are from
(KIP-54, KIP-341). Cooperative members still own their partitions and say so in the subscription
itself; only the generation was missing there, until KIP-792 put it in too. The two forms have no
number before them: the first is the second without its end. What cannot be read says nothing, and
that member starts from nothing: it must not keep a group from working.

Members tell what they had, each from its own memory. A member that was away speaks of an older
generation, and what it had may have gone to somebody else since; a fault may make two of the same
generation claim one partition. So the later generation prevails, and what two claim in the same
generation is given to neither of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.base.errors import ProtocolError
from moldau.client.assignors.interface import NO_GENERATION, ClusterTopics, Subscriptions
from moldau.client.records import TopicPartition
from moldau.protocol.compiler import decode, decoder, encode
from moldau.protocol.fields import array, int32, message
from moldau.protocol.messages.consumer_protocol import ConsumerProtocolTopicPartition


@message(versions="0-1")
class StickyUserData:
    """What an eager sticky member had."""

    previous_assignment: list[ConsumerProtocolTopicPartition] = array(
        ConsumerProtocolTopicPartition
    )
    generation: int = int32("1+", default=NO_GENERATION)


@message(versions="0")
class CooperativeUserData:
    """Since when a cooperative sticky member owns what it owns."""

    generation: int = int32(default=NO_GENERATION)


class StickyData(NamedTuple):
    """What a member had, and in which generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    """None where the member did not say."""


def encode_sticky(data: StickyData) -> bytes:
    """Write what an eager member had; with its generation if it knows one."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in data.partitions:
        by_topic.setdefault(topic, []).append(partition)
    previous = [ConsumerProtocolTopicPartition(topic, ns) for topic, ns in by_topic.items()]
    if data.generation is None:
        return encode(StickyUserData(previous), 0)
    return encode(StickyUserData(previous, data.generation), 1)


def decode_sticky(user_data: bytes | None) -> StickyData:
    """Read what an eager member had, whichever form it is in."""
    if not user_data:
        return StickyData()
    for version in (1, 0):
        try:
            found, _end = decoder(StickyUserData, version)(memoryview(user_data), 0)
        except ProtocolError:
            continue
        partitions = tuple(
            TopicPartition(one.topic, partition)
            for one in found.previous_assignment
            for partition in one.partitions
        )
        return StickyData(partitions, found.generation if version else None)
    return StickyData()


def encode_cooperative(generation: int) -> bytes:
    """Write since when a cooperative member owns what it owns."""
    return encode(CooperativeUserData(generation), 0)


def decode_cooperative(user_data: bytes | None) -> int | None:
    """Read a generation; None where none was sent."""
    if user_data is None:
        return None
    try:
        return decode(CooperativeUserData, 0, user_data).generation
    except ProtocolError:
        return NO_GENERATION


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
