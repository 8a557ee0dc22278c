"""What places that were named mean for partitions, asked of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.offset_words import OffsetWord, Place
from moldau.client.records import TopicPartition


class Ends(NamedTuple):
    """Where a partition begins and ends."""

    earliest: int
    latest: int


async def ends_of(
    admin: client.AsyncAdmin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Ends]:
    """Look up where partitions begin and end."""
    wanted = list(partitions)
    earliest = await offsets_at(admin, dict.fromkeys(wanted, client.OffsetSpec.EARLIEST))
    latest = await offsets_at(admin, dict.fromkeys(wanted, client.OffsetSpec.LATEST))
    return {one: Ends(earliest[one] or 0, latest[one] or 0) for one in wanted}


async def offsets_at(
    admin: client.AsyncAdmin, specs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Look up offsets; None where no record is meant. The first error is raised."""
    if not specs:
        return {}
    found = (await admin.list_offsets(dict(specs.items()))).or_raise()
    return {partition: one.offset for partition, one in found.items()}


async def resolve(
    admin: client.AsyncAdmin,
    words: Mapping[TopicPartition, OffsetWord],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset that is meant in each partition, within its ends.

    A time after the last record means the end. What is beyond an end means the end, as it does for
    Kafka's tool.
    """
    ends = await ends_of(admin, words)
    times = {partition: word.value for partition, word in words.items() if word.place is Place.TIME}
    at_times = await offsets_at(admin, times)
    found = {}
    for partition, word in words.items():
        earliest, latest = ends[partition]
        meant: int | None
        match word.place:
            case Place.EARLIEST:
                meant = earliest
            case Place.LATEST:
                meant = latest
            case Place.TIME:
                meant = at_times[partition]
            case Place.OFFSET:
                meant = word.value
            case Place.CURRENT | Place.SHIFT:
                if partition not in current:
                    raise UserError(f"{partition} has no committed offset to start from")
                meant = current[partition] + word.value
        found[partition] = latest if meant is None else min(max(meant, earliest), latest)
    return found
