"""Configs in the metadata: what they come to, how they are described, which changes are allowed.

Most expected texts, codes and orders are those that Kafka 4.3.1 gave to the same requests; where
Moldau differs on purpose, `tests/differential/accepted.py` has the reason.
"""

import pytest

from kits.metadata_samples import with_brokers, with_topic
from moldau.base.ids import BrokerId
from moldau.cluster.changes import ConfigChanged
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.values import Source

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
EVERY = ConfigResource(ResourceType.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = range(4)


class Cluster:
    """A cluster of one broker with one topic, whose configs are changed by hand."""

    def __init__(self, text=""):
        self.image = with_topic(with_brokers([1]), NewTopic("t", 1, 1))
        settings = BrokerSettings.load(f"node.id=1\n{text}")
        self.configs = DynamicConfigs(settings, lambda: self.image, BrokerId(1))

    def store(self, resource, **configs):
        changes = [
            ConfigChanged(resource, name.replace("_", "."), value)
            for name, value in configs.items()
        ]
        self.image = self.image.apply(changes, self.image.version + 1)

    def log_config(self):
        return self.configs.topic_log_config(self.image.topic_config("t"))

    def described(self, resource, name):
        (found,) = self.configs.describe(resource, [name])
        return found

    def altered(self, resource, *operations):
        return self.configs.altered(
            self.image, resource, [ConfigOperation(*one) for one in operations]
        )

    def refusal(self, resource, *operations):
        with pytest.raises(ApiError) as caught:
            self.altered(resource, *operations)
        return caught.value.code, caught.value.message


@pytest.fixture
def cluster():
    return Cluster()


class TestInForce:
    def test_topic_before_broker_before_all_brokers_before_file_before_default(self):
        cluster = Cluster("log.retention.hours=1")
        assert cluster.log_config().retention_ms == 3_600_000
        cluster.store(EVERY, log_retention_ms="3")
        assert cluster.log_config().retention_ms == 3
        cluster.store(BROKER, log_retention_ms="2")
        assert cluster.log_config().retention_ms == 2
        cluster.store(TOPIC, retention_ms="1")
        assert cluster.log_config().retention_ms == 1

    def test_taking_a_config_back_uncovers_what_lay_under_it(self, cluster):
        cluster.store(BROKER, message_max_bytes="5")
        assert cluster.log_config().max_message_bytes == 5
        cluster.store(BROKER, message_max_bytes=None)
        assert cluster.log_config().max_message_bytes == 1048588

    def test_the_brokers_values_follow(self, cluster):
        cluster.store(EVERY, message_max_bytes="5")
        assert cluster.configs.broker_values.integer("message.max.bytes") == 5

    def test_what_another_broker_stored_and_this_one_cannot_use_is_left_out(self, cluster, caplog):
        cluster.store(TOPIC, remote_storage_enable="true", retention_ms="7", x="1")
        cluster.store(BROKER, nothing_known="1", log_retention_ms="many")
        assert cluster.log_config().retention_ms == 7
        assert cluster.described(TOPIC, "remote.storage.enable").value == "false"
        assert "Invalid value many" in caplog.text
        assert cluster.altered(TOPIC, ("retention.ms", SET, "8")) == {"retention.ms": "8"}

    def test_a_stored_broker_config_that_no_topic_may_have_is_left_out(self, cluster, caplog):
        before = cluster.log_config().segment_ms
        cluster.store(EVERY, log_roll_ms="0")
        assert cluster.log_config().segment_ms == before
        assert "Invalid value 0 for configuration segment.ms" in caplog.text

    def test_throttled_replicas_reach_the_log(self, cluster):
        cluster.store(TOPIC, leader_replication_throttled_replicas="0:1, 2:1")
        assert cluster.log_config().throttled_replicas == {
            "leader.replication.throttled.replicas": {"0:1", "2:1"}
        }


class TestDescribing:
    def test_every_topic_config_is_described_in_order(self, cluster):
        names = [one.name for one in cluster.configs.describe(TOPIC, None)]
        assert len(names) == 33
        assert names == sorted(names)
        again = [one.name for one in cluster.configs.describe(TOPIC, [])]
        assert again == names

    def test_a_value_is_told_as_java_writes_it(self, cluster):
        cluster.store(TOPIC, retention_ms=" 77 ", min_cleanable_dirty_ratio="1e-1")
        assert cluster.described(TOPIC, "retention.ms").value == "77"
        assert cluster.described(TOPIC, "min.cleanable.dirty.ratio").value == "0.1"

    def test_synonyms_stand_in_the_order_they_are_asked(self):
        cluster = Cluster("log.roll.ms=1000000")
        cluster.store(TOPIC, segment_ms="10")
        cluster.store(BROKER, log_roll_ms="20")
        cluster.store(EVERY, log_roll_ms="30")
        found = cluster.described(TOPIC, "segment.ms")
        assert found.source is Source.TOPIC
        assert found.synonyms == [
            ("segment.ms", "10", Source.TOPIC),
            ("log.roll.ms", "20", Source.DYNAMIC_BROKER),
            ("log.roll.ms", "30", Source.DYNAMIC_DEFAULT_BROKER),
            ("log.roll.ms", "1000000", Source.STATIC_BROKER),
            ("log.roll.hours", "168", Source.DEFAULT),
        ]

    @pytest.mark.parametrize(
        "name", ["retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms"]
    )
    def test_a_default_only_a_lesser_name_has_is_no_synonym(self, cluster, name):
        found = cluster.described(TOPIC, name)
        assert found.synonyms == []
        assert found.source is Source.DEFAULT

    def test_a_lesser_name_in_the_file_is_told_as_the_source(self):
        """Kafka calls this a default, although the file says otherwise."""
        found = Cluster("log.retention.hours=100").described(TOPIC, "retention.ms")
        assert found.value == "360000000"
        assert found.source is Source.STATIC_BROKER
        assert found.synonyms[0] == ("log.retention.hours", "100", Source.STATIC_BROKER)

    def test_a_brokers_description_has_every_config_but_internal_ones(self):
        found = {
            one.name: one for one in Cluster("num.io.threads=4").configs.describe(BROKER, None)
        }
        assert found["num.io.threads"].value == "4"
        assert found["num.io.threads"].source is Source.STATIC_BROKER
        assert not found["num.io.threads"].read_only
        assert found["num.partitions"].read_only
        assert found["log.retention.ms"].value is None
        assert found["broker.id"].value == "1"
        assert "unstable.api.versions.enable" not in found
        assert "zookeeper.connect" not in found

    def test_an_internal_or_earlier_config_is_described_where_it_is_set(self):
        cluster = Cluster("zookeeper.connect=z")
        assert cluster.described(BROKER, "zookeeper.connect").value == "z"

    def test_a_secret_is_not_told(self):
        found = Cluster("ssl.key.password=sesame").described(BROKER, "ssl.key.password")
        assert found.sensitive
        assert found.value is None
        assert found.synonyms == [("ssl.key.password", None, Source.STATIC_BROKER)]

    def test_all_brokers_are_described_by_what_is_set_for_them(self):
        cluster = Cluster("log.retention.ms=1")
        cluster.store(BROKER, log_retention_ms="2")
        assert list(cluster.configs.describe(EVERY, None)) == []
        cluster.store(EVERY, log_retention_ms="3")
        (found,) = cluster.configs.describe(EVERY, None)
        assert (found.name, found.value) == ("log.retention.ms", "3")
        assert found.synonyms == [("log.retention.ms", "3", Source.DYNAMIC_DEFAULT_BROKER)]

    def test_a_new_topic_is_described_with_the_configs_it_would_have(self, cluster):
        found = {one.name: one for one in cluster.configs.described("new", {"retention.ms": "5"})}
        assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", 1)
        assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == (
            "1073741824",
            5,
        )

    @pytest.mark.parametrize(
        ("resource", "code"),
        [
            ((2, "nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ((2, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
            ((2, "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            ((4, "7"), ErrorCode.INVALID_REQUEST),
            ((4, "x"), ErrorCode.INVALID_REQUEST),
            ((8, "1"), ErrorCode.INVALID_REQUEST),
            ((32, ""), ErrorCode.INVALID_REQUEST),
            ((99, "x"), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_what_has_no_configs_is_refused(self, cluster, resource, code):
        with pytest.raises(ApiError) as caught:
            cluster.configs.describe(ConfigResource(*resource), None)
        assert caught.value.code is code


class TestChangingTopics:
    @pytest.mark.parametrize(
        ("name", "code"),
        [("", ErrorCode.INVALID_REQUEST), ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)],
    )
    def test_what_cannot_be_a_topic_is_not_merely_unknown(self, cluster, name, code):
        resource = ConfigResource(2, name)
        assert cluster.refusal(resource, ("retention.ms", 0, "1"))[0] is code

    def test_single_configs_are_set_and_taken_back(self, cluster):
        cluster.store(TOPIC, segment_ms="5")
        changes = cluster.altered(TOPIC, ("retention.ms", SET, "9"), ("segment.ms", DELETE, None))
        assert changes == {"retention.ms": "9", "segment.ms": None}

    def test_an_unknown_config_can_be_taken_back(self, cluster):
        assert cluster.altered(TOPIC, ("nope", DELETE, None)) == {"nope": None}

    def test_a_list_is_appended_to_from_its_default(self, cluster):
        append = ("cleanup.policy", APPEND, "compact")
        assert cluster.altered(TOPIC, append) == {"cleanup.policy": "delete,compact"}
        cluster.store(TOPIC, cleanup_policy="delete,compact")
        assert cluster.altered(TOPIC, append) == {"cleanup.policy": "delete,compact"}

    def test_a_list_is_subtracted_from(self, cluster):
        cluster.store(TOPIC, cleanup_policy="delete,compact")
        subtract = ("cleanup.policy", SUBTRACT, "delete, x")
        assert cluster.altered(TOPIC, subtract) == {"cleanup.policy": "compact"}

    @pytest.mark.parametrize(
        ("operation", "message"),
        [
            (("nope", SET, "1"), "Unknown topic config name: nope"),
            (("nope", APPEND, "x"), "Can't APPEND to key nope because its type is not LIST."),
            (
                ("retention.ms", SUBTRACT, "5"),
                "Can't SUBTRACT to key retention.ms because its type is not LIST.",
            ),
            (
                ("retention.ms", SET, "-5"),
                "Invalid value -5 for configuration retention.ms: Value must be at least -1",
            ),
            (
                ("retention.ms", SET, "abc"),
                "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            ),
            (
                ("preallocate", SET, "maybe"),
                (
                    "Invalid value maybe for configuration preallocate: "
                    "Expected value to be either true or false"
                ),
            ),
            (
                ("compression.type", SET, "zip"),
                (
                    "Invalid value zip for configuration compression.type: "
                    "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
                ),
            ),
            (
                ("compression.gzip.level", SET, "77"),
                (
                    "Invalid value 77 for configuration compression.gzip.level: "
                    "Value must be between 1 and 9 or equal to -1"
                ),
            ),
            (
                ("cleanup.policy", APPEND, "zip"),
                (
                    "Invalid value zip for configuration cleanup.policy: "
                    "String must be one of: compact, delete"
                ),
            ),
            (
                ("remote.storage.enable", SET, "true"),
                (
                    "Invalid value true for configuration remote.storage.enable: "
                    "Tiered storage is not part of this version"
                ),
            ),
        ],
    )
    def test_an_illegal_config_is_refused_in_kafkas_words(
        self, cluster, operation, message, caplog
    ):
        assert cluster.refusal(TOPIC, operation) == (ErrorCode.INVALID_CONFIG, message)
        assert not caplog.records

    def test_configs_that_contradict_each_other_are_refused(self, cluster):
        cluster.store(TOPIC, max_compaction_lag_ms="5")
        assert cluster.refusal(TOPIC, ("min.compaction.lag.ms", SET, "10")) == (
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        )

    @pytest.mark.parametrize(
        ("operations", "message"),
        [
            (
                [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
                "Error due to duplicate config keys",
            ),
            ([("retention.ms", SET, None)], "Null value not supported for : retention.ms"),
            (
                [("retention.ms", SET, None), ("segment.ms", SET, None)],
                "Null value not supported for : retention.ms, segment.ms",
            ),
            ([("retention.ms", 9, "1")], "Unknown operation type 9"),
        ],
    )
    def test_a_request_that_makes_no_sense_is_refused(self, cluster, operations, message):
        assert cluster.refusal(TOPIC, *operations) == (ErrorCode.INVALID_REQUEST, message)

    def test_throttled_replicas_are_all_or_pairs(self, cluster):
        name = "leader.replication.throttled.replicas"
        for good in ("*", "0:1,1:2", ""):
            assert cluster.altered(TOPIC, (name, SET, good)) == {name: good}
        for bad in ("x", "none", "*,0:1", "0:1:2"):
            assert cluster.refusal(TOPIC, (name, SET, bad))[0] is ErrorCode.INVALID_CONFIG

    def test_a_whole_set_is_checked(self, cluster):
        configs = {"retention.ms": "1", "segment.bytes": "1000"}
        assert cluster.configs.replaced(cluster.image, TOPIC, configs) == configs
        with pytest.raises(ApiError, match="Null value not supported for : retention"):
            cluster.configs.replaced(cluster.image, TOPIC, {"retention.ms": None})
        with pytest.raises(ApiError, match="Unknown topic config name: nope"):
            cluster.configs.replaced(cluster.image, TOPIC, {"nope": "1"})


class TestChangingBrokers:
    @pytest.mark.parametrize("resource", [BROKER, EVERY])
    def test_what_may_change_at_run_time_changes(self, cluster, resource):
        change = ("log.retention.ms", SET, "5")
        assert cluster.altered(resource, change) == {"log.retention.ms": "5"}

    @pytest.mark.parametrize("resource", [BROKER, EVERY])
    @pytest.mark.parametrize(
        ("name", "value"), [("log.roll.ms", "0"), ("log.flush.interval.ms", "-1")]
    )
    def test_what_no_topic_may_have_is_no_default_of_a_broker(self, cluster, resource, name, value):
        code, message = cluster.refusal(resource, (name, SET, value))
        assert code is ErrorCode.INVALID_REQUEST
        assert f"Invalid value {value} for configuration" in message

    def test_what_is_no_list_is_not_appended_to(self, cluster):
        assert cluster.refusal(BROKER, ("log.retention.ms", APPEND, "1")) == (
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: log.retention.ms",
        )

    def test_the_rate_of_a_reassignment_is_accepted(self, cluster):
        change = ("leader.replication.throttled.rate", SET, "1000")
        assert cluster.altered(BROKER, change) == {"leader.replication.throttled.rate": "1000"}

    @pytest.mark.parametrize(
        ("resource", "operations", "message"),
        [
            (
                BROKER,
                [("num.partitions", SET, "1"), ("node.id", SET, "3")],
                "Cannot update these configs dynamically: [node.id, num.partitions]",
            ),
            (
                EVERY,
                [("cordoned.log.dirs", SET, "/a")],
                (
                    "Cannot update these configs at default cluster level, "
                    "broker id must be specified: [cordoned.log.dirs]"
                ),
            ),
            (
                BROKER,
                [("ssl.keystore.password", SET, "sesame")],
                (
                    "These security configs can be dynamically updated only per-listener using the "
                    "listener prefix: [ssl.keystore.password]"
                ),
            ),
            (BROKER, [("nope.nope", SET, "1")], "Unknown broker config name: nope.nope"),
            (
                EVERY,
                [("log.retention.ms", SET, "abc")],
                "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
            ),
            (
                EVERY,
                [("message.max.bytes", SET, "-1")],
                "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
            ),
            (
                BROKER,
                [("log.retention.ms", SET, "0")],
                (
                    "Invalid value 0 for configuration log.retention.ms: "
                    "Value must be unlimited (-1) or at least 1"
                ),
            ),
            (
                ConfigResource(ResourceType.BROKER, "7"),
                [("log.retention.ms", SET, "1")],
                "Unexpected broker id, expected 1, but received 7",
            ),
            (
                ConfigResource(ResourceType.BROKER_LOGGER, "1"),
                [("root", SET, "DEBUG")],
                "Unknown resource type 8",
            ),
            (ConfigResource(1, "x"), [("a", SET, "b")], "Unknown resource type 1"),
        ],
    )
    def test_what_may_not_change_is_refused_as_kafka_does(
        self, cluster, resource, operations, message
    ):
        assert cluster.refusal(resource, *operations) == (ErrorCode.INVALID_REQUEST, message)

    def test_a_read_only_config_left_behind_can_be_taken_back(self, cluster):
        assert cluster.altered(BROKER, ("num.partitions", DELETE, None)) == {"num.partitions": None}


class TestLength:
    """Names and values of the greatest length that a request can have."""

    LONGEST = "n" * 32_767

    def test_a_list_does_not_grow_beyond_what_can_be_described(self, cluster):
        name = "leader.replication.throttled.replicas"
        entries = [f"{number}:1" for number in range(8_000)]
        cluster.store(TOPIC, leader_replication_throttled_replicas=",".join(entries[:4_000]))
        code, message = cluster.refusal(TOPIC, (name, APPEND, ",".join(entries[4_000:])))
        assert code is ErrorCode.INVALID_CONFIG
        assert message == f"The value of {name} is longer than 32767 bytes."

    @pytest.mark.parametrize(
        ("resource", "operation"),
        [
            (TOPIC, (LONGEST, SET, "1")),
            (TOPIC, (LONGEST, APPEND, "1")),
            (TOPIC, ("cleanup.policy", SET, LONGEST)),
            (TOPIC, (LONGEST, SET, None)),
            (BROKER, (LONGEST, SET, "1")),
            (ConfigResource(ResourceType.BROKER, LONGEST), ("log.retention.ms", SET, "1")),
            (ConfigResource(ResourceType.TOPIC, LONGEST), ("retention.ms", SET, "1")),
        ],
    )
    def test_a_refusal_repeats_only_the_beginning(self, cluster, resource, operation):
        _, message = cluster.refusal(resource, operation)
        assert "n" * 260 + "..." in message
        assert len(message) < 1_000


@pytest.mark.parametrize(
    ("name", "described", "altered"),
    [
        (
            "7",
            "Unexpected broker id, expected 1 or empty string, but received 7",
            "Unexpected broker id, expected 1, but received 7",
        ),
        (
            "x",
            "Broker id must be an integer, but it is: x",
            "Node id must be an integer, but it is: x",
        ),
    ],
)
def test_another_broker_is_refused_in_kafkas_words(cluster, name, described, altered):
    other = ConfigResource(ResourceType.BROKER, name)
    with pytest.raises(ApiError) as caught:
        cluster.configs.describe(other, None)
    assert caught.value.message == described
    with pytest.raises(ApiError) as caught:
        cluster.configs.altered(cluster.image, other, [])
    assert caught.value.message == altered
