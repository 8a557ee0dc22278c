"""The coordinators on the metrics page: groups, offsets, transactional ids, and how shards loaded.

Names are those that the JMX exporter makes of Kafka's. Kafka counts what its group coordinator did
without calling it a counter, so those have no type here either: a dashboard made for Kafka finds
them. Of transactions Kafka tells little; what is ours alone is called so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    UnknownMetricFamily,
)

_GROUP_MANAGER = "kafka_coordinator_group_groupmetadatamanager"
_GROUP_METRICS = "kafka_server_group_coordinator_metrics"
_TRANSACTION_METRICS = "kafka_server_transaction_coordinator_metrics"


class ShardFigures(NamedTuple):
    """The shards of one internal topic on this broker."""

    topic: str
    active: int
    loading: int
    failed: int
    load_count: int
    load_total_s: float
    load_max_s: float
    skipped_records: int
    """Records that could not be read when shards were loaded."""
    failed_requests: int
    """Requests that met a bug and were refused."""


class GroupFigures(NamedTuple):
    """The group coordinator."""

    shards: ShardFigures
    groups: Mapping[str, int]
    """By the name of their state; every state is there."""
    offsets: int
    rebalances: int
    offset_commits: int


class TransactionFigures(NamedTuple):
    """The transaction coordinator."""

    shards: ShardFigures
    ids: Mapping[str, int]
    """By the name of their state; every state is there."""
    committed: int
    aborted: int
    timed_out: int


def group_families(figures: GroupFigures) -> Iterator[Metric]:
    """Tell of groups, in all and by state, and of what was done for them."""
    count = sum(figures.groups.values())
    yield GaugeMetricFamily(f"{_GROUP_MANAGER}_numgroups", "Groups coordinated here", value=count)
    for state, number in figures.groups.items():
        name = f"{_GROUP_MANAGER}_numgroups{state.lower()}"
        yield GaugeMetricFamily(name, f"Groups in state {state}", value=number)
    yield GaugeMetricFamily(
        f"{_GROUP_MANAGER}_numoffsets", "Offsets committed by those groups", value=figures.offsets
    )
    by_protocol = GaugeMetricFamily(
        f"{_GROUP_METRICS}_group_count", "Groups by their protocol", labels=["protocol"]
    )
    by_protocol.add_metric(["classic"], count)
    yield by_protocol
    yield UnknownMetricFamily(
        f"{_GROUP_METRICS}_group_completed_rebalance_count",
        "Rebalances that ended with an assignment",
        value=figures.rebalances,
    )
    yield UnknownMetricFamily(
        f"{_GROUP_METRICS}_offset_commit_count", "Offsets committed", value=figures.offset_commits
    )
    yield from _shard_families(_GROUP_METRICS, figures.shards)


def transaction_families(figures: TransactionFigures) -> Iterator[Metric]:
    """Tell of transactional ids by state, and of how transactions ended."""
    ids = GaugeMetricFamily(
        "moldau_transactional_ids", "Transactional ids coordinated here", labels=["state"]
    )
    for state, number in figures.ids.items():
        ids.add_metric([state], number)
    yield ids
    ended = CounterMetricFamily("moldau_transactions", "Transactions ended", labels=["result"])
    ended.add_metric(["commit"], figures.committed)
    ended.add_metric(["abort"], figures.aborted)
    yield ended
    yield CounterMetricFamily(
        "moldau_transactions_timed_out",
        "Transactions aborted because they took too long",
        value=figures.timed_out,
    )
    yield from _shard_families(_TRANSACTION_METRICS, figures.shards)


def internal_topic_families(*topics: ShardFigures) -> Iterator[Metric]:
    """Tell what went wrong in the shards of each internal topic; on Kafka nothing counts it."""
    skipped = CounterMetricFamily(
        "moldau_internal_records_skipped",
        "Records of an internal topic that could not be read when it was loaded",
        labels=["topic"],
    )
    failed = CounterMetricFamily(
        "moldau_coordinator_requests_failed",
        "Requests that a coordinator refused because of a bug",
        labels=["topic"],
    )
    for shards in topics:
        skipped.add_metric([shards.topic], shards.skipped_records)
        failed.add_metric([shards.topic], shards.failed_requests)
    yield skipped
    yield failed


def _shard_families(prefix: str, shards: ShardFigures) -> Iterator[Metric]:
    partitions = GaugeMetricFamily(
        f"{prefix}_num_partitions", "Partitions coordinated here", labels=["state"]
    )
    for state in ("active", "loading", "failed"):
        partitions.add_metric([state], getattr(shards, state))
    yield partitions
    yield GaugeMetricFamily(
        f"{prefix}_partition_load_time_max",
        "Milliseconds that the slowest partition took to load",
        value=shards.load_max_s * 1000,
    )
    average_s = shards.load_total_s / shards.load_count if shards.load_count else 0.0
    yield GaugeMetricFamily(
        f"{prefix}_partition_load_time_avg",
        "Milliseconds that a partition took to load",
        value=average_s * 1000,
    )
