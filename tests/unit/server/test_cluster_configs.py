"""Configs of a cluster: those that are read say so, the others say why nothing comes of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.cluster.changes import ConfigChanged, TopicRemoved
from moldau.cluster.configs import EVERY_BROKER
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.broker_configs.cluster import CLUSTER
from moldau.server.configuration.definition import Status
from moldau.server.configuration.topic_configs import TOPIC_CONFIGS
from moldau.server.parts import Parts


@pytest.mark.parametrize(
    "name",
    [
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "controller.quorum.fetch.max.bytes",
        "controller.socket.timeout.ms",
        "cordoned.log.dirs",
        "initial.broker.registration.timeout.ms",
        "leader.imbalance.check.interval.seconds",
        "log.dir.failure.timeout.ms",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "num.replica.fetchers",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replica.socket.timeout.ms",
        "unclean.leader.election.enable",
        "unclean.leader.election.interval.ms",
    ],
)
def test_what_is_read_takes_effect(name):
    assert BROKER_CONFIGS[name].status is Status.WORKS


def test_topics_decide_on_unclean_elections():
    assert TOPIC_CONFIGS["unclean.leader.election.enable"].status is Status.WORKS


def test_all_others_say_why_they_have_no_effect():
    for one in CLUSTER:
        assert one.status is Status.WORKS or one.reason


def test_another_number_of_fetchers_is_followed_while_the_broker_runs():
    sizes, values = [], SimpleNamespace(integer={"num.replica.fetchers": 4}.__getitem__)
    parts = SimpleNamespace(
        fetchers=SimpleNamespace(resize=sizes.append),
        configs=SimpleNamespace(broker_values=values),
        follow_cordons=lambda: None,
    )
    Parts.configs_changed(parts, [TopicRemoved(bytes(16))], None)
    assert sizes == []
    Parts.configs_changed(parts, [ConfigChanged(EVERY_BROKER, "num.replica.fetchers", "4")], None)
    assert sizes == [4]
