"""The consumer against a real broker: Moldau, or Kafka where the suite runs on that.

Here, what it reads; partitions are assigned by hand. Where it reads is in
`test_own_consumer_positions`, who reads in `test_own_consumer_users`, what groups add in
`test_own_groups`.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from itertools import chain, islice

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kits.leaks import run_without_leaks
from kits.own_consumer_kit import WAIT_MS, numbered, reading, some, topic_with, values
from moldau.client.consumer import Consumer
from moldau.client.errors import (
    InvalidState,
)
from moldau.client.records import TopicPartition

OLD_VERSIONS = {
    "1.1": {1: 6, 2: 2, 3: 5, 10: 1, 18: 1, 23: 0},
    "magic 1": {1: 2, 2: 1, 3: 4, 18: 0},
    "magic 0": {1: 1, 2: 1, 3: 1, 18: 0},
}
"""The newest Fetch, ListOffsets, Metadata, ... of a broker as old as that."""


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory):
    """A broker whose groups form at once and whose cleaner never rests."""
    settings = {"group.initial.rebalance.delay.ms": "0", "log.cleaner.backoff.ms": "100"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("quick"), settings) as running:
        yield running


# Reading


def test_every_record_of_every_partition_is_handed_out_once(broker):
    topic = topic_with(broker, 700, 0, 1300)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert len(consumer.assignment()) == 3
            records = await some(consumer, 2000)
            assert await consumer.poll(timeout_ms=50) == []
            for partition in range(3):
                assert consumer.lag((topic, partition)) == 0
        for partition, count in ((0, 700), (2, 1300)):
            of_it = [record for record in records if record.partition == partition]
            assert values(of_it) == numbered(partition, count)
            assert [record.offset for record in of_it] == list(range(count))

    run_without_leaks(scenario())


def test_a_thread_reads_as_asyncio_does(broker):
    topic = topic_with(broker, 900, 600)
    with Consumer(broker.address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = list(islice(consumer, 1000))
        records += islice(consumer, 500)
        for partition, count in enumerate((900, 600)):
            of_it = [record for record in records if record.partition == partition]
            assert values(of_it) == numbered(partition, count)
            assert consumer.position((topic, partition)) == count
    assert not any(one.name == "moldau-consumer" for one in threading.enumerate())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(broker, codec):
    topic = create_topic(broker.address, fresh_topic("own-codec"))
    sent = [b"%d" % index * 50 for index in range(500)]
    send(broker.address, topic, sent, codec=codec)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert values(await some(consumer, 500)) == sent

    run_without_leaks(scenario())


@pytest.mark.parametrize("age", list(OLD_VERSIONS))
def test_old_versions_do(broker, age):
    if kind_under_test() == "kafka":
        pytest.skip("Kafka 4 does not speak to clients of 1.1 (KIP-896)")
    topic = topic_with(broker, 300, 300)

    async def scenario():
        ceilings = OLD_VERSIONS[age]
        async with reading(broker, topics=[topic], version_ceilings=ceilings) as consumer:
            assert len(await some(consumer, 600)) == 600
            assert await consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 300}
            consumer.seek((topic, 0), 290)
            assert values(await some(consumer, 10)) == numbered(0, 10, 290)

    run_without_leaks(scenario())


def test_a_record_larger_than_every_fetch_setting_still_comes(broker):
    topic = create_topic(broker.address, fresh_topic("own-large"))
    large = b"x" * 300_000
    send(broker.address, topic, [b"first", large, b"last"])

    async def scenario():
        limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
        async with reading(broker, topics=[topic], **limits) as consumer:
            assert set(values(await some(consumer, 3))) == {b"first", large, b"last"}

    run_without_leaks(scenario())


def test_little_is_fetched_ahead_while_the_user_is_busy(broker):
    topic = create_topic(broker.address, fresh_topic("own-ahead"))
    send(broker.address, topic, [b"%05d" % index + bytes(1000) for index in range(4000)])

    async def scenario():
        ahead = {"max_partition_fetch_bytes": 100_000, "prefetch_max_bytes": 300_000}
        async with reading(broker, topics=[topic], **ahead) as consumer:
            assert len(await some(consumer, 1)) == 1
            for _ in range(20):
                await asyncio.sleep(0.01)
            (state,) = consumer._core.positions
            assert state.buffered_size <= 300_000
            rest = await some(consumer, 3999)
            assert [int(record.value[:5]) for record in rest] == list(range(1, 4000))

    run_without_leaks(scenario())


def test_next_takes_turns_with_every_other_way_to_read(broker):
    topic = topic_with(broker, 50)
    settings = {"topics": [topic], "auto_offset_reset": "earliest"}
    with Consumer(broker.address, **settings) as consumer:
        offsets = [next(consumer).offset for _ in range(5)]
        offsets += [record.offset for record in islice(consumer, 5)]
        offsets += [next(consumer).offset]
        offsets += [record.offset for record in consumer.poll(timeout_ms=WAIT_MS, max_records=4)]
        assert consumer.position((topic, 0)) == 15
        for record in consumer:
            offsets += [record.offset, next(consumer).offset]
            if len(offsets) > 25:
                break
        consumer.seek((topic, 0), 40)
        assert next(consumer).offset == 40
    assert offsets == list(range(len(offsets)))
    with pytest.raises(StopIteration):
        next(consumer)
    with pytest.raises(InvalidState):
        next(Consumer(broker.address))

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            first = [(await anext(consumer)).offset for _ in range(3)]
            assert first + [record.offset for record in await some(consumer, 2)] == [0, 1, 2, 3, 4]
            assert (await anext(consumer)).offset == 5
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)

    run_without_leaks(scenario())


# Polling and batches


def test_a_poll_hands_out_what_is_there_up_to_a_number(broker):
    topic = topic_with(broker, 120)

    async def scenario():
        async with reading(broker, topics=[topic], max_poll_records=50) as consumer:
            polled = [await consumer.poll(timeout_ms=WAIT_MS) for _ in range(2)]
            polled.append(await consumer.poll(timeout_ms=WAIT_MS, max_records=7))
            assert await consumer.position((topic, 0)) == 107
            polled.append(await consumer.poll(timeout_ms=WAIT_MS))
            assert [len(records) for records in polled] == [50, 50, 7, 13]
            assert values(chain(*polled)) == numbered(0, 120)
            assert await consumer.poll() == []
            with pytest.raises(ValueError, match="max_records=0"):
                await consumer.poll(max_records=0)

    run_without_leaks(scenario())


def test_a_batch_is_of_one_partition(broker):
    topic = topic_with(broker, 60, 60, 60)

    async def scenario():
        async with reading(broker, topics=[topic], max_poll_records=40) as consumer:
            count = 0
            async with aclosing(consumer.batches()) as batches:
                async for batch in batches:
                    assert len({record.partition for record in batch}) == 1
                    assert len(batch) <= 40
                    count += len(batch)
                    if count == 180:
                        break

    run_without_leaks(scenario())


def test_records_that_arrive_later_end_the_wait(broker):
    topic = topic_with(broker, 5)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert len(await some(consumer, 5)) == 5
            waiting = asyncio.create_task(consumer.poll(timeout_ms=WAIT_MS))
            await asyncio.to_thread(send, broker.address, topic, numbered(0, 1, 5))
            assert values(await waiting) == numbered(0, 1, 5)

    run_without_leaks(scenario())


def test_record_batches_hold_what_records_do(broker):
    topic = topic_with(broker, 700, 300)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            seen = [(one.partition, one.value) for one in await some(consumer, 250)]
            async with aclosing(consumer.arrow_batches()) as batches:
                while len(seen) < 1000:
                    batch = await anext(batches)
                    rows = zip(batch["partition"].to_pylist(), batch["value"].to_pylist(),
                               strict=True)  # fmt: skip
                    seen += rows
            for partition, count in enumerate((700, 300)):
                of_it = [value for number, value in seen if number == partition]
                assert of_it == numbered(partition, count)
                assert await consumer.position((topic, partition)) == count

    run_without_leaks(scenario())


def test_a_thread_may_take_record_batches(broker):
    topic = topic_with(broker, 500)
    with Consumer(broker.address, topics=[topic], auto_offset_reset="earliest") as consumer:
        values_seen = []
        for batch in consumer.arrow_batches():
            values_seen += batch["value"].to_pylist()
            if len(values_seen) == 500:
                break
    assert values_seen == numbered(0, 500)


def test_a_compacted_log_is_read_over_its_gaps(quick_broker):
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01",
              "segment.bytes": "1048576"}  # fmt: skip
    topic = create_topic(quick_broker.address, fresh_topic("own-compacted"), 1, config)
    producer = Producer({"bootstrap.servers": quick_broker.address, "enable.idempotence": True})
    for index in range(3000):
        producer.produce(topic, b"%d" % index + bytes(1000), b"key-%d" % (index % 10), partition=0)
    assert producer.flush(60) == 0

    async def read():
        async with reading(quick_broker, topics=[topic]) as consumer:
            records = []
            while await consumer.position((topic, 0)) < 3000:
                records += await consumer.poll(timeout_ms=WAIT_MS)
            return records

    records = eventually(
        lambda: (found := asyncio.run(read())) and len(found) < 2500 and found,
        "it is compacted",
        30,
    )
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    newest = {record.key: record.offset for record in records}
    assert newest == {b"key-%d" % (number % 10): number for number in range(2990, 3000)}


# Transactions


def test_only_committed_records_are_read_if_that_is_asked_for(broker):
    topic = create_topic(broker.address, fresh_topic("own-committed"))
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(60)
    for outcome in ("abort", "commit", "abort", "commit"):
        producer.begin_transaction()
        for index in range(50):
            producer.produce(topic, b"%s-%d" % (outcome.encode(), index), partition=0)
        producer.flush(60)
        getattr(producer, f"{outcome}_transaction")(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    expected = [b"commit-%d" % index for index in range(50)] * 2

    async def scenario():
        async with reading(broker, topics=[topic], isolation_level="read_committed") as consumer:
            assert values(await some(consumer, 100)) == expected
            assert await consumer.poll(timeout_ms=300) == []
            (end,) = (await consumer.end_offsets([(topic, 0)])).values()
            assert await consumer.position((topic, 0)) == end == 204
            assert (consumer.lag((topic, 0)), consumer.high_watermark((topic, 0))) == (0, 205)
        async with reading(broker, topics=[topic]) as consumer:
            assert len(await some(consumer, 201)) == 201

    try:
        run_without_leaks(scenario())
    finally:
        producer.abort_transaction(60)


# Brokers that come and go


def test_a_topic_created_again_is_read_from_its_new_beginning(broker):
    topic = topic_with(broker, 50)
    admin = AdminClient({"bootstrap.servers": broker.address})

    async def scenario():
        async with reading(broker, topics=[topic], allow_auto_create_topics=False) as consumer:
            assert len(await some(consumer, 50)) == 50
            admin.delete_topics([topic])[topic].result(60)
            assert await consumer.poll(timeout_ms=300) == []  # it is seen that the topic is gone
            await asyncio.to_thread(create_again, broker.address, topic)
            assert set(values(await some(consumer, 3))) == {b"a", b"b", b"c"}

    asyncio.run(asyncio.wait_for(scenario(), 120))


def create_again(address, topic):
    create_topic(address, topic)
    send(address, topic, [b"a", b"b", b"c"])


def test_a_restart_of_the_broker_loses_nothing_and_repeats_nothing(tmp_path):
    with make_broker("moldau", tmp_path) as own:
        topic = create_topic(own.address, "restarted")
        send(own.address, topic, numbered(0, 2000))

        async def scenario():
            async with reading(own, topics=[topic]) as consumer:
                records = await some(consumer, 700)
                await asyncio.to_thread(own.kill)
                await asyncio.to_thread(own.start)
                await asyncio.to_thread(send, own.address, topic, numbered(0, 500, 2000))
                records += await some(consumer, 1800)
                assert values(records) == numbered(0, 2500)

        run_without_leaks(scenario())
