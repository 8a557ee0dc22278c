"""Replica placement: which brokers hold which partition. Pure.

The rule, with n active brokers in a row: partition i starts on broker i mod n, and its replica j
lies on broker (i + j) mod n. Two things shape the row. It is rotated so that preferred leaders
stay even over all topics, by nothing while the cluster is empty. And it alternates between racks,
and in a rack between hosts. A partition goes on to the next broker whose rack holds the fewest of
its replicas, and of those to one whose host does, so that it survives the loss of as many racks
and hosts as it has replicas. A broker without a rack has its host for one; a broker without a host
stands for itself.

Kafka chooses the start at random. Here the same cluster always gives the same placement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from moldau.base.ids import BrokerId
from moldau.protocol.errors import ApiError, ErrorCode

_Label: TypeAlias = tuple[str, str]
"""What brokers have in common: the kind and the name of it."""


class Site(NamedTuple):
    """A broker that may get replicas."""

    broker_id: BrokerId
    rack: str | None = None
    host: str | None = None
    """Brokers on one machine share it."""


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
    """Put the brokers in a row whose neighbours differ in rack, or else in host, if possible."""
    return _interleaved(_interleaved(sorted(sites, key=_broker_id), _host), _rack)


def _interleaved(sites: Sequence[Site], label: Callable[[Site], _Label]) -> list[Site]:
    """Take one broker of each label in turn, labels in the order of their lowest broker."""
    groups: dict[_Label, list[Site]] = defaultdict(list)
    for site in sites:
        groups[label(site)].append(site)
    ordered = sorted(groups.values(), key=lambda group: min(map(_broker_id, group)))
    rounds = max(map(len, ordered), default=0)
    return [group[turn] for turn in range(rounds) for group in ordered if turn < len(group)]


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
    racks: Counter[_Label] = Counter()
    hosts: Counter[_Label] = Counter()
    chosen: list[BrokerId] = []
    while len(chosen) < replica_count:
        site = min(walk, key=lambda site: (racks[_rack(site)], hosts[_host(site)]))
        walk.remove(site)
        racks[_rack(site)] += 1
        hosts[_host(site)] += 1
        chosen.append(site.broker_id)
    return tuple(chosen)


def _broker_id(site: Site) -> BrokerId:
    return site.broker_id


def _rack(site: Site) -> _Label:
    return _host(site) if site.rack is None else ("rack", site.rack)


def _host(site: Site) -> _Label:
    return ("broker", str(site.broker_id)) if site.host is None else ("host", site.host)
