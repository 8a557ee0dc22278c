"""A record that fails takes nothing else along: no flush, no partition, no other record."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.producer_kit import GUARD
from kits.scripted_broker import PRODUCE
from moldau.client.errors import DeliveryTimedOut, RecordTooLarge, SerializationFailed
from moldau.client.producer import AsyncProducer, Producer
from moldau.client.producing.batch_results import BatchResult
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.deliveries import FIRST_LOOK_COUNT, Sent, Tally
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.records.record import read_records

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 4,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 4,
    "linger_ms": 0,
}
IMPATIENT = {**QUICK, "request_timeout_ms": 60, "delivery_timeout_ms": 150}
BIG = b"big"
NO_LEADER = [(-1, 0)]
WAIT_S = 30
"""Less than a producer with usual settings waits of itself, so waiting in vain is found."""


def honest_log():
    return FaultyLog(1, lambda: Fault.NONE)


class PickyLog(FaultyLog):
    """Takes no batch that holds a certain record."""

    def __init__(self):
        super().__init__(1, lambda: Fault.NONE)
        self._answers[PRODUCE] = self._pick

    async def _pick(self, asked):
        (topic,) = asked.request.topic_data
        (data,) = topic.partition_data
        if all(record.value != BIG for record in read_records(memoryview(data.records))):
            await self._produce(asked)
            return
        refused = PartitionProduceResponse(data.index, ErrorCode.MESSAGE_TOO_LARGE, -1)
        asked.answer(ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [refused])]))


def test_a_flush_ends_when_what_it_waits_for_timed_out_and_nobody_watches():
    async def scenario():
        async with honest_log() as broker:
            broker.topics["t"] = NO_LEADER
            async with AsyncProducer(broker.address, **IMPATIENT) as producer:
                delivery = producer.send("t", b"v")
                await producer.flush()
                assert isinstance(delivery.exception(), DeliveryTimedOut)

    run_without_leaks(scenario(), timeout_s=WAIT_S)


def test_whoever_waits_for_room_gets_it_when_what_took_it_timed_out():
    async def scenario():
        async with honest_log() as broker:
            led, broker.topics["t"] = broker.topics["t"], NO_LEADER
            room = {"buffer_memory": 1000, "batch_size": 100}
            async with AsyncProducer(broker.address, **room, **IMPATIENT) as producer:
                producer.send("t", b"x" * 700)
                await producer.drain()
                broker.topics["t"] = led
                assert (await producer.send("t", b"x" * 700)).offset == 0

    run_without_leaks(scenario(), timeout_s=WAIT_S)


@pytest.mark.parametrize("timestamp_ms", [time.time() * 1000, 1 << 70, -1, "0"])
def test_what_is_no_timestamp_is_refused_whether_the_topic_is_known_or_not(timestamp_ms):
    async def scenario():
        async with (
            honest_log() as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            for offset in range(2):
                with pytest.raises(SerializationFailed, match="is not a timestamp"):
                    producer.send("t", b"v", timestamp_ms=timestamp_ms)
                assert (await producer.send("t", b"v", timestamp_ms=1)).offset == offset

    run_without_leaks(scenario())


@pytest.mark.patches
def test_a_batch_that_cannot_be_written_fails_and_its_partition_goes_on(monkeypatch):
    def unwritable(_):
        raise struct.error("does not fit")

    async def scenario():
        async with (
            honest_log() as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            await producer.send("t", b"0")
            with monkeypatch.context() as patched:
                patched.setattr(ProducerBatch, "build", unwritable)
                for _ in range(6):  # one more than may be on their way
                    with pytest.raises(SerializationFailed, match="does not fit"):
                        await producer.send("t", b"lost")
            assert (await producer.send("t", b"1")).offset == 1

    run_without_leaks(scenario(), timeout_s=WAIT_S)


class MoodyPartitioner:
    """Fails for one value."""

    def configure(self, configs):
        pass

    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
        return {b"good": 0, b"bad": -1, b"yes": True, b"half": 0.5, b"none": None}[value]

    def close(self):
        pass


def test_a_partitioner_that_raises_fails_its_record_and_no_other_that_waits_for_the_topic():
    async def scenario():
        async with (
            honest_log() as broker,
            AsyncProducer(
                broker.address, partitioner_class=MoodyPartitioner(), **QUICK
            ) as producer,
        ):
            wrong = (b"odd", b"bad", b"yes", b"half", b"none")
            first, *sent, last = [producer.send("t", one) for one in (b"good", *wrong, b"good")]
            assert [(await one).offset for one in (first, last)] == [0, 1]
            for delivery in sent:
                with pytest.raises(SerializationFailed, match="partitioner"):
                    await delivery
            for value in wrong:  # the topic is known by now
                with pytest.raises(SerializationFailed, match="partitioner"):
                    producer.send("t", value)

    run_without_leaks(scenario(), timeout_s=WAIT_S)


def test_send_many_tells_of_a_record_refused_in_one_half_of_a_batch():
    async def scenario():
        async with PickyLog() as broker:
            settings = {**QUICK, "linger_ms": 20}
            async with AsyncProducer(broker.address, **settings) as producer:
                with pytest.raises(RecordTooLarge):
                    await producer.send_many("t", [BIG, b"0"])

            def blocking():
                with Producer(broker.address, **settings) as producer:
                    with pytest.raises(RecordTooLarge):
                        producer.send_many("t", [BIG, b"1"])
                    assert producer.send_many("t", [b"2", b"3"]) == 2

            await asyncio.to_thread(blocking)
            assert broker.logs[0].values == [b"0", b"1", b"2", b"3"]

    run_without_leaks(scenario(), timeout_s=WAIT_S)


def test_a_tally_keeps_what_is_on_its_way_and_the_first_that_failed():
    tally = Tally()
    waiting, written, early, late = (BatchResult("t", 0, GUARD) for _ in range(4))
    written.settle(None, 0)
    late.settle(SerializationFailed("the later one"))
    tally.add(Sent(waiting, 0, 0))
    for batch_result in (late, *[written] * FIRST_LOOK_COUNT, early, late):
        tally.add(Sent(batch_result, 0, 0))
    assert len(tally._kept) < 10
    early.settle(SerializationFailed("the earlier one, told later"))
    waiting.settle(None, 0)
    with pytest.raises(SerializationFailed, match="the later one"):
        tally.result()


def test_after_drain_there_is_room_for_any_record_that_can_be_sent():
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.SLOW) as broker,
            AsyncProducer(broker.address, buffer_memory=1200, batch_size=100, **QUICK) as producer,
        ):
            await producer.send("t", b"warm")
            for _ in range(5):
                for size in (500, 800, 1000):
                    producer.send("t", b"x" * size)
                    await producer.drain()
            await producer.flush()
            assert len(broker.logs[0].values) == 16

    run_without_leaks(scenario(), timeout_s=WAIT_S)
