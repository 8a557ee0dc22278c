"""What consumers of a classic group tell each other: subscriptions and assignments.

They travel as opaque bytes inside JoinGroup and SyncGroup, an int16 version before the message. A
broker passes them on unread; clients and tools read them. A version only ever adds fields at the
end.
"""

from __future__ import annotations

from moldau.protocol.fields import array, bytes_, int32, message, string, struct


@struct
class ConsumerProtocolTopicPartition:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions="0-3")
class ConsumerProtocolSubscription:
    """What a member wants to read.

    Version 1 adds what it owns (KIP-429), 2 since which generation (KIP-792), 3 where it stands
    (KIP-881).
    """

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartition] = array(
        ConsumerProtocolTopicPartition, "1+"
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    """What a member shall read; the same in all versions."""

    assigned_partitions: list[ConsumerProtocolTopicPartition] = array(
        ConsumerProtocolTopicPartition
    )
    user_data: bytes | None = bytes_(nullable="0+", default=None)
