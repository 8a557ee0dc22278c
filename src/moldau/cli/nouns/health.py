"""The report of `moldau cluster health`: every partition that is not as it should be."""

from __future__ import annotations

from typing import Any

from moldau.cli.frame import client
from moldau.cli.frame.report import BAD, GOOD, Column, Report, View
from moldau.cli.nouns.cluster_view import ask_brokers, check_leader
from moldau.cli.operations.configs import MIN_ISR, configs_of_topics, min_isr_of

UNWELL = 1
"""The status of a cluster that needs somebody."""

SUMMARY = (
    Column("healthy", "HEALTHY", style=lambda healthy: GOOD if healthy else BAD),
    Column("controller", "CONTROLLER"),
    Column("broker_count", "BROKERS"),
    Column("partition_count", "PARTITIONS"),
    Column("leaderless", "LEADERLESS"),
    Column("under_min_isr", "UNDER MIN ISR"),
    Column("under_replicated", "UNDER REPLICATED"),
)
TROUBLES = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("trouble", "TROUBLE", style=lambda _: BAD),
    Column("leader", "LEADER"),
    Column("replicas", "REPLICAS"),
    Column("isr", "ISR"),
)
KINDS = ("leaderless", "under_min_isr", "under_replicated")
"""The troubles, the worst first; a partition is counted by its worst."""


async def health_report(admin: client.AsyncAdmin) -> Report:
    """Look at who leads the metadata, and at every partition."""
    told = await ask_brokers(admin)
    configs = await configs_of_topics(admin, [topic.name for topic in told.topics], [MIN_ISR])
    cluster, topics, _, _, quorum_problem = await check_leader(admin, told)
    rows = []
    for topic in topics:
        min_isr = min_isr_of(configs.ok.get(topic.name, {}))
        rows += [
            _row(topic.name, partition, trouble)
            for partition in topic.partitions
            if (trouble := trouble_of(partition, min_isr)) is not None
        ]
    counts = {kind: sum(row["trouble"] == kind for row in rows) for kind in KINDS}
    healthy = not rows and cluster.controller_id is not None
    summary: dict[str, Any] = {
        "healthy": healthy,
        "controller": cluster.controller_id,
        "broker_count": len(cluster.brokers),
        "partition_count": sum(len(topic.partitions) for topic in topics),
        **counts,
        "quorum_problem": quorum_problem,
    }
    main = View(SUMMARY, [summary])
    views = (main, View(TROUBLES, rows)) if rows else (main,)
    status = 0 if healthy else UNWELL
    data = {**summary, "troubles": rows}
    return Report(data, main, "healthy", views, status=status, note=quorum_problem)


def trouble_of(partition: client.PartitionDescription, min_isr: int) -> str | None:
    """Name the worst that is wrong with a partition."""
    if partition.leader is None:
        return "leaderless"
    # A topic with fewer replicas than the minimum was made so: what it lacks is not a failure.
    if len(partition.isr) < min(min_isr, len(partition.replicas)):
        return "under_min_isr"
    if len(partition.isr) < len(partition.replicas):
        return "under_replicated"
    return None


def _row(topic: str, told: client.PartitionDescription, trouble: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": told.partition,
        "trouble": trouble,
        "leader": told.leader,
        "replicas": list(told.replicas),
        "isr": list(told.isr),
    }
