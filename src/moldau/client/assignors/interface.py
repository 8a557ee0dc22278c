"""What an assignor is: the one place that group members, built-in assignors and a user's own meet.

The member that leads a group hears what every member subscribes to, and divides the partitions. How
it divides them is an assignor: a name the members agree on, and a function from subscriptions to
assignments. Everything here is plain values; who sends them, and when, is no concern of this
package.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from moldau.client.records import TopicPartition

NO_GENERATION = -1
"""The generation of a member that has been in none, or does not say."""

ClusterTopics = Mapping[str, Sequence[frozenset[str]]]
"""Topics that exist: for each partition, in order, the racks where its replicas stand.

A partition whose racks are not known has the empty set; `len(topics["t"])` counts partitions.
"""


class RebalanceProtocol(IntEnum):
    """How members hand partitions over; the numbers order them, the better one is higher."""

    EAGER = 0
    """Everybody gives up everything before joining, and gets anew."""
    COOPERATIVE = 1
    """Members keep reading; only what moves is given up, and moves a round later (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells the leader."""

    topics: Sequence[str]
    user_data: bytes | None = None
    """What the assignor of that member added for the assignor of the leader."""
    owned_partitions: Sequence[TopicPartition] = ()
    """What the member still reads; eager members have given up everything."""
    generation: int = NO_GENERATION
    """Since which generation it owns them (KIP-792)."""
    rack: str | None = None
    """Where the member stands (KIP-881)."""
    instance_id: str | None = None
    """The name a static member keeps over restarts (KIP-345). The broker tells it, no member."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells one member."""

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


Subscriptions = Mapping[str, Subscription]
"""By member id."""

Assignments = dict[str, Assignment]
"""By member id; every member of the subscriptions is there, if only with nothing."""

Shares = dict[str, list[TopicPartition]]
"""Who gets what, while it is being worked out."""


class PartitionAssignor(Protocol):
    """A way to divide partitions among members; subclassing this one fills in what is usual.

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
    """What members agree on: all of a group must have an assignor of this name."""
    version: int = 0
    """Of the assignor's own user data; nothing but the assignor reads it."""
    protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)
    """The ways of handing over this assignor's answers are right for."""

    def metadata(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - for subclasses
        """Return user data to send along with a subscription to these topics, or None."""
        return None

    def assign(self, topics: ClusterTopics, subscriptions: Subscriptions) -> Assignments:
        """Divide the partitions; called on the leader only.

        `topics` holds the topics that exist; a subscription may name others.
        """
        ...

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Take note of what this member got, in which generation; called on every member."""
