"""Reading topics as Spark's driver and executors do, without a session: quick, and step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kafka_harness.topics import led_partitions
from kafka_harness.waiting import eventually
from moldau.spark.source.batch import batch_reader
from moldau.spark.source.stream import StreamReader, stream_reader

_TIMEOUT_S = 60

_NOT_COORDINATING_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def options(broker: Any, **more: str) -> dict[str, str]:
    """Return options for a broker; a dot in the name of one is written as `__`."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": broker.address, **named}


def batch_rows(broker: Any, **more: str) -> list[dict[str, Any]]:
    """Return the rows of a batch query, in the order of its tasks."""
    reader = batch_reader(options(broker, **more))
    return list(rows_of(reader, reader.partitions()))


def offsets_of(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return where rows come from, as partition and offset."""
    return [(row["partition"], row["offset"]) for row in rows]


def rows_of(reader: Any, partitions: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Read tasks one after the other."""
    for partition in partitions:
        for batch in reader.read(partition):
            yield from batch.to_pylist()


def following(broker: Any, topic: str | None, **more: str) -> StreamReader:
    """Return the reader of a new run of a stream; it does not wait when it is idle."""
    given = {"idleWaitMs": "0", **more}
    if topic is not None:
        given["subscribe"] = topic
    reader = stream_reader(options(broker, **given))
    assert isinstance(reader, StreamReader)
    return reader


def values_between(reader: StreamReader, start: Any, end: Any) -> list[bytes]:
    """Return the values that one batch reads, sorted."""
    return sorted(row["value"] for row in rows_of(reader, reader.partitions(start, end)))


def add_partitions(broker: Any, topic: str, count: int) -> None:
    """Give a topic more partitions, and wait until they are led."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(_TIMEOUT_S)
    eventually(lambda: led_partitions(admin, topic) == count, f"{topic} has its leaders")


def delete_topic(broker: Any, topic: str) -> None:
    """Delete a topic, and wait until nobody knows it."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
    eventually(
        lambda: topic not in admin.list_topics(timeout=_TIMEOUT_S).topics, f"{topic} is gone"
    )


def delete_records(broker: Any, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition before an offset."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    cut = TopicPartition(topic, partition, before)
    for future in admin.delete_records([cut]).values():
        future.result(_TIMEOUT_S)


def send_transaction(broker: Any, topic: str, values: Iterable[bytes], *, commit: bool) -> None:
    """Write values to the first partition in one transaction, and end it.

    Kafka answers when the end is decided, and writes its markers then; who begins anew under the
    same id waits for them.
    """
    settings = {"bootstrap.servers": broker.address, "transactional.id": f"{topic}-writer"}
    producer = Producer(settings)
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(_TIMEOUT_S)
    if commit:
        producer.commit_transaction(_TIMEOUT_S)
    else:
        producer.abort_transaction(_TIMEOUT_S)
    Producer(settings).init_transactions(_TIMEOUT_S)


def committed(broker: Any, group: str, topic: str, partition: int = 0) -> int:
    """Return what a group has committed, by another client's account; negative if nothing.

    The first who asks for a group may be told that its coordinator is not ready: that passes.
    """
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})

    def ask() -> list[TopicPartition]:
        try:
            return list(consumer.committed([TopicPartition(topic, partition)], _TIMEOUT_S))
        except KafkaException as refused:
            if refused.args[0].code() not in _NOT_COORDINATING_YET:
                raise
            return []

    try:
        (found,) = eventually(ask, f"group {group} has a coordinator")
    finally:
        consumer.close()
    return int(found.offset)
