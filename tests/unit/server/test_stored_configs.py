"""Configs of groups and of subscriptions to metrics: stored, described, and checked as in Kafka."""

import pytest

from kits.metadata_samples import with_brokers
from moldau.base.ids import BrokerId
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.configs import alter_configs
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.group_configs import GROUP_CONFIGS
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.values import Source

GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")
SET, DELETE, APPEND, SUBTRACT = range(4)


class Cluster:
    """One broker whose metadata takes what it checked."""

    def __init__(self, text=""):
        self.image = with_brokers([1])
        settings = BrokerSettings.load(f"node.id=1\n{text}")
        self.configs = DynamicConfigs(settings, lambda: self.image, BrokerId(1))

    def alter(self, resource, *operations):
        changes = self.configs.altered(
            self.image, resource, [ConfigOperation(*one) for one in operations]
        )
        committed = alter_configs(self.image, resource, changes)
        self.image = self.image.apply(committed, self.image.version + 1)

    def told(self, resource, name):
        (found,) = self.configs.describe(resource, [name])
        return found

    def refusal(self, resource, *operations):
        with pytest.raises(ApiError) as caught:
            self.alter(resource, *operations)
        return caught.value.code


@pytest.fixture
def cluster():
    return Cluster()


def test_a_group_has_kafkas_configs_and_defaults(cluster):
    found = {one.name: one.value for one in cluster.configs.describe(GROUP, None)}
    assert found == {
        "consumer.assignment.interval.ms": "1000",
        "consumer.heartbeat.interval.ms": "5000",
        "consumer.session.timeout.ms": "45000",
        "share.assignment.interval.ms": "1000",
        "share.auto.offset.reset": "latest",
        "share.delivery.count.limit": "5",
        "share.heartbeat.interval.ms": "5000",
        "share.isolation.level": "read_uncommitted",
        "share.partition.max.record.locks": "2000",
        "share.record.lock.duration.ms": "30000",
        "share.renew.acknowledge.enable": "true",
        "share.session.timeout.ms": "45000",
        "streams.assignment.interval.ms": "1000",
        "streams.heartbeat.interval.ms": "5000",
        "streams.initial.rebalance.delay.ms": "3000",
        "streams.num.standby.replicas": "0",
        "streams.session.timeout.ms": "45000",
    }
    assert set(found) == set(GROUP_CONFIGS)


def test_a_groups_own_config_comes_before_the_brokers():
    cluster = Cluster("group.consumer.session.timeout.ms=46000")
    name = "consumer.session.timeout.ms"
    assert cluster.told(GROUP, name).source is Source.STATIC_BROKER
    cluster.alter(GROUP, (name, SET, "50000"))
    told = cluster.told(GROUP, name)
    assert (told.value, told.source) == ("50000", Source.GROUP)
    assert [(one.name, one.text, one.source) for one in told.synonyms] == [
        (name, "50000", Source.GROUP),
        (f"group.{name}", "46000", Source.STATIC_BROKER),
        (f"group.{name}", "45000", Source.DEFAULT),
    ]
    cluster.alter(GROUP, (name, DELETE, None))
    assert cluster.told(GROUP, name).value == "46000"
    assert GROUP not in cluster.image.configs, "nothing of it is left"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.session.timeout.ms", "1"),
        ("consumer.session.timeout.ms", "99999999"),
        ("consumer.session.timeout.ms", "soon"),
        ("consumer.heartbeat.interval.ms", "60000"),
        ("share.delivery.count.limit", "1000"),
        ("share.auto.offset.reset", "nope"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.isolation.level", "read"),
        ("streams.num.standby.replicas", "3"),
        ("nope", "1"),
    ],
)
def test_a_group_config_is_checked_as_in_kafka(cluster, name, value):
    assert cluster.refusal(GROUP, (name, SET, value)) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "value", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2.5S"]
)
def test_a_share_group_begins_at_an_end_or_some_time_ago(cluster, value):
    cluster.alter(GROUP, ("share.auto.offset.reset", SET, value))
    assert cluster.told(GROUP, "share.auto.offset.reset").value == value


def test_a_session_outlasts_its_heartbeats():
    """The broker's bounds may overlap; the two values must not."""
    text = "group.consumer.max.heartbeat.interval.ms=50000"
    refused = Cluster(text).refusal(GROUP, ("consumer.heartbeat.interval.ms", SET, "45000"))
    assert refused is ErrorCode.INVALID_CONFIG


def test_a_subscription_is_stored_and_described(cluster):
    assert cluster.told(METRICS, "interval.ms").value == "300000"
    assert cluster.told(METRICS, "match").synonyms == []
    cluster.alter(METRICS, ("interval.ms", SET, "1000"), ("match", SET, "client_id=a.*"))
    told = cluster.told(METRICS, "interval.ms")
    assert (told.value, told.source) == ("1000", Source.CLIENT_METRICS)
    assert cluster.told(METRICS, "match").value == "client_id=a.*"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("interval.ms", "1", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "99999999999", ErrorCode.INVALID_CONFIG),
        ("match", "nope=a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[", ErrorCode.INVALID_CONFIG),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=" + "(" * 2000, ErrorCode.INVALID_CONFIG),
        ("nope", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_subscription_is_checked_as_in_kafka(cluster, name, value, code):
    assert cluster.refusal(METRICS, (name, SET, value)) is code


def test_neither_has_lists_to_append_to_nor_a_default_for_all(cluster):
    refused = ErrorCode.INVALID_CONFIG
    assert cluster.refusal(METRICS, ("metrics", APPEND, "y")) is refused
    assert cluster.refusal(GROUP, ("consumer.session.timeout.ms", SUBTRACT, "1")) is refused
    for kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        nameless = ConfigResource(kind, "")
        assert cluster.refusal(nameless, ("x", SET, "1")) is ErrorCode.INVALID_REQUEST
        with pytest.raises(ApiError):
            cluster.configs.describe(nameless, None)
