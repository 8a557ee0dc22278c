"""The interface of an assignor, for built-in ones and a user's own.

The leader of a group gets the subscriptions of all members and divides the partitions. An assignor
is a name that the members agree on, and a function from subscriptions to assignments. Everything
here is plain values; other packages send them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from moldau.client.records import TopicPartition

NO_GENERATION = -1
"""The generation of a member that had none or does not report it."""

ClusterTopics = Mapping[str, Sequence[frozenset[str]]]
"""The existing topics: for each partition in order, the racks of its replicas.

The set is empty if the racks are unknown. `len(topics["t"])` is the number of partitions.
"""


class RebalanceProtocol(IntEnum):
    """How members exchange partitions; a higher number is preferred."""

    EAGER = 0
    """All members revoke all partitions before they rejoin."""
    COOPERATIVE = 1
    """Members keep reading; only partitions that move are revoked, one round later (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member, as sent to the leader."""

    topics: Sequence[str]
    user_data: bytes | None = None
    """Data from the member's assignor for the leader's assignor."""
    owned_partitions: Sequence[TopicPartition] = ()
    """The partitions the member still owns; none for an eager member."""
    generation: int = NO_GENERATION
    """The generation in which it got them (KIP-792)."""
    rack: str | None = None
    """The rack of the member (KIP-881)."""
    instance_id: str | None = None
    """The instance id of a static member (KIP-345), as reported by the broker."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of a member, as sent by the leader."""

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


Subscriptions = Mapping[str, Subscription]
"""By member id."""

Assignments = dict[str, Assignment]
"""By member id; every subscribed member has an entry, even an empty one."""

Shares = dict[str, list[TopicPartition]]
"""The partitions of each member while the assignor runs."""


class PartitionAssignor(Protocol):
    """Divides partitions among members; subclass it for your own assignor.

        class FirstTakesAll(PartitionAssignor):
            name = "first-takes-all"

            def assign(self, topics, subscriptions):
                everything = [TopicPartition(t, p) for t in topics for p in range(len(topics[t]))]
                first = min(subscriptions)
                return {m: Assignment(everything if m == first else ()) for m in subscriptions}

    One assignor serves one consumer, from one task at a time. It may keep what `on_assignment`
    tells it for the next `metadata`.
    """

    name: str
    """All members of a group must have an assignor with this name."""
    version: int = 0
    """The version of the assignor's user data; only the assignor reads it."""
    protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)
    """The rebalance protocols that this assignor supports."""

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - for subclasses
        """Return user data to send with a subscription to these topics, or None."""
        return None

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Return the assignments; called on the leader only.

        `topics` has the existing topics; subscriptions may name others.
        """
        ...

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Receive this member's assignment and generation; called on every member."""
