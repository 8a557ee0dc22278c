"""Replica placement: which brokers hold which partition. Pure.

The rule for n active brokers in a row: replica j of partition i is on broker (i + j) mod n. The row
is rotated so that preferred leaders stay even over all topics; an empty cluster is not rotated. If
brokers have racks, the row alternates between racks, and each replica goes to the next broker whose
rack has the fewest replicas of the partition. So the replicas are in as many racks as possible. A
broker without a rack counts as a rack of its own.

Kafka chooses the start at random. Here the same cluster always gives the same placement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.base.ids import BrokerId
from moldau.protocol.errors import ApiError, ErrorCode


class Site(NamedTuple):
    """A broker that may get replicas."""

    broker_id: BrokerId
    rack: str | None = None


def place(
    sites: Sequence[Site],
    partition_count: int,
    replica_count: int,
    preferred_leaders: Mapping[BrokerId, int],
    first_partition: int = 0,
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of each new partition; ApiError if there are too few brokers.

    `first_partition` is the number of the first new partition, for a topic that grows: the rule
    continues after the existing ones.
    """
    if replica_count > len(sites):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replica_count} time(s): The target replication"
            f" factor of {replica_count} cannot be reached because only {len(sites)} broker(s) are"
            " registered or some brokers have all their log directories cordoned.",
        )
    row = _alternating(sites)
    start = _even_start(row, partition_count, preferred_leaders, first_partition)
    row = row[start:] + row[:start]
    # There are only as many different choices as brokers, but maybe ten thousand partitions.
    choices = [_replicas(row, partition, replica_count) for partition in range(len(row))]
    return [choices[(first_partition + step) % len(choices)] for step in range(partition_count)]


def _alternating(sites: Sequence[Site]) -> list[Site]:
    """Put the brokers in a row in which neighbours are in different racks if possible."""
    racks: dict[tuple[str, int], list[Site]] = defaultdict(list)
    for site in sorted(sites):
        # A broker without a rack gets its own group, so without racks the row is sorted by id.
        racks[("", site.broker_id) if site.rack is None else (site.rack, -1)].append(site)
    groups = sorted(racks.values(), key=lambda group: group[0].broker_id)
    rounds = max((len(group) for group in groups), default=0)
    return [group[turn] for turn in range(rounds) for group in groups if turn < len(group)]


def _even_start(
    row: Sequence[Site],
    partition_count: int,
    preferred_leaders: Mapping[BrokerId, int],
    first_partition: int,
) -> int:
    """Choose the rotation that gives the remaining partitions to the brokers that lead least.

    Whole rounds give every broker the same number. The remaining partitions go to a window of the
    row.
    """
    count = len(row)
    window = partition_count % count
    leads = [preferred_leaders.get(site.broker_id, 0) for site in row]

    def load(start: int) -> int:
        return sum(leads[(start + first_partition + step) % count] for step in range(window))

    return min(range(count), key=load) if window else 0


def _replicas(row: Sequence[Site], partition: int, replica_count: int) -> tuple[BrokerId, ...]:
    count = len(row)
    walk = [row[(partition + step) % count] for step in range(count)]
    used: Counter[str | int] = Counter()
    chosen: list[BrokerId] = []
    while len(chosen) < replica_count:
        site = min(walk, key=lambda site: used[_rack(site)])
        walk.remove(site)
        used[_rack(site)] += 1
        chosen.append(site.broker_id)
    return tuple(chosen)


def _rack(site: Site) -> str | int:
    return site.broker_id if site.rack is None else site.rack
