"""The assignors of one member at work: what it tells the group, what it decides as its leader.

Pure. Turns steps of `membership` into the bytes that members exchange, and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.base.errors import ConfigError
from moldau.client.assignors.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.assignors.interface import (
    Assignment,
    ClusterTopics,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    Subscriptions,
)
from moldau.client.consuming.steps import Distribute, Join
from moldau.client.errors import InvalidState


class Assignors:
    """What one consumer was given as `partition.assignment.strategy`."""

    def __init__(self, assignors: Sequence[PartitionAssignor], rack: str) -> None:
        if not assignors:
            raise ConfigError("partition.assignment.strategy names no assignor")
        self._by_name: Mapping[str, PartitionAssignor] = {one.name: one for one in assignors}
        if len(self._by_name) != len(assignors):
            raise ConfigError("partition.assignment.strategy names an assignor twice")
        self._rack = rack or None
        common = frozenset(RebalanceProtocol).intersection(*(one.protocols for one in assignors))
        if not common:
            raise ConfigError(
                "partition.assignment.strategy mixes assignors without a common rebalance protocol"
            )
        self.protocol = max(common)
        """The better of the ways that all of them know, because which is chosen is the group's."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of preference."""
        return tuple(self._by_name)

    def subscriptions_to_send(self, step: Join) -> list[tuple[str, bytes]]:
        """Write the subscription of this member, for each assignor with its own data."""
        topics = sorted(step.topics)
        owned = sorted(step.owned)
        return [
            (
                name,
                encode_subscription(
                    Subscription(
                        topics,
                        assignor.metadata(topics),
                        owned,
                        step.owned_generation,
                        self._rack,
                    )
                ),
            )
            for name, assignor in self._by_name.items()
        ]

    @staticmethod
    def subscriptions_received(step: Distribute) -> Subscriptions:
        """Read what every member of the group wants."""
        return {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in step.members
        }

    def assignments_to_send(
        self, step: Distribute, topics: ClusterTopics, subscriptions: Subscriptions
    ) -> dict[str, bytes]:
        """Decide who reads what."""
        assignor = self._by_name[step.protocol_name]
        assignments = assignor.assign(topics, subscriptions)
        if strangers := assignments.keys() - subscriptions.keys():
            raise InvalidState(
                f"assignor {assignor.name} assigned partitions to non-members {sorted(strangers)}",
                advice="Correct the assignor: it may only assign to members of the group.",
            )
        return {member: encode_assignment(one) for member, one in assignments.items()}

    @staticmethod
    def assignment_received(assignment: bytes) -> Assignment:
        """Read what this member shall read; a leader that left it out gave it nothing."""
        return decode_assignment(assignment) if assignment else Assignment()

    def adopted(self, name: str, assignment: Assignment, generation: int) -> None:
        """Let the assignor that decided remember."""
        self._by_name[name].on_assignment(assignment, generation)
