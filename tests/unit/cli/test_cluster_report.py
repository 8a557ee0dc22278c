"""What a cluster tells of itself: brokers, controller, under-replicated partitions."""

from __future__ import annotations

import asyncio

from moldau.cli.nouns.cluster_report import BROKERS, ask_status, report_of
from moldau.client.admin import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    Results,
    TopicDescription,
)


class Told:
    """An admin that tells of two brokers and one topic."""

    def __init__(self, *partitions):
        self._topic = TopicDescription("orders", None, False, partitions)

    async def describe_cluster(self):
        brokers = (BrokerDescription(1, "h", 9092), BrokerDescription(2, "h", 9093))
        return ClusterDescription("c", 1, brokers)

    async def list_topics(self, *, include_internal):
        assert include_internal
        return {"orders": None}

    async def describe_topics(self, names):
        return Results(dict.fromkeys(names, self._topic), {})


def test_brokers_and_what_they_hold_are_told():
    whole = PartitionDescription(0, 2, 0, (1, 2), (1, 2))
    report = report_of(asyncio.run(ask_status(Told(whole))), BROKERS)
    assert report.data == {
        "cluster_id": "c",
        "controller": 1,
        "broker_count": 2,
        "topic_count": 1,
        "partition_count": 1,
        "under_replicated_count": 0,
        "brokers": [
            {"id": 1, "host": "h", "port": 9092, "rack": None, "controller": True,
             "leaders": 0, "replicas": 1, "out_of_sync": 0},
            {"id": 2, "host": "h", "port": 9093, "rack": None, "controller": False,
             "leaders": 1, "replicas": 1, "out_of_sync": 0},
        ],
        "under_replicated": [],
    }  # fmt: skip
    assert len(report.views) == 2


def test_partitions_that_lack_replicas_are_listed():
    lacking, leaderless = (
        PartitionDescription(1, 2, 0, (1, 2), (2,)),
        PartitionDescription(2, None, 0, (1, 2), ()),
    )
    report = report_of(asyncio.run(ask_status(Told(lacking, leaderless))), BROKERS)
    assert report.data["under_replicated_count"] == 2
    assert [(row["partition"], row["leader"], row["isr"]) for row in report.views[2].rows] == [
        (1, 2, [2]),
        (2, None, []),
    ]
