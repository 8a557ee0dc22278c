"""Resetting the committed offsets of a group: which groups allow it, and what would change.

Owns the plan; `AsyncAdmin.alter_group_offsets` carries it out. Does not know how a user names
positions, nor what to say where a position cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.frame import client
from moldau.cli.operations.positions import Position, find_targets

if TYPE_CHECKING:
    from moldau.client.records import TopicPartition

NO_GROUP = "Dead"
"""The state of a group that does not exist."""
INACTIVE = frozenset({"Empty", NO_GROUP})
"""The states in which a group has no members that commit offsets themselves."""


class GroupActivity(NamedTuple):
    """Whether a group has members."""

    state: str
    member_count: int = 0

    @property
    def is_resettable(self) -> bool:
        """Whether offsets can be committed in the group's name."""
        return self.state in INACTIVE


class Move(NamedTuple):
    """Where a group is in a partition, and where it would be."""

    current: int | None
    """The committed offset."""
    asked: int | None
    """The exact offset of the position; None if there is none."""
    offset: int
    """The nearest offset within the partition."""


async def activities_of(
    admin: client.AsyncAdmin, group_ids: Iterable[str]
) -> dict[str, GroupActivity]:
    """Look up whether groups have members; one that does not exist has none.

    Committing offsets creates a group. Other errors are raised.
    """
    described = await admin.describe_groups(group_ids)
    found = {}
    for group_id in described:
        try:
            group = described[group_id]
        except client.GroupIdNotFound:
            found[group_id] = GroupActivity(NO_GROUP)
        else:
            found[group_id] = GroupActivity(group.state, len(group.members))
    return found


async def committed_offsets(admin: client.AsyncAdmin, group_id: str) -> dict[TopicPartition, int]:
    """Look up the offsets of a group; a group that does not exist has none."""
    found = await admin.list_group_offsets(group_id)
    return {partition: one.offset for partition, one in found.items()}


async def plan_reset(
    admin: client.AsyncAdmin,
    committed: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, Move]:
    """Work out what a reset would change for a group with these offsets; raises the first error."""
    targets = await find_targets(admin, positions, committed)
    return {one: Move(committed.get(one), *target) for one, target in targets.items()}
