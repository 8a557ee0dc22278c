"""kafka-python: pure Python, its own protocol code, so a second opinion on every byte.

It reads and writes snappy only with a package this project does not need, so that codec is left
to the other clients.
"""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from kafka_harness.broker import BrokerProcess
from kafka_harness.samples import NOTHING, NULL_HEADER, PRODUCER_MODES, Sample, fresh_topic, samples
from kafka_harness.stored import assert_stored_as
from kafka_harness.waiting import eventually

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess):
    client = KafkaAdminClient(bootstrap_servers=broker.address)
    yield client
    client.close()


def create(admin: KafkaAdminClient, name: str, partitions: int = 1, **configs: str) -> str:
    options = {
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": {key.replace("_", "."): value for key, value in configs.items()},
    }
    admin.create_topics({name: options}, wait_for_metadata=True)
    return name


def produce(broker: BrokerProcess, topic: str, records: list[Sample], **config) -> list[int]:
    """Send all records and return the offsets they got."""
    config = {"acks": "all", "enable_idempotence": False, "linger_ms": 20, **config}
    producer = KafkaProducer(bootstrap_servers=broker.address, **config)
    try:
        futures = [
            producer.send(topic, record.value, record.key, list(record.headers), partition=0)
            for record in records
        ]
        return [future.get(TIMEOUT_S).offset for future in futures]
    finally:
        producer.close()


@pytest.fixture
def reader(broker: BrokerProcess):
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest"
    )
    yield consumer
    consumer.close()


def consume(reader: KafkaConsumer, topic: str, count: int, offset: int | None = None) -> list:
    partition = TopicPartition(topic, 0)
    reader.assign([partition])
    if offset is not None:
        reader.seek(partition, offset)
    messages: list = []
    while len(messages) < count:
        polled = reader.poll(timeout_ms=1000 * TIMEOUT_S, max_records=count - len(messages))
        assert polled, f"{len(messages)} of {count} messages, then none for {TIMEOUT_S} s"
        messages += polled[partition]
    return messages


@pytest.mark.parametrize(
    ("codec", "idempotent"), [mode for mode in PRODUCER_MODES if mode[0] != "snappy"]
)
def test_every_kind_of_record_comes_back_as_it_was_sent(broker, admin, reader, codec, idempotent):
    topic = create(admin, fresh_topic(f"python-{codec}"))
    sent = samples(NOTHING, NULL_HEADER)
    offsets = produce(
        broker,
        topic,
        sent,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
    )
    assert offsets == list(range(len(sent)))
    received = consume(reader, topic, len(sent))
    assert [Sample(each.key, each.value, tuple(each.headers)) for each in received] == sent
    assert [each.offset for each in received] == offsets
    assert_stored_as(broker.data / f"{topic}-0", codec, idempotent=idempotent)


def test_a_record_above_the_topics_limit_is_refused(broker, admin):
    topic = create(admin, fresh_topic("python-limit"), max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        produce(broker, topic, [Sample(None, b"x" * 5000)])


def test_reading_starts_at_any_offset(broker, admin, reader):
    topic = create(admin, fresh_topic("python-seek"))
    produce(broker, topic, [Sample(None, b"%d" % number) for number in range(100)])
    (message,) = consume(reader, topic, 1, offset=57)
    assert (message.offset, message.value) == (57, b"57")


def test_offsets_are_found_by_time(broker, admin, reader):
    topic = create(admin, fresh_topic("python-time"))
    producer = KafkaProducer(bootstrap_servers=broker.address)
    for timestamp_ms in (1_000, 2_000, 3_000):
        producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms).get(TIMEOUT_S)
    producer.close()
    partition = TopicPartition(topic, 0)
    found = [
        reader.offsets_for_times({partition: asked})[partition]
        for asked in (0, 1_000, 1_001, 3_000, 3_001)
    ]
    assert [each and (each.offset, each.timestamp) for each in found] == [
        (0, 1_000), (0, 1_000), (1, 2_000), (2, 3_000), None,
    ]  # fmt: skip


def test_deleted_records_are_gone_and_the_rest_stays(broker, admin, reader):
    topic = create(admin, fresh_topic("python-trim"))
    produce(broker, topic, [Sample(None, b"%d" % number) for number in range(10)])
    partition = TopicPartition(topic, 0)
    admin.delete_records({partition: 4})
    assert reader.beginning_offsets([partition]) == {partition: 4}
    assert reader.end_offsets([partition]) == {partition: 10}
    assert [each.offset for each in consume(reader, topic, 6)] == list(range(4, 10))


def test_a_topic_is_created_described_enlarged_and_deleted(broker, admin):
    topic = create(admin, fresh_topic("python-admin"), 3)
    assert partition_count(admin, topic) == 3
    admin.create_partitions({topic: 5})
    eventually(lambda: partition_count(admin, topic) == 5, "five partitions")
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics(), "the topic is gone")


def partition_count(admin: KafkaAdminClient, topic: str) -> int:
    (described,) = admin.describe_topics([topic])
    return len(described["partitions"])


def test_creating_a_topic_twice_says_it_exists(admin):
    topic = create(admin, fresh_topic("python-twice"))
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, topic)


def test_a_topic_config_is_altered_and_read_back(admin):
    topic = create(admin, fresh_topic("python-config"), retention_ms="60000")
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "2000000"})]
    )
    asked = ConfigResource(ConfigResourceType.TOPIC, topic)

    def modified() -> dict[str, str]:
        described = admin.describe_configs([asked])["topic"][topic]
        return {name: entry["value"] for name, entry in described.items()}

    expected = {"retention.ms": "60000", "segment.bytes": "2000000"}
    eventually(lambda: modified() == expected, f"the topic's own configs are {expected}")
