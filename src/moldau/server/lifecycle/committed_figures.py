"""Which committed offsets the metrics page tells: all, or those of the groups that have the fewest.

A group is told as a whole or not at all, since a part of its lag would pass for all of it. Small
groups come first, so that one group with very many partitions does not hide the others.

The page's own thread reads here while the event loop changes the state. There may be a hundred
thousand groups. They are never sorted, because a sort holds the interpreter until it is done: a
heap picks the few that are told.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from moldau.coordination.groups.offset_fetching import read_offset
from moldau.coordination.groups.shard import GroupShard
from moldau.observe.committed_offsets import CommittedFigures, GroupOffset


def committed_figures(shards: Sequence[GroupShard], series_max: int) -> CommittedFigures:
    """Return the offsets of as many groups as fit into this many series."""
    total = sum(shard.offsets.count() for shard in shards)
    told: list[GroupOffset] = []
    # A group has one offset at least, so no more groups than that can be told.
    for count, group, index in heapq.nsmallest(series_max, _sizes(shards)):
        if len(told) + count > series_max:
            break
        told += _offsets(shards[index], group)
    return CommittedFigures(told, max(0, total - len(told)))


def _sizes(shards: Sequence[GroupShard]) -> Iterator[tuple[int, str, int]]:
    for index, shard in enumerate(shards):
        for group, count in shard.offsets.counts():
            yield count, group, index


def _offsets(shard: GroupShard, group: str) -> Iterator[GroupOffset]:
    for topic, partition, value in shard.offsets.values(group):
        yield GroupOffset(group, topic, partition, read_offset(value)[0])
