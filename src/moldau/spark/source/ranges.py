"""How much is read at a time, and by how many tasks: plain arithmetic on offsets.

Offsets are counted, not records: where compaction or transactions have left gaps there are fewer
records in a range than its length says.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from moldau.client.records import TopicPartition
from moldau.spark.source.offsets import Positions


class OffsetRange(NamedTuple):
    """Some offsets of one partition, the end not among them."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.start


def backlog(start: Positions, end: Positions) -> int:
    """Return how many offsets lie between two positions; partitions only in one do not count."""
    return sum(max(0, end[one] - start[one]) for one in end.keys() & start.keys())


def limited(start: Positions, end: Positions, most: int) -> dict[TopicPartition, int]:
    """Return how far to go so that about `most` offsets are read, divided by what there is to read.

    A partition with anything to read gets one offset at least, so that small ones do not starve,
    which can add up to more than `most`. Every partition of `end` has a place in `start`.
    """
    sizes = {one: end[one] - start[one] for one in end if end[one] > start[one]}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    reached = dict(end)
    left = most
    # The largest last: it takes what rounding has left of the others' shares.
    for partition in sorted(sizes, key=lambda one: (sizes[one], one)):
        size = sizes[partition]
        share = min(size, max(1, left * size // total))
        reached[partition] = start[partition] + share
        total -= size
        left = max(0, left - share)
    return reached


def divided(
    ranges: Iterable[OffsetRange], *, most: int | None = None, least_count: int | None = None
) -> list[OffsetRange]:
    """Split ranges, in order and evenly: none longer than `most`, and about `least_count` of them.

    Empty ones are left out. There are fewer than `least_count` only if there are fewer offsets.
    """
    wanted = [each for each in ranges if each.size > 0]
    if most is not None:
        wanted = [part for each in wanted for part in _parts(each, -(-each.size // most))]
    if least_count is None or len(wanted) >= least_count:
        return wanted
    counts = _part_counts([each.size for each in wanted], least_count)
    return [
        part for each, count in zip(wanted, counts, strict=True) for part in _parts(each, count)
    ]


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    borders = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(borders)]


def _part_counts(sizes: list[int], least_count: int) -> list[int]:
    """Decide how many parts each range makes: whichever has the longest parts gets one more."""
    counts = [1] * len(sizes)
    longest = [(float(-size), number) for number, size in enumerate(sizes)]
    heapq.heapify(longest)
    for _ in range(least_count - len(sizes)):
        if not longest or longest[0][0] >= -1:
            break
        number = longest[0][1]
        counts[number] += 1
        heapq.heapreplace(longest, (-(sizes[number] / counts[number]), number))
    return counts


def later(positions: Positions, others: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Return the partitions that stand behind where others have them end: their log has shrunk."""
    return sorted(one for one in positions.keys() & others.keys() if positions[one] > others[one])
