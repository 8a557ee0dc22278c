"""What coordinators tell of groups, in the one form that administrators see.

Groups are of two kinds: in classic ones the members assign partitions among themselves and the
broker only keeps bytes, in those of KIP-848 the broker assigns. Each kind has its own question.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from moldau.client.assignors.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from moldau.client.errors import CorruptAnswer
from moldau.client.records import TopicPartition
from moldau.protocol.messages.consumer_groups import (
    DescribedConsumerAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
)
from moldau.protocol.messages.groups import DescribedGroup, DescribedGroupMember, ListedGroup

CLASSIC = "classic"
CONSUMER = "consumer"


class GroupListing(NamedTuple):
    """A group in a list."""

    group_id: str
    protocol_type: str
    """`consumer` for consumers; empty for groups with offsets only."""
    state: str | None
    """None for brokers before 2.6."""
    type: str | None
    """`classic`, `consumer`, ...; None for brokers before 3.8."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    """The instance id of a static member (KIP-345)."""
    client_id: str
    host: str
    topics: frozenset[str]
    """Its subscription; empty during a rebalance, or if it is not a consumer."""
    assignment: frozenset[TopicPartition]
    target_assignment: frozenset[TopicPartition] | None = None
    """Its next assignment, if the broker assigns (KIP-848)."""
    epoch: int | None = None
    """The epoch of its current assignment, if the broker assigns."""
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members."""

    group_id: str
    type: str
    """`classic` or `consumer`."""
    protocol_type: str
    state: str
    """`Stable`, `Empty`, `PreparingRebalance`, ..., as reported by the broker."""
    assignor: str
    coordinator: int
    """The broker that coordinates the group."""
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    """The epoch of the group, if the broker assigns."""
    target_assignment_epoch: int | None = None


def listed_group(told: ListedGroup) -> GroupListing:
    """Read a group of a list."""
    return GroupListing(
        told.group_id,
        told.protocol_type,
        told.group_state or None,
        told.group_type.lower() or None,
    )


def classic_group(told: DescribedGroup, coordinator: int) -> GroupDescription:
    """Read a classic group."""
    consuming = told.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        told.group_id,
        CLASSIC,
        told.protocol_type,
        told.group_state,
        told.protocol_data,
        coordinator,
        tuple(_classic_member(one, consuming=consuming) for one in told.members),
    )


def _classic_member(told: DescribedGroupMember, *, consuming: bool) -> MemberDescription:
    topics: frozenset[str] = frozenset()
    assignment: frozenset[TopicPartition] = frozenset()
    if consuming:
        # What another library wrote there may be anything; the rest of the group still counts.
        try:
            if told.member_metadata:
                topics = frozenset(decode_subscription(bytes(told.member_metadata)).topics)
            if told.member_assignment:
                assignment = frozenset(decode_assignment(bytes(told.member_assignment)).partitions)
        except CorruptAnswer:
            pass
    return MemberDescription(
        told.member_id,
        told.group_instance_id,
        told.client_id,
        told.client_host,
        topics,
        assignment,
    )


def consumer_group(told: DescribedConsumerGroup, coordinator: int) -> GroupDescription:
    """Read a group of KIP-848."""
    return GroupDescription(
        told.group_id,
        CONSUMER,
        PROTOCOL_TYPE,
        told.group_state,
        told.assignor_name,
        coordinator,
        tuple(map(_consumer_member, told.members)),
        told.group_epoch,
        told.assignment_epoch,
    )


def _consumer_member(told: DescribedConsumerGroupMember) -> MemberDescription:
    return MemberDescription(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        frozenset(told.subscribed_topic_names),
        _assigned(told.assignment),
        _assigned(told.target_assignment),
        told.member_epoch,
        told.rack_id,
    )


def _assigned(told: DescribedConsumerAssignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, partition)
        for topic in told.topic_partitions
        for partition in topic.partitions
    )
