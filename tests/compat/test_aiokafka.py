"""aiokafka: asyncio, C record code, and older request versions than the other clients pick."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import MessageSizeTooLargeError

from kafka_harness.broker import BrokerProcess
from kafka_harness.samples import NOTHING, PRODUCER_MODES, Sample, fresh_topic, samples
from kafka_harness.stored import assert_stored_as

TIMEOUT_S = 60
PAUSE_S = 0.02


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, 3 * TIMEOUT_S))


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """Start a client and close it whatever happens."""
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


def admin_of(broker: BrokerProcess):
    return started(AIOKafkaAdminClient(bootstrap_servers=broker.address))


def producer_of(broker: BrokerProcess, **config: Any):
    return started(AIOKafkaProducer(bootstrap_servers=broker.address, **config))


def reader_of(broker: BrokerProcess):
    return started(
        AIOKafkaConsumer(
            bootstrap_servers=broker.address,
            group_id=None,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=2_000_000,
        )
    )


async def create(broker: BrokerProcess, name: str, partitions: int = 1, **configs: str) -> str:
    own = {key.replace("_", "."): value for key, value in configs.items()}
    async with admin_of(broker) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=own)])
        await settle(admin, name, partitions)
    return name


async def settle(admin: AIOKafkaAdminClient, topic: str, partitions: int) -> None:
    """Wait until the broker that is asked knows the topic with that many partitions."""
    async with asyncio.timeout(TIMEOUT_S):
        while await partition_count(admin, topic) != partitions:  # noqa: ASYNC110 - polls a peer
            await asyncio.sleep(PAUSE_S)


async def partition_count(admin: AIOKafkaAdminClient, topic: str) -> int:
    if topic not in await admin.list_topics():
        return 0
    (described,) = await admin.describe_topics([topic])
    return len(described["partitions"])


async def produce(broker: BrokerProcess, topic: str, records: list[Sample], **config: Any):
    """Send all records and return the offsets they got."""
    async with producer_of(broker, acks="all", linger_ms=20, **config) as producer:
        futures = [
            await producer.send(
                topic, record.value, record.key, partition=0, headers=list(record.headers)
            )
            for record in records
        ]
        return [(await future).offset for future in futures]


async def consume(reader: AIOKafkaConsumer, topic: str, count: int, offset: int | None = None):
    partition = TopicPartition(topic, 0)
    reader.assign([partition])
    if offset is not None:
        reader.seek(partition, offset)
    async with asyncio.timeout(TIMEOUT_S):
        return [await reader.getone() for _ in range(count)]


@pytest.mark.parametrize(("codec", "idempotent"), PRODUCER_MODES)
def test_every_kind_of_record_comes_back_as_it_was_sent(broker, codec, idempotent):
    async def steps() -> None:
        topic = await create(broker, fresh_topic(f"aio-{codec}"))
        sent = samples(NOTHING)
        compression = None if codec == "none" else codec
        offsets = await produce(
            broker, topic, sent, compression_type=compression, enable_idempotence=idempotent
        )
        assert offsets == list(range(len(sent)))
        async with reader_of(broker) as reader:
            received = await consume(reader, topic, len(sent))
        assert [Sample(each.key, each.value, each.headers) for each in received] == sent
        assert [each.offset for each in received] == offsets
        assert_stored_as(broker.data / f"{topic}-0", codec, idempotent=idempotent)

    run(steps())


def test_a_record_above_the_topics_limit_is_refused(broker):
    async def steps() -> None:
        topic = await create(broker, fresh_topic("aio-limit"), max_message_bytes="1000")
        with pytest.raises(MessageSizeTooLargeError):
            await produce(broker, topic, [Sample(None, b"x" * 5000)])

    run(steps())


def test_reading_starts_at_any_offset(broker):
    async def steps() -> None:
        topic = await create(broker, fresh_topic("aio-seek"))
        await produce(broker, topic, [Sample(None, b"%d" % number) for number in range(100)])
        async with reader_of(broker) as reader:
            (message,) = await consume(reader, topic, 1, offset=57)
        assert (message.offset, message.value) == (57, b"57")

    run(steps())


def test_offsets_are_found_by_time(broker):
    async def steps() -> None:
        topic = await create(broker, fresh_topic("aio-time"))
        async with producer_of(broker) as producer:
            for timestamp_ms in (1_000, 2_000, 3_000):
                await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
        partition = TopicPartition(topic, 0)
        async with reader_of(broker) as reader:
            found = [
                (await reader.offsets_for_times({partition: asked}))[partition]
                for asked in (0, 1_000, 1_001, 3_000, 3_001)
            ]
        assert [each and (each.offset, each.timestamp) for each in found] == [
            (0, 1_000), (0, 1_000), (1, 2_000), (2, 3_000), None,
        ]  # fmt: skip

    run(steps())


def test_deleted_records_are_gone_and_the_rest_stays(broker):
    async def steps() -> None:
        topic = await create(broker, fresh_topic("aio-trim"))
        await produce(broker, topic, [Sample(None, b"%d" % number) for number in range(10)])
        partition = TopicPartition(topic, 0)
        async with admin_of(broker) as admin, reader_of(broker) as reader:
            await admin.delete_records({partition: RecordsToDelete(before_offset=4)})
            assert await reader.beginning_offsets([partition]) == {partition: 4}
            assert await reader.end_offsets([partition]) == {partition: 10}
            left = await consume(reader, topic, 6)
        assert [each.offset for each in left] == list(range(4, 10))

    run(steps())


def test_a_topic_is_created_described_enlarged_and_deleted(broker):
    async def steps() -> None:
        topic = await create(broker, fresh_topic("aio-admin"), 3)
        async with admin_of(broker) as admin:
            await admin.create_partitions({topic: NewPartitions(total_count=5)})
            await settle(admin, topic, 5)
            await admin.delete_topics([topic])
            await settle(admin, topic, 0)

    run(steps())
