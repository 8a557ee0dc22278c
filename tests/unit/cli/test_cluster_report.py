"""What a cluster tells of itself: brokers, controller, quorum, under-replicated partitions."""

from __future__ import annotations

import asyncio

from moldau.cli.nouns.cluster_report import BROKERS, ask_status, report_of
from moldau.cli.nouns.zookeeper_status import status_with_zookeeper
from moldau.client.admin import (
    BrokerDescription,
    ClusterDescription,
    MetadataQuorum,
    PartitionDescription,
    QuorumReplica,
    Results,
    TopicDescription,
)
from moldau.client.errors import ClusterAuthorizationFailed, NotLeaderOrFollower, UnsupportedVersion


class Told:
    """An admin that tells of two brokers, one topic, and a quorum if it is given one."""

    def __init__(self, *partitions, quorum=None, running=(1, 2)):
        self._topic = TopicDescription("orders", None, False, partitions)
        self._quorum = quorum or UnsupportedVersion("the metadata is in ZooKeeper")
        self._running = running

    async def describe_metadata_quorum(self, *, timeout_ms):
        if isinstance(self._quorum, Exception):
            raise self._quorum
        return self._quorum

    async def describe_api_versions(self, brokers, *, timeout_ms):
        assert timeout_ms < 10_000  # brokers that are gone hold nobody up for long
        away = {one: NotLeaderOrFollower("refused") for one in brokers if one not in self._running}
        return Results({one: {} for one in brokers if one not in away}, away)

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
        "quorum": None,
        "quorum_problem": None,
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


def status_with(quorum):
    return report_of(asyncio.run(ask_status(Told(quorum=quorum))), BROKERS)


def test_the_voters_of_a_quorum_are_shown_with_what_they_lack():
    voters = (QuorumReplica(1, None, 10, 5, 5), QuorumReplica(2, None, None, None, None))
    report = status_with(MetadataQuorum(1, 7, 9, voters, ()))
    _, _, quorum, shown = report.views
    assert [(row["leader"], row["leader_epoch"]) for row in quorum.rows] == [(1, 7)]
    assert [(row["node"], row["role"], row["lag"]) for row in shown.rows] == [
        (1, "leader", 0),
        (2, "voter", None),
    ]
    assert report.data["quorum"]["voters"] == shown.rows


def test_a_voter_that_is_alone_is_no_quorum():
    report = status_with(MetadataQuorum(1, 7, 9, (QuorumReplica(1, None, 10, 5, 5),), ()))
    assert (len(report.views), report.data["quorum"], report.note) == (2, None, None)


def test_it_is_said_that_nobody_leads_the_quorum():
    report = status_with(NotLeaderOrFollower("node 1 does not lead"))
    assert report.data["quorum"] is None
    assert report.note is not None
    assert report.note.endswith("nobody leads it: node 1 does not lead")


def test_without_a_leader_only_what_runs_is_shown():
    partitions = (
        PartitionDescription(0, 1, 0, (1, 2), (1, 2)),
        PartitionDescription(1, 2, 0, (2, 1), (2, 1)),
    )
    nobody_leads = NotLeaderOrFollower("node 1 does not lead")
    told = Told(*partitions, quorum=nobody_leads, running=(2,))
    data = report_of(asyncio.run(ask_status(told)), BROKERS).data
    assert (data["controller"], data["broker_count"]) == (None, 1)
    assert [(row["id"], row["controller"]) for row in data["brokers"]] == [(2, False)]
    lacking = [(row["partition"], row["leader"], row["isr"]) for row in data["under_replicated"]]
    assert lacking == [(0, None, [2]), (1, 2, [2])]


def test_who_may_not_ask_for_the_quorum_is_told_what_brokers_say():
    data = status_with(ClusterAuthorizationFailed("no right to ask")).data
    assert (data["controller"], data["broker_count"]) == (1, 2)


def test_the_leader_of_the_quorum_is_the_controller():
    voters = (QuorumReplica(1, None, 10, 5, 5), QuorumReplica(2, None, 10, 5, 5))
    assert status_with(MetadataQuorum(2, 7, 9, voters, ())).data["controller"] == 2


def test_a_lost_quorum_has_no_zookeeper_that_brokers_could_name():
    nobody_leads = NotLeaderOrFollower("node 1 does not lead")
    report = asyncio.run(status_with_zookeeper(Told(quorum=nobody_leads, running=(2,)), None))
    assert (report.data["controller"], report.data["zookeeper"]) == (None, None)
