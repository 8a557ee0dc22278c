"""Whether a cluster is well: the worst of each partition, and the status that scripts read."""

from __future__ import annotations

import asyncio

import pytest

from moldau.cli.nouns.health import health_report, trouble_of
from moldau.client.admin import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    PartitionDescription,
    Results,
    TopicDescription,
)
from moldau.client.errors import NotLeaderOrFollower, UnsupportedVersion


def partition(number=0, leader=1, replicas=(1, 2, 3), isr=(1, 2, 3)):
    return PartitionDescription(number, leader, 0, replicas, isr)


@pytest.mark.parametrize(
    ("told", "min_isr", "trouble"),
    [
        (partition(), 2, None),
        (partition(leader=None), 2, "leaderless"),
        (partition(isr=(1,)), 2, "under_min_isr"),
        (partition(isr=(1, 2)), 2, "under_replicated"),
        (partition(replicas=(1,), isr=(1,)), 2, None),
        (partition(leader=None, isr=()), 1, "leaderless"),
    ],
)
def test_the_worst_of_a_partition_is_named(told, min_isr, trouble):
    assert trouble_of(told, min_isr) == trouble


class Told:
    """An admin that tells of one topic."""

    def __init__(self, *partitions, controller=1, quorum_error=None):
        self._topic = TopicDescription("orders", None, False, partitions)
        self._controller = controller
        self._quorum_error = quorum_error or UnsupportedVersion("the metadata is in ZooKeeper")

    async def describe_metadata_quorum(self, *, timeout_ms):
        raise self._quorum_error

    async def describe_api_versions(self, brokers, *, timeout_ms):
        return Results({one: {} for one in brokers}, {})

    async def describe_cluster(self):
        return ClusterDescription("c", self._controller, (BrokerDescription(1, "h", 1),))

    async def list_topics(self, *, include_internal):
        assert include_internal
        return {"orders": None}

    async def describe_topics(self, names):
        return Results(dict.fromkeys(names, self._topic), {})

    async def describe_configs(self, resources, names):
        entry = ConfigEntry(names[0], "2", ConfigSource.TOPIC, False, False)
        assert list(resources) == [ConfigResource.topic("orders")]
        return Results({one: {entry.name: entry} for one in resources}, {})


def test_a_cluster_that_is_well_ends_with_zero():
    report = asyncio.run(health_report(Told(partition(0), partition(1))))
    assert (report.status, report.data["healthy"], len(report.views)) == (0, True, 1)


def test_what_is_not_well_is_counted_listed_and_ends_with_one():
    troubled = Told(partition(0, leader=None), partition(1, isr=(1,)), partition(2, isr=(1, 2)))
    report = asyncio.run(health_report(troubled))
    assert report.status == 1
    assert report.data["healthy"] is False
    assert [row["trouble"] for row in report.data["troubles"]] == [
        "leaderless",
        "under_min_isr",
        "under_replicated",
    ]
    counts = [report.data[one] for one in ("leaderless", "under_min_isr", "under_replicated")]
    assert counts == [1, 1, 1]


def test_a_cluster_without_a_controller_is_not_well():
    assert asyncio.run(health_report(Told(partition(), controller=None))).status == 1


def test_a_cluster_whose_metadata_nobody_leads_is_not_well():
    nobody_leads = NotLeaderOrFollower("node 1 does not lead")
    report = asyncio.run(health_report(Told(partition(isr=(1,)), quorum_error=nobody_leads)))
    assert (report.status, report.data["healthy"], report.data["controller"]) == (1, False, None)
    assert report.note is not None
    assert report.note.endswith("nobody leads it: node 1 does not lead")
    assert report.data["quorum_problem"] == report.note
