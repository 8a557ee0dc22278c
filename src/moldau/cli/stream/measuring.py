"""Measuring a running cluster: how fast it takes records, gives them, and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.histogram import Histogram
from moldau.cli.stream.progress import Progress
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import RequestTimedOut
from moldau.client.producer import AsyncDelivery, AsyncProducer
from moldau.client.records import TopicPartition

SAMPLE_COUNT: Final = 10_000
"""Of so many records the latency is measured: enough for a p99.9, and it costs the rest nothing."""

PROGRESS_COUNT: Final = 1_000
POLL_MS: Final = 500
POLL_COUNT_MAX: Final = 5_000

WARM_UP_COUNT: Final = 20
"""The first round trips connect, look up leaders and load code."""

ROUND_TRIP_MAX_S: Final = 30.0
"""A record that has not come back by then will not."""


class Load(NamedTuple):
    """What to send."""

    topic: str
    values: list[bytes]
    """Sent in turns, so that compression has something to do but not everything."""
    record_count: int
    rate: float | None = None
    """Records a second at most."""


class Figures(NamedTuple):
    """What came out."""

    record_count: int
    size: int
    seconds: float
    latencies_us: Histogram


async def measure_produce(
    producer: AsyncProducer[bytes, bytes], load: Load, progress: Progress, clock: Clock
) -> Figures:
    """Send records as fast as allowed; latency is from `send` to the acknowledgement.

    Raises what the first that failed failed of. Cancelled, what was sent stays sent.
    """
    latencies = Histogram()
    values, count_of_values = load.values, len(load.values)
    step = max(1, load.record_count // SAMPLE_COUNT)
    unsettled: dict[Any, AsyncDelivery] = {}
    size = 0
    began = clock.monotonic()
    for number in range(load.record_count):
        value = values[number % count_of_values]
        delivery = producer.send(load.topic, value)
        unsettled[delivery.place()[0]] = delivery
        size += len(value)
        if number % step == 0:
            delivery.add_done_callback(partial(_note, latencies, clock, clock.monotonic()))
        await producer.drain()
        if number % PROGRESS_COUNT == PROGRESS_COUNT - 1:
            progress.add(PROGRESS_COUNT, PROGRESS_COUNT * len(value))
        if (
            load.rate is not None
            and (ahead_s := began + number / load.rate - clock.monotonic()) > 0
        ):
            await asyncio.sleep(ahead_s)
    await producer.flush()
    seconds = clock.monotonic() - began
    for delivery in unsettled.values():
        await delivery
    return Figures(load.record_count, size, seconds, latencies)


def _note(latencies: Histogram, clock: Clock, began: float, delivery: AsyncDelivery) -> None:
    if delivery.exception() is None:
        latencies.add(round((clock.monotonic() - began) * 1e6))


async def measure_consume(
    consumer: AsyncConsumer[Any, Any],
    topic: str,
    count_max: int | None,
    progress: Progress,
    clock: Clock,
) -> Figures:
    """Read what a topic holds, or a number of records of it; latency is that of each poll.

    Cancelled, nothing is left behind.
    """
    ends = await consumer.end_offsets(await consumer.partitions_for(topic))
    consumer.assign(ends)
    consumer.seek_to_beginning(*ends)
    waits = Histogram()
    began = clock.monotonic()
    last_s = began
    while count_max is None or progress.count < count_max:
        asked = clock.monotonic()
        left = POLL_COUNT_MAX if count_max is None else count_max - progress.count
        records = await consumer.poll(POLL_MS, max_records=min(left, POLL_COUNT_MAX))
        if records:
            last_s = clock.monotonic()
            waits.add(round((last_s - asked) * 1e6))
            progress.add(len(records), sum(_size(one.key) + _size(one.value) for one in records))
        if await _is_past(consumer, ends.items()):
            break
    return Figures(progress.count, progress.size, last_s - began, waits)


async def _is_past(
    consumer: AsyncConsumer[Any, Any], ends: Iterable[tuple[TopicPartition, int]]
) -> bool:
    for partition, end in ends:
        if await consumer.position(partition) < end:
            return False
    return True


def _size(part: bytes | None) -> int:
    return 0 if part is None else len(part)


class RoundTrips(NamedTuple):
    """How long records took that were sent one after the other."""

    acknowledged_us: Histogram
    consumed_us: Histogram


async def measure_latency(
    producer: AsyncProducer[bytes, bytes],
    consumer: AsyncConsumer[Any, Any],
    load: Load,
    progress: Progress,
    clock: Clock,
) -> RoundTrips:
    """Send a record, wait for its acknowledgement and for the consumer to have it; and again.

    Cancelled, what was sent stays sent.
    """
    partition = min(await consumer.partitions_for(load.topic))
    ends = await consumer.end_offsets([partition])
    consumer.assign([partition])
    consumer.seek(partition, ends[partition])
    trips = RoundTrips(Histogram(), Histogram())
    for number in range(-WARM_UP_COUNT, load.record_count):
        value = load.values[number % len(load.values)]
        began = clock.monotonic()
        metadata = await producer.send(load.topic, value, partition=partition.partition)
        acknowledged_s = clock.monotonic()
        await _await_record(consumer, metadata.offset)
        consumed_s = clock.monotonic()
        if number >= 0:
            trips.acknowledged_us.add(round((acknowledged_s - began) * 1e6))
            trips.consumed_us.add(round((consumed_s - began) * 1e6))
            progress.add(1, len(value))
    return trips


async def _await_record(consumer: AsyncConsumer[Any, Any], offset: int) -> None:
    """Wait for a record; others that were sent meanwhile are passed."""
    try:
        async with asyncio.timeout(ROUND_TRIP_MAX_S):
            while True:
                records = await consumer.poll(POLL_MS)
                if records and records[-1].offset >= offset:
                    return
    except TimeoutError:
        raise RequestTimedOut(
            f"the record at offset {offset} was not consumed within {ROUND_TRIP_MAX_S:g} s"
        ) from None


def values_of(size: int, random: Callable[[int], bytes]) -> list[bytes]:
    """Make values of letters, half of which say nothing new: as compressible as much JSON."""
    return [random((size + 1) // 2).hex().encode()[:size] for _ in range(64)]
