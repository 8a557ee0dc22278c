"""The broker's side of a group, asked by admin requests and read from its log; and a steady feed.

What members say of themselves is compared with this.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from compat.group_clients import place
from kafka_harness.waiting import eventually
from moldau.coordination.hashing import partition_of
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import OffsetFetchRequest
from process.raw_client import RawClient

TIMEOUT_S = 60
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
FEED_PAUSE_S = 0.02
_GROUP_KEY_VERSION = 2
_LOADING = {
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_PATIENT = {
    "reconnect.backoff.max.ms": 200,
    "metadata.recovery.strategy": "none",
    "log_level": 2,
}
"""A broker may be away for a moment: ask it again soon, and without a word. Otherwise librdkafka
(as of 2.16) may forget it and start over, and with it the admin requests that wait for it."""


class BrokerView:
    """Answers of one broker about groups and ends of logs."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._admin = AdminClient({"bootstrap.servers": server, **_PATIENT})

    def ends(self, topic: str, count: int) -> dict[str, int]:
        """Return the end offset of each partition of a topic."""
        asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(count)}

        def ask() -> dict[str, int]:
            answers = self._admin.list_offsets(asked, request_timeout=TIMEOUT_S)
            try:
                return {
                    place(key.topic, key.partition): future.result(TIMEOUT_S).offset
                    for key, future in answers.items()
                }
            except KafkaException as refused:
                # After a restart the broker leads in a new epoch, which the client has to learn.
                if refused.args[0].code() != KafkaError.FENCED_LEADER_EPOCH:
                    raise
                return {}

        return eventually(ask, f"the ends of {topic} are known", TIMEOUT_S)

    def committed(self, group: str) -> dict[str, int]:
        """Return all committed offsets of a group; ask again while the coordinator loads them.

        Asked by hand: librdkafka (as of 2.16) crashes if the answer is that it is no coordinator.
        """
        host, _, port = self.server.rpartition(":")

        def ask() -> list[Any]:
            with RawClient((host, int(port))) as client:
                answer = client.call(OffsetFetchRequest(group_id=group, topics=None), 5)
            assert answer.error_code in _LOADING, ErrorCode(answer.error_code).name
            return [] if answer.error_code else [answer]

        (answer,) = eventually(ask, f"the offsets of {group} are loaded", TIMEOUT_S)
        return {
            place(topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def lag(self, group: str, topic: str, count: int) -> dict[str, int]:
        """Return how far a group is behind the end of each partition, as admin tools do it."""
        (future,) = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)]
        ).values()
        committed = {
            place(each.topic, each.partition): each.offset
            for each in future.result(TIMEOUT_S).topic_partitions
        }
        return {key: end - committed[key] for key, end in self.ends(topic, count).items()}

    def described(self, group: str) -> Any:
        """Return what DescribeGroups says."""
        (future,) = self._admin.describe_consumer_groups([group]).values()
        return future.result(TIMEOUT_S)

    def assignment(self, group: str) -> dict[str, set[str]]:
        """Return the partitions of each member, by client id, as the coordinator has them."""
        return {
            member.client_id: {
                place(each.topic, each.partition) for each in member.assignment.topic_partitions
            }
            for member in self.described(group).members
        }

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions."""
        (future,) = self._admin.create_partitions([NewPartitions(topic, count)]).values()
        future.result(TIMEOUT_S)

    def generation(self, group: str) -> int:
        """Return the generation in the newest record that the coordinator has written of a group.

        The key is a version and the group's name; the value a version, the kind of protocol and
        the generation.
        """
        partition = partition_of(group, OFFSETS_PARTITIONS)
        name = group.encode()
        key = struct.pack(">hh", _GROUP_KEY_VERSION, len(name)) + name
        values = [value for found, value in self._records(partition) if found == key and value]
        (kind_size,) = struct.unpack_from(">h", values[-1], 2)
        return int(struct.unpack_from(">i", values[-1], 4 + kind_size)[0])

    def _records(self, partition: int) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values of a partition of the offsets topic."""
        consumer = Consumer(
            {"bootstrap.servers": self.server, "group.id": "none", "enable.partition.eof": True,
             "enable.auto.commit": False}
        )  # fmt: skip
        records = []
        try:
            consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, "no end of the offsets topic"
                if message.error():
                    break
                records.append((message.key(), message.value()))
        finally:
            consumer.close()
        return records


@contextmanager
def feed(server: str, topic: str, count: int) -> Iterator[None]:
    """Write a record to every partition again and again while the block runs; then flush.

    A broker that is away holds the records up and loses none.
    """
    enough = threading.Event()
    producer = Producer(
        {"bootstrap.servers": server, "enable.idempotence": True, "linger.ms": 5, **_PATIENT}
    )
    failures: list[object] = []

    def write() -> None:
        number = 0
        while not enough.wait(FEED_PAUSE_S):
            for partition in range(count):
                producer.produce(
                    topic,
                    b"%d" % number,
                    partition=partition,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
            number += 1
            producer.poll(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()
        left = producer.flush(TIMEOUT_S)
    assert not left, f"{left} records were not sent"
    assert not failures, failures
