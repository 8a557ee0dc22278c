"""Whatever a broker does between the records: each is written once, in order (P4)."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from moldau.client.producer import AsyncProducer, Producer

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 4,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 4,
}
WEIGHTS = {
    Fault.NONE: 12,
    Fault.SLOW: 4,
    Fault.CUT_BEFORE_WRITING: 1,
    Fault.CUT_AFTER_WRITING: 1,
    Fault.NOT_ENOUGH_REPLICAS: 3,
    Fault.TIMED_OUT_AFTER_WRITING: 3,
    Fault.GARBAGE_AFTER_WRITING: 1,
}


def drawn_faults(seed):
    draw = random.Random(seed)
    return lambda: draw.choices(list(WEIGHTS), WEIGHTS.values())[0]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 3),
    batch_size=st.sampled_from([100, 300, 2000]),
    most_records=st.sampled_from([1, 3, 1000]),
    in_flight=st.integers(1, 5),
    compression=st.sampled_from(["none", "gzip", "lz4"]),
)
def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    seed, partitions, batch_size, most_records, in_flight, compression
):
    async def scenario():
        async with (
            FaultyLog(partitions, drawn_faults(seed), most_records=most_records) as broker,
            AsyncProducer(
                broker.address,
                batch_size=batch_size,
                linger_ms=1,
                max_in_flight_requests_per_connection=in_flight,
                compression_type=compression,
                **QUICK,
            ) as producer,
        ):
            sent = [[] for _ in range(partitions)]
            for number in range(200):
                partition = number % partitions
                delivery = producer.send("t", b"%d" % number, partition=partition)
                sent[partition].append((b"%d" % number, delivery))
                await producer.drain()
            await producer.flush()
            for log, expected in zip(broker.logs, sent, strict=True):
                assert log.values == [value for value, _ in expected]
                offsets = [(await delivery).offset for _, delivery in expected]
                assert offsets == list(range(len(expected)))

    run_without_leaks(scenario())


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_so_does_the_blocking_producer(seed):
    async def scenario():
        async with FaultyLog(2, drawn_faults(seed)) as broker:
            await asyncio.to_thread(produce, broker.address)
            for partition, log in enumerate(broker.logs):
                assert log.values == [b"%d" % n for n in range(600) if n % 2 == partition]

    def produce(address):
        with Producer(address, batch_size=200, linger_ms=1, **QUICK) as producer:
            deliveries = [
                producer.send("t", b"%d" % number, partition=number % 2) for number in range(600)
            ]
            offsets = [delivery.result(20).offset for delivery in deliveries]
            assert offsets == [number // 2 for number in range(600)]

    asyncio.run(scenario())
