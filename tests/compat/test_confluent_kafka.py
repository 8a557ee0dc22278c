"""librdkafka, through confluent-kafka: the client most of the world's non-Java programs use."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kafka_harness.broker import BrokerProcess
from kafka_harness.samples import PRODUCER_MODES, Sample, fresh_topic, samples
from kafka_harness.stored import assert_stored_as
from kafka_harness.waiting import eventually

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def create(admin: AdminClient, name: str, partitions: int = 1, **config: str) -> str:
    new = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
    admin.create_topics([new], operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    eventually(lambda: partition_count(admin, name) == partitions, f"{name} is known")
    return name


def partition_count(admin: AdminClient, topic: str) -> int:
    known = admin.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    return len(known.partitions) if known else 0


def produce(broker: BrokerProcess, topic: str, records: list[Sample], **config: object) -> list:
    """Send all records and return what the delivery reports said, in order."""
    reports: list = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "acks": "all",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            partition=0,
            on_delivery=lambda error, message: reports.append((error, message.offset())),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return reports


def consume(broker: BrokerProcess, topic: str, count: int, offset: int = -2) -> list:
    """Read `count` messages of partition 0 by assignment, from the beginning unless told."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "assigned-only",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages = []
        while len(messages) < count:
            received = consumer.consume(count - len(messages), TIMEOUT_S)
            assert received, f"{len(messages)} of {count} messages, then none for {TIMEOUT_S} s"
            assert all(message.error() is None for message in received)
            messages += received
        return messages
    finally:
        consumer.close()


def as_sample(message) -> Sample:
    return Sample(message.key(), message.value(), tuple(message.headers() or ()))


@pytest.mark.parametrize(("codec", "idempotent"), PRODUCER_MODES)
def test_every_kind_of_record_comes_back_as_it_was_sent(broker, admin, codec, idempotent):
    topic = create(admin, fresh_topic(f"confluent-{codec}"))
    sent = samples()
    reports = produce(
        broker, topic, sent, compression_type=codec, enable_idempotence=idempotent, linger_ms=20
    )
    assert reports == [(None, offset) for offset in range(len(sent))]
    received = consume(broker, topic, len(sent))
    assert [as_sample(message) for message in received] == sent
    assert [message.offset() for message in received] == list(range(len(sent)))
    assert_stored_as(broker.data / f"{topic}-0", codec, idempotent=idempotent)


def test_acks_0_and_1_deliver(broker, admin):
    topic = create(admin, fresh_topic("confluent-acks"))
    produce(broker, topic, [Sample(b"k", b"one")], acks="1")
    produce(broker, topic, [Sample(b"k", b"zero")], acks="0")
    assert [message.value() for message in consume(broker, topic, 2)] == [b"one", b"zero"]


def test_a_record_above_the_topics_limit_is_refused_and_leaves_nothing(broker, admin):
    topic = create(admin, fresh_topic("confluent-limit"), max_message_bytes="1000")
    ((error, _),) = produce(broker, topic, [Sample(None, b"x" * 5000)])
    assert error.name() == "MSG_SIZE_TOO_LARGE"
    assert watermarks(broker, topic) == (0, 0)


def test_a_refused_batch_names_its_bad_records(broker, admin):
    """KIP-467: of a hundred records in one batch, the ten without a key are the bad ones."""
    topic = create(admin, fresh_topic("keyless"), cleanup_policy="compact")
    records = [Sample(None if number % 10 == 0 else b"k", b"v") for number in range(100)]
    errors = [error for error, _ in produce(broker, topic, records, linger_ms=1000)]
    bad = [number for number, error in enumerate(errors) if error.name() == "INVALID_RECORD"]
    assert bad == list(range(0, 100, 10))
    assert {error.name() for error in errors} == {"INVALID_RECORD", "_INVALID_DIFFERENT_RECORD"}


def test_reading_starts_at_any_offset(broker, admin):
    topic = create(admin, fresh_topic("confluent-seek"))
    produce(broker, topic, [Sample(None, b"%d" % number) for number in range(100)])
    (message,) = consume(broker, topic, 1, offset=57)
    assert (message.offset(), message.value()) == (57, b"57")


def test_offsets_are_found_by_time(broker, admin):
    topic = create(admin, fresh_topic("confluent-time"))
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for timestamp_ms in (1_000, 2_000, 3_000):
        producer.produce(topic, value=b"v", partition=0, timestamp=timestamp_ms)
        assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "none"})
    try:
        found = [
            consumer.offsets_for_times([TopicPartition(topic, 0, asked)], TIMEOUT_S)[0].offset
            for asked in (0, 1_000, 1_001, 3_000, 3_001)
        ]
    finally:
        consumer.close()
    end = -1  # librdkafka's OFFSET_END: no record is that young
    assert found == [0, 0, 1, 2, end]


def watermarks(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "none"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    finally:
        consumer.close()


def test_deleted_records_are_gone_and_the_rest_stays(broker, admin):
    topic = create(admin, fresh_topic("confluent-trim"))
    produce(broker, topic, [Sample(None, b"%d" % number) for number in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    ((_, future),) = deleted.items()
    assert future.result(TIMEOUT_S).low_watermark == 4
    assert watermarks(broker, topic) == (4, 10)
    assert [message.offset() for message in consume(broker, topic, 6)] == list(range(4, 10))


def test_a_topic_is_created_described_enlarged_and_deleted(broker, admin):
    topic = create(admin, fresh_topic("confluent-admin"), 3)
    described = admin.list_topics(topic, TIMEOUT_S).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2]
    assert all(len(partition.isrs) == 1 for partition in described.partitions.values())
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    eventually(lambda: partition_count(admin, topic) == 5, "five partitions")
    admin.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    eventually(lambda: partition_count(admin, topic) == 0, "the topic is gone")


def test_creating_a_topic_twice_says_it_exists(broker, admin):
    topic = create(admin, fresh_topic("confluent-twice"))
    with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
        create(admin, topic)


def test_a_topic_config_is_altered_and_read_back(broker, admin):
    topic = create(admin, fresh_topic("confluent-config"), retention_ms="60000")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert described(admin, resource)["retention.ms"] == "60000"
    entry = ConfigEntry("segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([change]).values()
    future.result(TIMEOUT_S)
    eventually(
        lambda: described(admin, resource)["segment.bytes"] == "2000000", "the new segment size"
    )
    assert described(admin, resource)["retention.ms"] == "60000"


def described(admin: AdminClient, resource: ConfigResource) -> dict[str, str]:
    (future,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result(TIMEOUT_S).items()}


def test_a_consumer_of_the_newer_group_protocol_hears_at_once_that_it_is_not_there(broker, admin):
    """It waited without a word for a broker that would advertise the protocol."""
    if broker.kind.startswith("kafka"):
        pytest.skip("Kafka 4 has the protocol")
    topic = create(admin, fresh_topic("protocol"))
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": topic,
        "group.protocol": "consumer",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._FATAL
        assert "API version not supported" in error.str()
    finally:
        consumer.close()


def test_a_security_config_of_one_broker_changes_at_run_time(broker, admin):
    """As librdkafka's own suite does it."""
    (node,) = admin.list_topics(timeout=TIMEOUT_S).brokers
    name = "sasl.kerberos.min.time.before.relogin"
    asked = ConfigResource(ResourceType.BROKER, str(node))

    def value() -> str:
        return str(admin.describe_configs([asked])[asked].result(TIMEOUT_S)[name].value)

    def change(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, "58000", incremental_operation=operation)
        wanted = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
        admin.incremental_alter_configs([wanted])[wanted].result(TIMEOUT_S)

    change(AlterConfigOpType.SET)
    eventually(lambda: value() == "58000", f"{name} is set")
    change(AlterConfigOpType.DELETE)
    eventually(lambda: value() == "60000", f"{name} has its default")
