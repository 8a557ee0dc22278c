"""The producer against a real broker: Moldau, or Kafka where the suite runs on that."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from itertools import chain

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import CODECS, fresh_topic, samples
from kafka_harness.stored import assert_stored_as
from kafka_harness.topics import create_topic, end_offset, read_all
from kits.leaks import run_without_leaks
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import (
    BufferFull,
    ClientClosed,
    DeliveryAborted,
    InvalidState,
    InvalidTopic,
    ProducerFenced,
    RecordTooLarge,
    SerializationFailed,
    UnknownTopicOrPartition,
)
from moldau.client.producer import AsyncProducer, Producer, ProducerRecord
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.murmur2 import partition_for_key

WAIT_S = 60

VERSIONS_OF_1_1 = {0: 5, 3: 5, 10: 1, 18: 1, 22: 0, 24: 0, 25: 0, 26: 0, 28: 0}
OLD_TRANSACTIONS = {0: 11, 26: 4, 28: 4}
"""Held to these a producer adds partitions to a transaction by itself, as before KIP-890."""


class Member:
    """Who commits offsets, without being a member: as a consumer that assigns by hand."""

    generation_id = -1
    member_id = ""
    group_instance_id = None

    def __init__(self, group_id):
        self.group_id = group_id


def topic_of(broker, partitions=1, **config):
    named = {name.replace("_", "."): value for name, value in config.items()}
    return create_topic(broker.address, fresh_topic("own-producer"), partitions, named)


def numbered(count):
    return [b"%d" % number for number in range(count)]


def read_back(broker, topic, count, isolation="read_committed"):
    """Return the messages of a topic's only partition, as another client reads them."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    try:
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        return consumer.consume(count, WAIT_S)
    finally:
        consumer.close()


# Sending


@pytest.mark.parametrize("ceilings", [{}, VERSIONS_OF_1_1], ids=["today", "1.1"])
def test_every_record_gets_its_offset_in_the_order_of_sending(broker, ceilings):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address, version_ceilings=ceilings) as producer:
            deliveries = [producer.send(topic, value) for value in numbered(3000)]
            assert [(await one).offset for one in deliveries] == list(range(3000))

    run_without_leaks(scenario())
    assert read_all(broker.address, topic) == numbered(3000)


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker, codec):
    topic = topic_of(broker)
    given = samples()

    async def scenario():
        async with AsyncProducer(broker.address, compression_type=codec) as producer:
            for one in given:
                producer.send(topic, one.value, one.key, headers=one.headers, timestamp_ms=77)

    run_without_leaks(scenario())
    messages = read_back(broker, topic, len(given))
    assert [(m.key(), m.value(), tuple(m.headers() or ())) for m in messages] == [
        (one.key, one.value, one.headers) for one in given
    ]
    assert {m.timestamp()[1] for m in messages} == {77}
    assert_stored_as(broker.data / f"{topic}-0", codec, idempotent=True)


@pytest.mark.parametrize("acks", ["0", 1, "all"])
def test_acknowledgements_are_as_asked_for(broker, acks):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address, acks=acks) as producer:
            deliveries = [producer.send(topic, value) for value in numbered(10)]
            offsets = [(await one).offset for one in deliveries]
            assert offsets == ([-1] * 10 if acks == "0" else list(range(10)))

    run_without_leaks(scenario())
    if acks != "0":
        assert read_all(broker.address, topic) == numbered(10)
    assert_all_arrive(broker, topic, 10)


def assert_all_arrive(broker, topic, count):
    assert [m.value() for m in read_back(broker, topic, count)] == numbered(count)


def test_a_key_s_records_go_to_java_s_partition_and_others_are_spread(broker):
    topic = topic_of(broker, 5)

    async def scenario():
        async with AsyncProducer(broker.address, batch_size=500, linger_ms=0) as producer:
            for number in range(50):
                key = b"key-%d" % number
                metadata = await producer.send(topic, b"v", key)
                assert metadata.partition == partition_for_key(key, 5)
            spread = [await producer.send(topic, b"x" * 200) for _ in range(100)]
            assert {metadata.partition for metadata in spread} == set(range(5))

    run_without_leaks(scenario())


def test_send_many_sends_values_and_records_and_waits(broker):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address) as producer:
            assert await producer.send_many(topic, numbered(5000)) == 5000
            assert end_offset(broker.address, topic) == 5000
            assert await producer.send_many(topic, [ProducerRecord(topic, b"v", b"k")]) == 1

    run_without_leaks(scenario())


def test_the_blocking_producer_does_the_same_from_many_threads(broker):
    topic = topic_of(broker)
    offsets: list[list[int]] = []

    with Producer(broker.address, buffer_memory=100_000) as producer:

        def work(name):
            sent = [producer.send(topic, b"%d-%d" % (name, n)) for n in range(2000)]
            offsets.append([one.result(WAIT_S).offset for one in sent])

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * WAIT_S)
    assert sorted(chain.from_iterable(offsets)) == list(range(8000))
    assert all(own == sorted(own) for own in offsets)
    stored = read_all(broker.address, topic)
    for name in range(4):
        own = [value for value in stored if value.startswith(b"%d-" % name)]
        assert own == [b"%d-%d" % (name, n) for n in range(2000)]


def test_callbacks_serializers_and_interceptors_see_every_record(broker):
    topic = topic_of(broker)
    acknowledged, called = [], []

    class Stamp:
        def on_send(self, record):
            return record._replace(value=record.value + "!")

        def on_acknowledgement(self, metadata, error):
            acknowledged.append((metadata.offset, error))

    class Failing:
        def on_send(self, record):
            raise RuntimeError("of no use")

    with Producer[str, str](
        broker.address,
        key_serializer="string",
        value_serializer=str.encode,
        interceptor_classes=[Failing(), Stamp()],
    ) as producer:
        for number in range(5):
            delivery = producer.send(topic, str(number), key="k")
            delivery.add_done_callback(lambda one: called.append(one.metadata().offset))
        producer.flush(WAIT_S)
        with pytest.raises(SerializationFailed):
            producer.send(topic, 7)  # type: ignore[arg-type]
    assert acknowledged[:5] == [(offset, None) for offset in range(5)]
    assert called == list(range(5))
    assert read_all(broker.address, topic) == [b"0!", b"1!", b"2!", b"3!", b"4!"]


# What goes wrong


def test_a_partitioner_that_goes_wrong_costs_its_record_and_nothing_else(broker):
    topic = topic_of(broker, partitions=2)

    def chosen(name, key, key_bytes, value, value_bytes, cluster):
        assert cluster.leader(name, 1) in cluster.brokers()
        with suppress(AttributeError):
            cluster.partition_count = 5
        return {b"last": cluster.partition_count(name) - 1, b"true": True, b"far": 99}[value]

    with Producer(broker.address, partitioner_class=chosen) as producer:
        for wrong in (b"true", b"none"):
            with pytest.raises(SerializationFailed, match="partitioner"):
                producer.send(topic, wrong)
        with pytest.raises(UnknownTopicOrPartition, match="no partition 99: there are 2"):
            producer.send(topic, b"far").result(WAIT_S)
        assert producer.send(topic, b"last").result(WAIT_S).partition == 1
    assert [read_all(broker.address, topic, number) for number in range(2)] == [[], [b"last"]]


def test_a_topic_that_is_not_there_fails_by_name(broker):
    topic = topic_of(broker, 2)

    async def scenario():
        async with AsyncProducer(broker.address, max_block_ms=300) as producer:
            invalid = producer.send("no/such", b"v")
            with pytest.raises(InvalidTopic):
                await invalid
            with pytest.raises(UnknownTopicOrPartition):
                await producer.send(topic, b"v", partition=7)
            assert (await producer.send(topic, b"v", partition=1)).partition == 1
            with pytest.raises(SerializationFailed):
                producer.send(topic, "text")  # type: ignore[arg-type]

    run_without_leaks(scenario())
    with Producer(broker.address, max_block_ms=300) as producer:
        with pytest.raises(InvalidTopic):
            producer.send("no/such", b"v")
        with pytest.raises(UnknownTopicOrPartition):
            producer.send(topic, b"v", partition=7)


def test_a_batch_too_large_for_the_topic_is_split_and_a_record_is_refused(broker):
    topic = topic_of(broker, max_message_bytes="2000")

    async def scenario():
        async with AsyncProducer(broker.address) as producer:
            deliveries = [producer.send(topic, value * 20) for value in numbered(1000)]
            assert [(await one).offset for one in deliveries] == list(range(1000))
            with pytest.raises(RecordTooLarge):
                await producer.send(topic, b"x" * 3000)
            with pytest.raises(RecordTooLarge):
                producer.send(topic, b"x" * 2_000_000)
            assert (await producer.send(topic, b"after")).offset == 1000

    run_without_leaks(scenario())
    assert read_all(broker.address, topic) == [v * 20 for v in numbered(1000)] + [b"after"]


def test_a_full_buffer_is_felt_and_drain_waits_it_out(broker):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address, buffer_memory=40_000) as producer:
            with pytest.raises(BufferFull):
                deque((producer.send(topic, b"x" * 100) for _ in range(1000)), maxlen=0)
            await producer.flush()
            for _ in range(1000):
                producer.send(topic, b"x" * 100)
                await producer.drain()

    run_without_leaks(scenario())


def test_closing_at_once_tells_every_delivery(broker):
    topic = topic_of(broker)

    async def scenario():
        producer = AsyncProducer(broker.address, linger_ms=1000)
        await producer.start()
        await producer.send(topic, b"first")
        deliveries = [producer.send(topic, value) for value in numbered(100)]
        await producer.close(0)
        for delivery in deliveries:
            with pytest.raises(DeliveryAborted):
                await delivery
        with pytest.raises(ClientClosed):
            producer.send(topic, b"late")

    run_without_leaks(scenario())


# Transactions


@pytest.mark.parametrize("ceilings", [{}, OLD_TRANSACTIONS, VERSIONS_OF_1_1],
                         ids=["today", "before KIP-890", "1.1"])  # fmt: skip
def test_committed_transactions_count_and_aborted_ones_do_not(broker, ceilings):
    topic = topic_of(broker)
    name = fresh_topic("id")

    async def scenario():
        async with AsyncProducer(
            broker.address, transactional_id=name, version_ceilings=ceilings, linger_ms=60_000
        ) as producer:
            with pytest.raises(InvalidState):
                producer.send(topic, b"outside")
            for number in range(4):
                with pytest.raises(DeliveryAborted):
                    await (await abandoned(producer, topic, b"aborted-%d" % number))
                async with producer.transaction() as transaction:
                    producer.send(topic, b"committed-%d" % number)
                    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(number + 1)}
                    await transaction.send_offsets(offsets, Member(name))

    run_without_leaks(scenario())
    values = [message.value() for message in read_back(broker, topic, 4)]
    assert values == [b"committed-%d" % number for number in range(4)]
    assert committed_offset(broker, name, topic) == 4


async def abandoned(producer, topic, value):
    """Leave a transaction by an exception; return the delivery of what was not sent by then."""
    with suppress(ZeroDivisionError):
        async with producer.transaction():
            producer.send(topic, value)
            await producer.flush()
            late = producer.send(topic, b"never")
            raise ZeroDivisionError
    return late


def committed_offset(broker, group, topic):
    consumer = ConfluentConsumer({"bootstrap.servers": broker.address, "group.id": group})
    try:
        (found,) = consumer.committed([ConfluentPartition(topic, 0)], WAIT_S)
        return found.offset
    finally:
        consumer.close()


@pytest.mark.parametrize("ceilings", [{}, OLD_TRANSACTIONS], ids=["today", "before KIP-890"])
def test_a_newer_producer_of_the_same_id_fences_the_older_one(broker, ceilings):
    topic = topic_of(broker)
    settings = {"transactional_id": fresh_topic("id"), "version_ceilings": ceilings}
    with Producer(broker.address, **settings) as older:
        with older.transaction():
            older.send(topic, b"0")
        older.begin_transaction()
        older.send(topic, b"fenced").result(WAIT_S)
        with Producer(broker.address, **settings) as newer:
            with pytest.raises(ProducerFenced):
                older.commit_transaction()
            with pytest.raises(ProducerFenced):
                older.begin_transaction()
            with newer.transaction():
                newer.send(topic, b"1")
    assert [message.value() for message in read_back(broker, topic, 2)] == [b"0", b"1"]


# Faults


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_a_restart_of_the_broker_loses_nothing_and_repeats_nothing(tmp_path, stop):
    with make_broker(kind_under_test(), tmp_path) as own:
        topic = create_topic(own.address, "restarted", 2)

        async def scenario():
            async with AsyncProducer(own.address) as producer:
                deliveries = []

                async def load():
                    for number in range(20_000):
                        deliveries.append(
                            producer.send(topic, b"%d" % number, partition=number % 2)
                        )
                        await producer.drain()
                        if number % 100 == 0:
                            await asyncio.sleep(0.005)

                loading = asyncio.create_task(load())
                await asyncio.sleep(0.3)
                await asyncio.to_thread(getattr(own, stop))
                await asyncio.to_thread(own.start)
                await loading
                offsets = [(await delivery).offset for delivery in deliveries]
                assert offsets == [number // 2 for number in range(20_000)]

        run_without_leaks(scenario())
        for partition in range(2):
            expected = [b"%d" % number for number in range(partition, 20_000, 2)]
            assert read_all(own.address, topic, partition) == expected


def test_what_is_consumed_and_what_is_made_of_it_count_together_or_not_at_all(broker):
    source, target = topic_of(broker), topic_of(broker)
    group = fresh_topic("group")

    async def scenario():
        async with AsyncProducer(broker.address) as producer:
            await producer.send_many(source, numbered(100))
        async with (
            AsyncProducer(broker.address, transactional_id=group) as producer,
            AsyncConsumer(
                broker.address,
                group_id=group,
                topics=[source],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
        ):
            while not consumer.assignment():  # noqa: ASYNC110 - the group works by itself
                await asyncio.sleep(0.02)
            done = turn = 0
            while done < 100:
                turn += 1
                with suppress(ZeroDivisionError):
                    async with producer.transaction(consumer):
                        records = await consumer.poll(timeout_ms=1000, max_records=10)
                        for record in records:
                            producer.send(target, record.value + b"!")
                        if turn % 2:
                            raise ZeroDivisionError
                        done += len(records)

    run_without_leaks(scenario())
    values = [message.value() for message in read_back(broker, target, 100)]
    assert values == [value + b"!" for value in numbered(100)]
    assert committed_offset(broker, group, source) == 100
