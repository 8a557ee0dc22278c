"""`moldau bench`: how fast a running cluster is, measured with Moldau's own client.

The figures are those of broker, network and one Python process together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from functools import partial
from itertools import cycle
from typing import Any, Final, NamedTuple, TypeVar

import click

from moldau.base.clock import Clock, SystemClock, system_random
from moldau.base.histogram import Histogram
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.report import Column, listing
from moldau.cli.frame.session import Command, Session, asking
from moldau.cli.operations.perf import (
    POLL_MS,
    Load,
    half_random_hex,
    poll_once,
    round_trip,
    send_load,
)
from moldau.cli.stream.progress import Progress
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import RequestTimedOut
from moldau.client.producer import AsyncDelivery, AsyncProducer
from moldau.client.producing.deliveries import place_of
from moldau.client.records import TopicPartition

T = TypeVar("T")

SIZE_MAX: Final = 1 << 30
"""A record has to fit into one request."""

SAMPLE_COUNT: Final = 10_000
"""The latency of so many records is measured: enough for a p99.9, at no cost for the others."""
PROGRESS_COUNT: Final = 1_000
POLL_COUNT_MAX: Final = 5_000
WARM_UP_COUNT: Final = 20
"""The first round trips connect, look up leaders and load code."""
ROUND_TRIP_MAX_S: Final = 30.0
"""A record that has not come back by then will not."""

PERCENTILES: Final = {"p50_ms": 50.0, "p99_ms": 99.0, "p999_ms": 99.9}

LATENCY_COLUMNS: Final = (
    Column("p50_ms", "P50-MS"),
    Column("p99_ms", "P99-MS"),
    Column("p999_ms", "P99.9-MS"),
    Column("max_ms", "MAX-MS"),
)
FLOW_COLUMNS: Final = (
    Column("records", "RECORDS"),
    Column("bytes", "BYTES"),
    Column("seconds", "SECONDS"),
    Column("records_per_s", "RECORDS/S"),
    Column("mb_per_s", "MB/S"),
    *LATENCY_COLUMNS,
)
TRIP_COLUMNS: Final = (
    Column("until", "UNTIL"),
    Column("records", "RECORDS"),
    *LATENCY_COLUMNS,
)

_size_option = click.option(
    "--size", type=click.IntRange(1, SIZE_MAX), default=100, show_default=True,
    help="Bytes of a value.",
)  # fmt: skip
_topic_argument = click.argument("topic", shell_complete=complete_topics)


def _acks_option(command: Command) -> Command:
    return click.option(
        "--acks", type=click.Choice(("all", "1", "0")), help="Who must have a record [all]."
    )(command)


@click.group()
def bench() -> None:
    """Measure a running cluster.

    The topic has to be there, or to be created by the broker itself; records stay in it.
    """


@bench.command()
@_topic_argument
@click.option("-n", "--records", type=click.IntRange(1), default=1_000_000, show_default=True)
@_size_option
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Records a second at most.")
@_acks_option
@asking
def produce(
    session: Session, topic: str, records: int, size: int, rate: float | None, acks: str | None
) -> None:
    r"""Send records; latency is from sending to the acknowledgement.

    Further settings of the producer by -X: compression.type, linger.ms, batch.size.
    """
    load = Load(topic, _values(size), records, rate)
    settings = _producer_settings(session, acks)

    async def work() -> Figures:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(**settings)
        async with producer:
            return await measure_produce(producer, load, progress, SystemClock())

    progress = Progress("sent", total=load.record_count)
    _show(session, _run(work(), progress))


@bench.command()
@_topic_argument
@click.option("-n", "--records", type=click.IntRange(1), help="Stop after so many [all there are].")
@asking
def consume(session: Session, topic: str, records: int | None) -> None:
    """Read what a topic holds; latency is that of a poll, of up to 5000 records."""
    settings = session.connection.for_client(AsyncConsumer)

    async def work() -> Figures:
        async with _consumer(settings) as consumer:
            return await measure_consume(consumer, topic, records, progress, SystemClock())

    progress = Progress("read", total=records)
    _show(session, _run(work(), progress))


@bench.command()
@_topic_argument
@click.option("-n", "--records", type=click.IntRange(1), default=10_000, show_default=True)
@_size_option
@_acks_option
@asking
def latency(session: Session, topic: str, records: int, size: int, acks: str | None) -> None:
    """Send records one after the other; how long until each is acknowledged, and consumed."""
    load = Load(topic, _values(size), records)
    sending = {"linger.ms": 0} | _producer_settings(session, acks)
    reading = session.connection.for_client(AsyncConsumer)

    async def work() -> list[dict[str, Any]]:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(**sending)
        async with producer, _consumer(reading) as consumer:
            acknowledged_us, consumed_us = await measure_latency(
                producer, consumer, load, progress, SystemClock()
            )
        return [
            {"until": "acknowledged", **_latencies(acknowledged_us)},
            {"until": "consumed", **_latencies(consumed_us)},
        ]

    progress = Progress("sent and read", total=records)
    rows = [{"records": records, **row} for row in _run(work(), progress)]
    session.conclude(listing(TRIP_COLUMNS, rows))


def _producer_settings(session: Session, acks: str | None) -> dict[str, Any]:
    settings = session.connection.for_client(AsyncProducer)
    return settings if acks is None else settings | {"acks": acks}


def _consumer(settings: dict[str, Any]) -> AsyncConsumer[Any, Any]:
    return AsyncConsumer(**{"allow.auto.create.topics": False} | settings)


def _run(work: Coroutine[Any, Any, T], progress: Progress) -> T:
    """Run a measurement; its progress gives way to what comes next."""
    try:
        return asyncio.run(work)
    finally:
        progress.clear()


def _show(session: Session, figures: Figures) -> None:
    seconds = max(figures.seconds, 1e-9)
    row = {
        "records": figures.record_count,
        "bytes": figures.size,
        "seconds": round(figures.seconds, 3),
        "records_per_s": round(figures.record_count / seconds),
        "mb_per_s": round(figures.size / seconds / 1e6, 2),
        **_latencies(figures.latencies_us),
    }
    session.conclude(listing(FLOW_COLUMNS, [row]))


def _latencies(histogram: Histogram) -> dict[str, float]:
    found = {
        name: round(histogram.percentile(percent) / 1000, 3)
        for name, percent in PERCENTILES.items()
    }
    return found | {"max_ms": round(histogram.maximum / 1000, 3)}


def _values(size: int) -> Iterator[bytes]:
    return cycle(half_random_hex(size, system_random().randbytes))


# Measuring


class Figures(NamedTuple):
    """What was measured."""

    record_count: int
    size: int
    seconds: float
    latencies_us: Histogram


async def measure_produce(
    producer: AsyncProducer[bytes, bytes], load: Load, progress: Progress, clock: Clock
) -> Figures:
    """Send records; latency is from `send` to the acknowledgement. Raises the first error."""
    latencies = Histogram()
    sample_every = max(1, load.record_count // SAMPLE_COUNT)
    last_of_batches: dict[Any, AsyncDelivery] = {}
    count = size = 0

    def on_sent(delivery: AsyncDelivery, value: bytes) -> None:
        nonlocal count, size
        last_of_batches[place_of(delivery)[0]] = delivery
        if count % sample_every == 0:
            delivery.add_done_callback(partial(_note, latencies, clock, clock.monotonic()))
        count += 1
        size += len(value)
        if count % PROGRESS_COUNT == 0:
            progress.add(PROGRESS_COUNT, PROGRESS_COUNT * len(value))

    began = clock.monotonic()
    await send_load(producer, load, on_sent, clock)
    seconds = clock.monotonic() - began
    for delivery in last_of_batches.values():
        await delivery
    return Figures(count, size, seconds, latencies)


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
    """Read what a topic holds, or a number of records of it; latency is that of each poll."""
    ends = await consumer.end_offsets(await consumer.partitions_for(topic))
    consumer.assign(ends)
    consumer.seek_to_beginning(*ends)
    waits = Histogram()
    began = last_s = clock.monotonic()
    while count_max is None or progress.count < count_max:
        left = POLL_COUNT_MAX if count_max is None else count_max - progress.count
        polled = await poll_once(consumer, POLL_MS, min(left, POLL_COUNT_MAX), clock)
        if polled.record_count:
            last_s = polled.answered_s
            waits.add(round((last_s - polled.asked_s) * 1e6))
            progress.add(polled.record_count, polled.size)
        if await _is_past(consumer, ends):
            break
    return Figures(progress.count, progress.size, last_s - began, waits)


async def _is_past(consumer: AsyncConsumer[Any, Any], ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True


async def measure_latency(
    producer: AsyncProducer[bytes, bytes],
    consumer: AsyncConsumer[Any, Any],
    load: Load,
    progress: Progress,
    clock: Clock,
) -> tuple[Histogram, Histogram]:
    """Make one round trip after the other; return the times until acknowledged and consumed."""
    partition = min(await consumer.partitions_for(load.topic))
    ends = await consumer.end_offsets([partition])
    consumer.assign([partition])
    consumer.seek(partition, ends[partition])
    acknowledged_us, consumed_us = Histogram(), Histogram()
    for number in range(-WARM_UP_COUNT, load.record_count):
        record = (load.topic, next(load.values), partition.partition)
        trip = await round_trip(producer, consumer, record, ROUND_TRIP_MAX_S, clock)
        if not trip.arrived:
            raise RequestTimedOut(
                f"the record at offset {trip.offset} was not consumed within {ROUND_TRIP_MAX_S:g} s"
            )
        if number >= 0:
            acknowledged_us.add(round(trip.acknowledged_s * 1e6))
            consumed_us.add(round(trip.consumed_s * 1e6))
            progress.add(1, len(record[1]))
    return acknowledged_us, consumed_us
