"""A broker's settings: Kafka's files start it unchanged, and what is wrong is said in one line."""

import pytest

from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings, host_limits
from moldau.server.configuration.topic_configs import log_config, log_defaults
from moldau.storage.topic_config import LogConfig

KAFKA_4 = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""What Kafka's own config/server.properties sets."""

KAFKA_1 = """
broker.id=0
num.network.threads=3
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=6000
group.initial.rebalance.delay.ms=0
inter.broker.protocol.version=1.1
log.message.format.version=1.1
port=9092
"""


def load(text=None, /, **overrides):
    return BrokerSettings.load(text, {key.replace("_", "."): v for key, v in overrides.items()})


def refusal(text=None, overrides=None, environ=None, **arguments):
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(text, overrides or {}, environ or {}, **arguments)
    return str(caught.value)


class TestKafkasFiles:
    def test_kafka_4s_own_file_starts_one_broker(self):
        settings = BrokerSettings.load(KAFKA_4)
        (endpoint,) = settings.endpoints
        assert (endpoint.name, endpoint.host, endpoint.port) == ("PLAINTEXT", "", 9092)
        assert (endpoint.advertised_host, endpoint.advertised_port) == ("localhost", 9092)
        assert settings.node_id == 1
        assert settings.log_dirs == ("/tmp/kraft-combined-logs",)
        assert settings.warnings == (
            (
                "accepted without effect: num.io.threads, num.network.threads, "
                "num.recovery.threads.per.data.dir, share.coordinator.state.topic.min.isr, "
                "share.coordinator.state.topic.replication.factor"
            ),
        )
        (controller,) = settings.listeners.controller
        assert (controller.name, controller.port) == ("CONTROLLER", 9093)
        assert settings.quorum.kind is NodeKind.VOTER

    def test_a_file_of_the_zookeeper_age_is_taken_as_it_is(self):
        settings = BrokerSettings.load(KAFKA_1)
        assert settings.quorum.kind is NodeKind.ELECTED
        assert settings.quorum.zookeeper == parse_connect_string("localhost:2181")
        assert settings.node_id == 0
        assert settings.values.integer("node.id") == 0
        replaced, line = settings.warnings
        assert replaced.startswith("port was removed in Kafka 3.0; use listeners (set by line ")
        assert line.startswith("accepted without effect: ")
        assert "log.message.format.version" in line
        assert "zookeeper.connect" not in line

    def test_what_is_kept_in_zookeeper_has_no_roles(self):
        """It would be a broker that stands alone, and ignores its cluster."""
        told = refusal("broker.id=1\nzookeeper.connect=zk\nprocess.roles=broker,controller\n")
        assert "zookeeper.connect and process.roles are both set" in told

    @pytest.mark.parametrize("connect", ["", " ", "/kafka"])
    def test_an_empty_zookeeper_connect_starts_no_broker_that_is_alone(self, connect):
        told = refusal(f"broker.id=1\nzookeeper.connect={connect}\n")
        assert "names no host" in told
        assert "line 2" in told

    def test_without_any_setting_kafkas_defaults_stand(self):
        settings = BrokerSettings.load(None)
        assert settings.log_dirs == ("/tmp/kafka-logs",)
        assert settings.endpoints[0].port == 9092
        assert settings.num_partitions == 1
        assert settings.fetch_max_bytes == 57671680
        assert settings.auto_create_topics_enable is True
        assert settings.metadata_log_dir is None
        assert host_limits(settings.values) == {}
        assert settings.metrics_listen is None
        assert settings.warnings == ()

    def test_what_logs_are_told_without_any_setting_is_kafkas_default(self):
        assert log_config({}, log_defaults(BrokerSettings.load(None).values)) == LogConfig()


class TestValues:
    def test_typed_values_come_from_every_source(self):
        settings = BrokerSettings.load(
            "num.partitions=3\nmoldau.metrics.listen=[::1]:9404",
            {"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7"},
            {"KAFKA_BROKER_RACK": "r1"},
            defaults={"log.dirs": "a, b"},
        )
        assert settings.num_partitions == 3
        assert settings.metrics_listen == Address("::1", 9404)
        assert host_limits(settings.values) == {"10.0.0.1": 5, "::1": 7}
        assert settings.rack == "r1"
        assert settings.log_dirs == ("a", "b")

    @pytest.mark.parametrize(
        ("text", "retention_ms"),
        [
            ("log.retention.hours=2", 7_200_000),
            ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
            ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
            ("log.retention.hours=-1", -1),
            ("log.retention.ms=-5", -1),
        ],
    )
    def test_the_more_exact_name_counts(self, text, retention_ms):
        values = BrokerSettings.load(text).values
        assert log_config({}, log_defaults(values)).retention_ms == retention_ms

    def test_a_topics_own_value_counts_before_the_brokers(self):
        values = load("log.retention.ms=1\nlog.roll.hours=2\nlog.segment.bytes=107370").values
        config = log_config({"retention.ms": "9", "segment.bytes": "1000"}, log_defaults(values))
        assert config.retention_ms == 9
        assert config.segment_bytes == 1000
        assert config.segment_ms == 7_200_000

    def test_flush_ms_falls_back_to_the_scheduler(self):
        values = load("log.flush.scheduler.interval.ms=500").values
        assert log_config({}, log_defaults(values)).flush_ms == 500


class TestRefusals:
    def test_a_malformed_value_is_named_with_its_place(self):
        assert refusal("\nnum.partitions=many") == (
            "Invalid value many for configuration num.partitions: Not a number of type INT "
            "(set by line 2 of the file)"
        )
        assert refusal(None, {"num.partitions": "0"}).endswith("at least 1 (set by an option)")
        assert refusal(None, {}, {"KAFKA_NUM_PARTITIONS": ""}).endswith(
            "(set by environment variable KAFKA_NUM_PARTITIONS)"
        )

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("node.id=1\nbroker.id=2", "node.id and broker.id are both set and differ (set by"),
            ("process.roles=controller", "listeners: PLAINTEXT is not among controller.listener"),
            ("process.roles=", "process.roles must name broker, controller or both"),
            ("process.roles=broker,zookeeper", "String must be one of: broker, controller"),
            ("log.retention.ms=0", "must be unlimited (-1) or at least 1"),
            ("log.dirs=a,,b", "log.dirs: at least one directory must be named"),
            ("log.dirs=", "log.dirs: at least one directory must be named"),
            ("max.connections.per.ip.overrides=host", "'host' is not HOST:COUNT"),
            ("queued.max.request.bytes=1", "must be at least socket.request.max.bytes"),
            ("replica.lag.time.max.ms=1", "replica.fetch.wait.max.ms must not exceed"),
            ("broker.session.timeout.ms=0", "Value must be at least 1 (set by line 1"),
            ("broker.heartbeat.interval.ms=0", "Value must be at least 1 (set by line 1"),
            (
                "broker.heartbeat.interval.ms=9001",
                "broker.heartbeat.interval.ms=9001: must not exceed broker.session.timeout.ms",
            ),
            ("log.dirs=a,b\ncordoned.log.dirs=b,c", "or log.dir. Missing entries : c (set by"),
            ("log.dirs=a,b\ncordoned.log.dirs=*,a", "it must not contain other values (set by"),
            ("listeners=9092", "listeners: '9092' is not of the form NAME://HOST:PORT (set by"),
            ("listeners=SSL://:9093", "asks for SSL, which this version does not serve"),
            ("moldau.metrics.listen=9404", "Expected HOST:PORT"),
            ("moldau.metrics.listen=h:99999", "Expected HOST:PORT"),
            ("remote.log.storage.system.enable=true", "Tiered storage is not part"),
            ("authorizer.class.name=a.B", "a broker that ignored it would be open to all"),
            ("create.topic.policy.class.name=a.B", "would not keep its rules"),
        ],
    )
    def test_what_cannot_be_is_refused(self, text, problem):
        assert problem in refusal(text)

    def test_sessions_that_one_lost_heartbeat_ends_are_warned_of(self):
        found = BrokerSettings.load("broker.heartbeat.interval.ms=4501").warnings
        assert [line for line in found if "half of the broker.session.timeout.ms (9000 ms)" in line]
        assert not BrokerSettings.load("broker.heartbeat.interval.ms=4500").warnings

    def test_a_broker_alone_need_not_know_how_long_sessions_last(self):
        """They are the controller's; Kafka warns of it as well."""
        observer = (
            "process.roles=broker\nnode.id=2\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.voters=1@host:9093\nbroker.heartbeat.interval.ms=20000"
        )
        (line,) = BrokerSettings.load(observer).warnings
        assert line.startswith("broker.heartbeat.interval.ms (20000 ms) must be")

    @pytest.mark.parametrize(
        ("text", "limit"),
        [
            ("", 256 << 20),
            ("queued.max.request.bytes=200000000", 200_000_000),
            ("socket.request.max.bytes=300000000", 300_000_000),
            ("queued.max.request.bytes=-1", None),
        ],
    )
    def test_the_memory_of_requests_is_limited_and_has_room_for_the_largest(self, text, limit):
        budget = BrokerSettings.load(text).memory_budget()
        assert (budget.limit if budget.is_limited else None) == limit

    def test_a_secret_is_shown_neither_by_repr_nor_by_an_error(self):
        settings = BrokerSettings.load(
            "ssl.key.password=sesame\nlistener.name.x.sasl.jaas.config=sesame\nmy.key=sesame"
        )
        assert "ssl.key.password=[hidden]" in repr(settings)
        assert "sesame" not in repr(settings) + "".join(settings.warnings)


class TestUnknownKeys:
    def test_they_are_warned_of_with_the_nearest_known_name(self):
        assert BrokerSettings.load("log.retention.hour=1\nnothing.like.it=1").warnings == (
            (
                "unknown config log.retention.hour (set by line 1 of the file); "
                "did you mean log.retention.hours?"
            ),
            "unknown config nothing.like.it (set by line 2 of the file)",
        )

    def test_they_are_refused_when_strict(self):
        assert refusal("log.retention.hour=1", strict=True).startswith(
            "unknown config log.retention.hour"
        )

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            ("replica.lag.max.messages", "was removed in Kafka 0.9; use replica.lag.time.max.ms"),
            ("advertised.host.name", "was removed in Kafka 3.0; use advertised.listeners"),
            ("log.cleanup.interval.mins", "; use log.retention.check.interval.ms"),
            ("delegation.token.master.key", "; use delegation.token.secret.key"),
        ],
    )
    def test_what_took_the_place_of_a_removed_one_is_said(self, key, text):
        (line,) = BrokerSettings.load(f"{key}=4000", strict=True).warnings
        assert line.startswith(f"{key} was removed in Kafka ")
        assert line.endswith(f"{text} (set by line 1 of the file)")

    def test_keys_that_kafka_leaves_to_plug_ins_are_known(self):
        text = "listener.name.x.ssl.keystore.location=a\nrsm.config.x=1"
        (line,) = BrokerSettings.load(text, strict=True).warnings
        assert line.startswith("accepted without effect: ")
