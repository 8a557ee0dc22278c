"""The report of `moldau topic describe`: a topic, its changed configs, its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import BAD, Column, Report, View
from moldau.cli.frame.selection import led_partitions
from moldau.cli.operations.configs import configs_of_topics, own_entries, resource_of
from moldau.cli.operations.positions import Ends, ends_of
from moldau.client.records import TopicPartition

SUMMARY = (
    Column("name", "NAME"),
    Column("partition_count", "PARTITIONS"),
    Column("replication_factor", "REPLICAS"),
    Column("internal", "INTERNAL"),
    Column("topic_id", "ID"),
)
CONFIGS = (Column("config", "CONFIG"), Column("value", "VALUE"))
PARTITIONS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("leader", "LEADER", style=lambda leader: BAD if leader is None else None),
    Column("leader_epoch", "EPOCH", wide=True),
    Column("replicas", "REPLICAS"),
    Column("isr", "ISR"),
    Column("offline_replicas", "OFFLINE", wide=True),
    Column("earliest", "EARLIEST"),
    Column("latest", "LATEST"),
)


async def topics_report(admin: client.AsyncAdmin, names: Sequence[str]) -> Report:
    """Describe topics; what cannot be described is an error of the report."""
    described = await admin.describe_topics(names)
    ends = await ends_of(admin, led_partitions(described))
    configs = await configs_of_topics(admin, map(str, described.ok))
    data, views, rows = [], [], []
    for topic in described.ok.values():
        own = own_entries(resource_of("topic", topic.name), configs.ok.get(topic.name, {}))
        changed = {one.name: one.value for one in own}
        partitions = [_partition(topic.name, one, ends) for one in topic.partitions]
        summary = _summary(topic)
        data.append({**summary, "configs": changed, "partitions": partitions})
        views += [View(SUMMARY, [summary])]
        if changed:
            views.append(View(CONFIGS, [{"config": k, "value": v} for k, v in changed.items()]))
        views.append(View(PARTITIONS, partitions))
        rows += partitions
    errors = [about(name, error) for name, error in described.errors.items()]
    return Report(data, View(PARTITIONS, rows), "topic", views, errors)


def _summary(topic: client.TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": None if topic.topic_id is None else uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(one.replicas) for one in topic.partitions), default=0),
    }


def _partition(
    topic: str, told: client.PartitionDescription, ends: dict[TopicPartition, Ends]
) -> dict[str, Any]:
    found = ends.get(TopicPartition(topic, told.partition))
    return {
        "topic": topic,
        "partition": told.partition,
        "leader": told.leader,
        "leader_epoch": told.leader_epoch,
        "replicas": list(told.replicas),
        "isr": list(told.isr),
        "offline_replicas": list(told.offline_replicas),
        "earliest": found.earliest if found else None,
        "latest": found.latest if found else None,
    }
