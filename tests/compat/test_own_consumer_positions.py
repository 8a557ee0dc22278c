"""Where a consumer reads: sought, reset, looked up, paused, on a real broker."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.leaks import run_without_leaks
from kits.own_consumer_kit import WAIT_MS, numbered, reading, some, topic_with, values
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import (
    InvalidState,
    NoOffset,
    OffsetOutOfRange,
)
from moldau.client.records import TopicPartition


def test_seeking_goes_where_it_is_told(broker):
    topic = topic_with(broker, 100)
    partition = TopicPartition(topic, 0)

    async def scenario():
        async with reading(broker) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 0
            async with aclosing(aiter(consumer)) as walk:
                assert (await anext(walk)).offset == 0
                consumer.seek(partition, 90)
                assert (await anext(walk)).offset == 90
                assert await consumer.position(partition) == 91
            consumer.seek_to_beginning(partition)
            assert (await consumer.poll(timeout_ms=WAIT_MS, max_records=1))[0].offset == 0
            consumer.seek_to_end()
            assert await consumer.position(partition) == 100
            assert await consumer.poll(timeout_ms=100) == []
            assert (consumer.lag(partition), consumer.high_watermark(partition)) == (0, 100)
            with pytest.raises(ValueError, match="-1 is not a valid offset"):
                consumer.seek(partition, -1)
            with pytest.raises(InvalidState, match="not assigned"):
                consumer.seek((topic, 5), 0)

    run_without_leaks(scenario())


@pytest.mark.parametrize("ahead", [1, 1 << 25])
def test_a_paused_partition_waits_in_the_middle_of_a_loop(broker, ahead):
    topic = topic_with(broker, 50, 50)
    paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def scenario():
        async with reading(broker, prefetch_max_bytes=ahead) as consumer:
            consumer.assign([paused])
            async with aclosing(aiter(consumer)) as walk:
                assert [(await anext(walk)).offset for _ in range(10)] == list(range(10))
                consumer.pause(paused)
                consumer.assign([paused, other])
                rest = [await anext(walk) for _ in range(50)]
                assert {record.partition for record in rest} == {1}
                assert consumer.paused() == {paused}
                assert await consumer.position(paused) == 10
                consumer.resume(paused)
                assert [(await anext(walk)).offset for _ in range(40)] == list(range(10, 50))

    run_without_leaks(scenario())


def test_latest_begins_with_what_comes_next(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with AsyncConsumer(broker.address, topics=[topic]) as consumer:
            assert await consumer.position((topic, 0)) == 10
            await asyncio.to_thread(send, broker.address, topic, [b"new"])
            assert values(await consumer.poll(timeout_ms=WAIT_MS)) == [b"new"]

    run_without_leaks(scenario())


def test_without_a_policy_the_user_decides(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with reading(broker, topics=[topic], auto_offset_reset="none") as consumer:
            for _ in range(2):
                with pytest.raises(NoOffset, match=f"{topic}-0 has no committed offset"):
                    await consumer.poll(timeout_ms=WAIT_MS)
            consumer.seek((topic, 0), 4)
            assert len(await consumer.poll(timeout_ms=WAIT_MS)) == 6
            consumer.seek((topic, 0), 400)
            with pytest.raises(OffsetOutOfRange, match="offset 400"):
                await consumer.poll(timeout_ms=WAIT_MS)

    run_without_leaks(scenario())


def test_a_position_beyond_the_log_is_reset_by_the_policy(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            consumer.seek((topic, 0), 10_000)
            assert values(await some(consumer, 10)) == numbered(0, 10)

    run_without_leaks(scenario())


def timed_topic(broker):
    """Create a topic with a record a second, the last of them now."""
    topic = create_topic(broker.address, fresh_topic("own-times"))
    producer = Producer({"bootstrap.servers": broker.address})
    now_ms = 1_700_000_000_000
    for index in range(10):
        producer.produce(topic, b"%d" % index, partition=0, timestamp=now_ms + index * 1000)
    assert producer.flush(60) == 0
    return topic, now_ms


def test_offsets_are_looked_up_by_time(broker):
    topic, start_ms = timed_topic(broker)
    partition = TopicPartition(topic, 0)

    async def scenario():
        async with reading(broker) as consumer:
            found = await consumer.offsets_for_times({partition: start_ms + 3500})
            assert found[partition][:2] == (4, start_ms + 4000)
            late = await consumer.offsets_for_times({partition: start_ms + 10**9})
            assert late == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            assert await consumer.partitions_for(topic) == {partition}
            with pytest.raises(ValueError, match="milliseconds"):
                await consumer.offsets_for_times({partition: -1})

    run_without_leaks(scenario())


def test_a_reset_by_duration_goes_back_in_time(broker):
    topic, _ = timed_topic(broker)

    async def scenario():
        for policy, position in (("by_duration:P20000D", 0), ("by_duration:PT1H", 10)):
            async with reading(broker, topics=[topic], auto_offset_reset=policy) as consumer:
                assert await consumer.position((topic, 0)) == position

    run_without_leaks(scenario())


def test_deleted_records_move_the_beginning(broker):
    topic = topic_with(broker, 20)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.delete_records([ConfluentPartition(topic, 0, 15)]).values():
        done.result(60)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert await consumer.beginning_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 15}
            consumer.seek((topic, 0), 3)  # gone: out of range, so earliest
            assert values(await some(consumer, 5)) == numbered(0, 5, 15)

    run_without_leaks(scenario())
