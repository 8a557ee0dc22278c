"""Records that fail, and callers that give up, against a real broker: nothing counts half."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, end_offset
from kits.leaks import run_without_leaks
from moldau.client.errors import (
    AuthenticationFailed,
    ClientError,
    InvalidTopic,
    UnknownTopicOrPartition,
)
from moldau.client.producer import AsyncProducer, Producer
from moldau.protocol.messages.transactions import EndTxnRequest

WAIT_S = 40
"""Less than a producer waits for a broker of itself: so whoever waits in vain is found."""


def topic_of(broker, **config):
    named = {name.replace("_", "."): value for name, value in config.items()}
    return create_topic(broker.address, fresh_topic("own-failures"), 1, named)


def committed_values(broker, topic, last):
    """Return what counts in a topic, as another client reads it, up to this value."""
    settings = {"bootstrap.servers": broker.address, "group.id": "none"}
    consumer = ConfluentConsumer({**settings, "enable.auto.commit": False})
    values = []
    try:
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        while values[-1:] != [last]:
            message = consumer.poll(WAIT_S)
            assert message is not None, values
            values.append(message.value())
    finally:
        consumer.close()
    return values


def test_acknowledged_by_nobody_all_records_leave_before_the_producer_is_closed(broker):
    topic, count = topic_of(broker), 5000
    with Producer(broker.address, acks=0) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * 1000)
    end = time.monotonic() + WAIT_S
    while end_offset(broker.address, topic) < count and time.monotonic() < end:
        time.sleep(0.05)
    assert end_offset(broker.address, topic) == count


@pytest.mark.parametrize(
    ("name", "partition", "error"),
    [("not a topic!", None, InvalidTopic), (None, 99, UnknownTopicOrPartition)],
    ids=["topic", "partition"],
)
def test_a_transaction_is_not_committed_without_a_record_that_never_got_a_batch(
    broker, name, partition, error
):
    topic = topic_of(broker)

    async def incomplete(producer):
        async with producer.transaction():
            await producer.send(topic, b"aborted")
            producer.send(name or topic, b"lost", partition=partition)

    async def scenario():
        async with AsyncProducer(broker.address, transactional_id=topic) as producer:
            with pytest.raises(error):
                await incomplete(producer)
            async with producer.transaction():
                producer.send(topic, b"committed")

    run_without_leaks(scenario(), timeout_s=WAIT_S)
    assert committed_values(broker, topic, b"committed") == [b"committed"]


def test_a_transaction_is_not_committed_without_records_of_a_leader_that_refuses_us(broker):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address, transactional_id=topic) as producer:
            cluster = producer._core.cluster
            connect = cluster.connection

            async def refused(broker_id, *lane):
                if not lane:
                    raise AuthenticationFailed("who are you?")
                return await connect(broker_id, *lane)

            cluster.connection = refused
            with pytest.raises(AuthenticationFailed):
                async with producer.transaction():
                    producer.send(topic, b"lost")
        async with (
            AsyncProducer(broker.address, transactional_id=topic) as next_one,
            next_one.transaction(),
        ):
            next_one.send(topic, b"committed")

    run_without_leaks(scenario(), timeout_s=WAIT_S)
    assert committed_values(broker, topic, b"committed") == [b"committed"]


def test_a_batch_too_large_that_is_on_its_way_does_not_hold_up_an_abort(broker):
    topic = topic_of(broker, max_message_bytes="1000")

    async def scenario():
        async with AsyncProducer(broker.address, transactional_id=topic, linger_ms=0) as producer:
            async with producer.transaction():
                await producer.send(topic, b"first")
            producer.begin_transaction()
            sent = [producer.send(topic, b"z" * 900) for _ in range(16)]
            producer._core.sender.close_batches()
            producer._core.sender.pump()
            await producer.abort_transaction()
            assert all(one.exception() is not None for one in sent)
            async with producer.transaction():
                producer.send(topic, b"last")

    run_without_leaks(scenario(), timeout_s=WAIT_S)
    assert committed_values(broker, topic, b"last") == [b"first", b"last"]


class Cancelling:
    """Cancels whoever commits: while records are on their way, or once EndTxn has been sent."""

    def __init__(self, producer, *, late):
        self._transactions = producer._core.transactions
        self._call = self._transactions._call
        self._late = late
        self.task = None
        self._transactions._call = self.call
        self._flush = producer._core.sender.flush
        producer._core.sender.flush = self.flush

    async def flush(self):
        if self.task is not None and not self._late:
            self.task.cancel()
            self.task = None
        await asyncio.sleep(0)
        await self._flush()

    async def call(self, request, *version):
        if self.task is not None and self._late and isinstance(request, EndTxnRequest):
            self.task.cancel()
            self.task = None
            await asyncio.sleep(0)
        return await self._call(request, *version)


@pytest.mark.parametrize("late", [False, True])
def test_a_block_cancelled_during_its_commit_is_over_one_way_or_the_other(broker, late):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(broker.address, transactional_id=topic) as producer:
            cancelling = Cancelling(producer, late=late)

            async def work():
                async with producer.transaction():
                    producer.send(topic, b"cancelled")
                    cancelling.task = asyncio.current_task()

            task = asyncio.create_task(work())
            await asyncio.wait([task])
            assert task.cancelled()
            assert not producer.in_transaction
            async with producer.transaction():
                producer.send(topic, b"next")

    run_without_leaks(scenario(), timeout_s=WAIT_S)
    expected = [b"cancelled", b"next"] if late else [b"next"]
    assert committed_values(broker, topic, b"next") == expected


def test_closing_commits_where_the_commit_was_begun_and_its_outcome_is_not_known(broker):
    topic = topic_of(broker)

    async def scenario():
        async with AsyncProducer(
            broker.address, transactional_id=topic, max_block_ms=2000
        ) as producer:
            producer.begin_transaction()
            await producer.send(topic, b"v")
            transactions = producer._core.transactions
            call = transactions._call

            async def unreachable(request, *version):
                await asyncio.sleep(WAIT_S)

            transactions._call = unreachable
            with pytest.raises(ClientError):
                await producer.commit_transaction()
            transactions._call = call

    run_without_leaks(scenario(), timeout_s=WAIT_S)
    assert committed_values(broker, topic, b"v") == [b"v"]


def test_closing_with_a_time_out_does_not_wait_for_a_silent_coordinator(broker):
    topic = topic_of(broker)

    async def silent(*_):
        await asyncio.Event().wait()

    async def scenario():
        producer = AsyncProducer(broker.address, transactional_id=topic)
        await producer.start()
        producer.begin_transaction()
        await producer.send(topic, b"v")
        producer._core.transactions._call = silent
        await producer.close(0.1)

    run_without_leaks(scenario(), timeout_s=WAIT_S)
