"""Making a topic for tests whose subject is something else: one quick client does it for all."""

from __future__ import annotations

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from .waiting import eventually

_TIMEOUT_S = 60
DEFAULT_REPLICAS = -1
"""As many replicas as the broker gives a topic that does not say."""

_NOT_LEADING_YET = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


def create_topic(
    address: str,
    name: str,
    partitions: int = 1,
    config: dict[str, str] | None = None,
    replicas: int = 1,
) -> str:
    """Create a topic and wait until it is known with all its leaders."""
    admin = AdminClient({"bootstrap.servers": address})
    new = NewTopic(name, partitions, replicas, config=config or {})
    admin.create_topics([new], operation_timeout=_TIMEOUT_S)[name].result(_TIMEOUT_S)
    eventually(lambda: led_partitions(admin, name) == partitions, f"{name} has its leaders")
    return name


def led_partitions(admin: AdminClient, name: str) -> int:
    """Return how many partitions of a topic have a leader."""
    known = admin.list_topics(timeout=_TIMEOUT_S).topics.get(name)
    return sum(each.leader >= 0 for each in known.partitions.values()) if known else 0


def send(
    address: str, topic: str, values: list[bytes], partition: int = 0, codec: str = "none"
) -> None:
    """Write values to a partition, in order, and wait until all are acknowledged.

    Batches are as small as Java's, so that a few megabytes make many of them.
    """
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "compression.type": codec,
            "linger.ms": 5,
            "batch.size": 16_384,
        }
    )
    failures: list[object] = []
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error)
        )
    if producer.flush(_TIMEOUT_S) or any(failures):
        raise AssertionError(f"not everything was acknowledged: {failures}")


def end_offset(address: str, topic: str, partition: int = 0) -> int:
    """Return the offset the next record of a partition will get.

    A broker that has just started may answer before it leads: that passes, and is asked again.
    """
    admin = AdminClient({"bootstrap.servers": address})
    asked = {TopicPartition(topic, partition): OffsetSpec.latest()}

    def ask() -> list[int]:
        (future,) = admin.list_offsets(asked, request_timeout=_TIMEOUT_S).values()
        try:
            return [future.result(_TIMEOUT_S).offset]
        except KafkaException as refused:
            if refused.args[0].code() not in _NOT_LEADING_YET:
                raise
            return []

    return eventually(ask, f"{topic}-{partition} is led")[0]


def read_all(address: str, topic: str, partition: int = 0) -> list[bytes]:
    """Return the values of a partition from its beginning to its end."""
    count = end_offset(address, topic, partition)
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        messages = consumer.consume(count, _TIMEOUT_S) if count else []
        return [message.value() for message in messages]
    finally:
        consumer.close()


def topic_config(address: str, topic: str, name: str) -> str:
    """Return one config of a topic as the broker describes it."""
    admin = AdminClient({"bootstrap.servers": address})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(_TIMEOUT_S)[name].value)
