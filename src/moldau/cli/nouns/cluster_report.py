"""The report of `moldau cluster status`: brokers, controller, quorum, lacking replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.frame import client
from moldau.cli.frame.report import BAD, DOUBTFUL, Column, Report, View
from moldau.cli.nouns.broker import rows_of
from moldau.cli.nouns.cluster_view import ask_brokers, check_leader
from moldau.cli.nouns.quorum_report import PROGRESS, ROLE, Quorum, quorum_data

SUMMARY = (
    Column("cluster_id", "CLUSTER"),
    Column("controller", "CONTROLLER"),
    Column("broker_count", "BROKERS"),
    Column("topic_count", "TOPICS"),
    Column("partition_count", "PARTITIONS"),
    Column(
        "under_replicated_count", "UNDER REPLICATED", style=lambda count: BAD if count else None
    ),
)
HELD = (
    Column("controller", "CONTROLLER"),
    Column("leaders", "LEADERS"),
    Column("replicas", "REPLICAS"),
    Column("out_of_sync", "OUT OF SYNC", style=lambda count: BAD if count else None),
)
BROKERS = (
    Column("id", "BROKER"),
    Column("host", "HOST"),
    Column("port", "PORT"),
    Column("rack", "RACK"),
    *HELD,
)
UNDER_REPLICATED = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("leader", "LEADER"),
    Column("replicas", "REPLICAS"),
    Column("isr", "ISR", style=lambda _: DOUBTFUL),
)
QUORUM = (
    Column("leader", "QUORUM LEADER"),
    Column("leader_epoch", "EPOCH"),
    Column("high_watermark", "HIGH WATERMARK"),
)
VOTERS = (Column("node", "VOTER"), ROLE, *PROGRESS)

Status = dict[str, Any]
"""What a cluster tells of itself; `brokers` and `under_replicated` are rows of tables.

`quorum` is None where nobody but one node could lead, `quorum_problem` says why it is not known.
"""


async def ask_status(admin: client.AsyncAdmin) -> Status:
    """Ask a cluster for its brokers, its controller and the state of its partitions."""
    view = await check_leader(admin, await ask_brokers(admin))
    described, topics = view.cluster, view.topics
    lacking = [
        _partition_row(topic.name, one)
        for topic in topics
        for one in topic.partitions
        if len(one.isr) < len(one.replicas)
    ]
    return {
        "cluster_id": described.cluster_id,
        "controller": described.controller_id,
        "broker_count": len(described.brokers),
        "topic_count": len(topics),
        "partition_count": sum(len(topic.partitions) for topic in topics),
        "under_replicated_count": len(lacking),
        "brokers": [_broker_row(row) for row in rows_of(described, topics)],
        "under_replicated": lacking,
        "quorum": _quorum_of_several(view.quorum),
        "quorum_problem": view.quorum_problem,
    }


def _quorum_of_several(quorum: client.MetadataQuorum | None) -> Quorum | None:
    return None if quorum is None or len(quorum.voters) == 1 else quorum_data(quorum)


def report_of(status: Status, broker_columns: Sequence[Column]) -> Report:
    """Show a status, its brokers in the columns that fit what is known of them."""
    main = View(SUMMARY, [status])
    lacking, quorum = status["under_replicated"], status["quorum"]
    views = [main, View(broker_columns, status["brokers"])]
    if quorum is not None:
        views += [View(QUORUM, [quorum]), View(VOTERS, quorum["voters"])]
    if lacking:
        views.append(View(UNDER_REPLICATED, lacking))
    return Report(status, main, "cluster_id", views, note=status["quorum_problem"])


def _broker_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": row["broker"], **{key: row[key] for key in row if key != "broker"}}


def _partition_row(topic: str, told: client.PartitionDescription) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": told.partition,
        "leader": told.leader,
        "replicas": list(told.replicas),
        "isr": list(told.isr),
    }
