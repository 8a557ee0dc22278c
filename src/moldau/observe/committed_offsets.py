"""The offsets that groups have committed, on the metrics page: what the lag of groups is made of.

A group's coordinator knows what the group has committed, and the leader of a partition knows where
its log ends. These are two brokers as a rule, so neither can tell the lag. Each tells its part, and
a query subtracts them (docs/operating/monitoring.md). To ask the leaders for each page would cost
requests between brokers, and a page that is late while one of them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric


class GroupOffset(NamedTuple):
    """The offset that a group has committed for one partition."""

    group: str
    topic: str
    partition: int
    offset: int


class CommittedFigures(NamedTuple):
    """Offsets of the groups that are coordinated here."""

    told: Sequence[GroupOffset]
    left_out: int
    """How many are not told, because they would be too many series."""


def committed_families(figures: CommittedFigures) -> Iterator[Metric]:
    """Tell what groups have committed, partition by partition."""
    family = GaugeMetricFamily(
        "moldau_group_committed_offset",
        "Offset that a group has committed",
        labels=["group", "topic", "partition"],
    )
    for one in figures.told:
        family.add_metric([one.group, one.topic, str(one.partition)], one.offset)
    yield family
    yield GaugeMetricFamily(
        "moldau_group_committed_offsets_left_out",
        "Committed offsets that are not told: more than moldau.metrics.partitions.max",
        value=figures.left_out,
    )
