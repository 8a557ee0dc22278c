"""How far groups are: committed offset, end and member of every partition they read.

Owns the lookup. Does not know in which order or form a command shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.frame import client

if TYPE_CHECKING:
    from moldau.client.records import OffsetAndMetadata, TopicPartition


class PartitionProgress(NamedTuple):
    """How far a group is in one partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None
    """The latest offset; None if it could not be looked up."""
    member: client.MemberDescription | None
    """The member that reads the partition."""

    @property
    def lag(self) -> int | None:
        """The number of offsets left to read; negative where the log was truncated."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


async def describe_progress(
    admin: client.AsyncAdmin, groups: Mapping[str, client.GroupDescription]
) -> client.Results[str, list[PartitionProgress]]:
    """Look up how far groups are.

    A group has an entry for each partition of each member, in order, and then for each partition
    that has an offset and no member.
    """
    committed = await admin.list_offsets_of_groups(groups)
    wanted = {
        partition
        for name, offsets in committed.ok.items()
        for partition in (*offsets, *_assigned(groups[name]))
    }
    ends = (await admin.list_offsets(dict.fromkeys(sorted(wanted), client.OffsetSpec.LATEST))).ok
    found = {
        name: [
            PartitionProgress(
                partition,
                offsets.get(partition),
                ends[partition].offset if partition in ends else None,
                member,
            )
            for member, partitions in (
                *((one, one.assignment) for one in groups[name].members),
                (None, offsets.keys() - _assigned(groups[name])),
            )
            for partition in sorted(partitions)
        ]
        for name, offsets in committed.ok.items()
    }
    return client.Results(found, committed.errors)


def _assigned(group: client.GroupDescription) -> set[TopicPartition]:
    return {partition for member in group.members for partition in member.assignment}
