"""Positions in partitions, and the offsets they mean.

Owns the kinds of positions and their lookup. Does not know how a user writes a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.frame import client

if TYPE_CHECKING:
    from moldau.client.records import TopicPartition


class PositionKind(Enum):
    """What a position is relative to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


class Position(NamedTuple):
    """A position in any partition; the value is an offset, a number of records or a time in ms."""

    kind: PositionKind
    value: int = 0


class Ends(NamedTuple):
    """Where a partition begins and ends."""

    earliest: int
    latest: int


class Target(NamedTuple):
    """The offset of a position in one partition."""

    asked: int | None
    """The exact offset; None if no record is that young, or there is no offset to start from."""
    offset: int
    """The nearest offset within the partition; its end if there is no exact one."""


def target_of(
    position: Position, ends: Ends, *, base: int | None = None, at_time: int | None = None
) -> Target:
    """Find the offset of a position.

    `base` is the offset that CURRENT and SHIFT start from. `at_time` is the first offset at or
    after the time of a TIME.
    """
    asked: int | None
    match position.kind:
        case PositionKind.EARLIEST:
            asked = ends.earliest
        case PositionKind.LATEST:
            asked = ends.latest
        case PositionKind.OFFSET:
            asked = position.value
        case PositionKind.TIME:
            # Looked up after the ends, so it may be a record that is newer than them.
            return Target(at_time, ends.latest if at_time is None else at_time)
        case PositionKind.CURRENT | PositionKind.SHIFT:
            asked = None if base is None else base + position.value
    if asked is None:
        return Target(None, ends.latest)
    return Target(asked, min(max(asked, ends.earliest), ends.latest))


async def find_targets(
    admin: client.AsyncAdmin,
    positions: Mapping[TopicPartition, Position],
    bases: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Target]:
    """Look up the offset of each position; raises the first error."""
    ends = await ends_of(admin, positions)
    times = {
        partition: position.value
        for partition, position in positions.items()
        if position.kind is PositionKind.TIME
    }
    at_times = await offsets_at(admin, times)
    return {
        partition: target_of(
            position,
            ends[partition],
            base=bases.get(partition),
            at_time=at_times.get(partition),
        )
        for partition, position in positions.items()
    }


async def ends_of(
    admin: client.AsyncAdmin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Ends]:
    """Look up where partitions begin and end; raises the first error."""
    wanted = list(partitions)
    earliest = await offsets_at(admin, dict.fromkeys(wanted, client.OffsetSpec.EARLIEST))
    latest = await offsets_at(admin, dict.fromkeys(wanted, client.OffsetSpec.LATEST))
    return {one: Ends(earliest[one] or 0, latest[one] or 0) for one in wanted}


async def offsets_at(
    admin: client.AsyncAdmin, specs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Look up offsets by time; None where no record is that young. Raises the first error."""
    if not specs:
        return {}
    found = (await admin.list_offsets(dict(specs.items()))).or_raise()
    return {partition: one.offset for partition, one in found.items()}
