"""`moldau bench`: how fast a running cluster is, measured with Moldau's own client.

The figures are those of broker, network and one Python process together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

from moldau.base.clock import SystemClock, system_random
from moldau.base.histogram import Histogram
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.report import Column, listing
from moldau.cli.frame.session import Command, Session, asking
from moldau.cli.stream.measuring import (
    Figures,
    Load,
    measure_consume,
    measure_latency,
    measure_produce,
    values_of,
)
from moldau.cli.stream.progress import Progress
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer

T = TypeVar("T")

SIZE_MAX: Final = 1 << 30
"""A record has to fit into one request."""

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
    load = Load(topic, values_of(size, system_random().randbytes), records, rate)
    settings = _producer_settings(session, acks)

    async def work() -> Figures:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(**settings)
        async with producer:
            return await measure_produce(producer, load, progress, SystemClock())

    progress = Progress("sent")
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

    progress = Progress("read")
    _show(session, _run(work(), progress))


@bench.command()
@_topic_argument
@click.option("-n", "--records", type=click.IntRange(1), default=10_000, show_default=True)
@_size_option
@_acks_option
@asking
def latency(session: Session, topic: str, records: int, size: int, acks: str | None) -> None:
    """Send records one after the other; how long until each is acknowledged, and consumed."""
    load = Load(topic, values_of(size, system_random().randbytes), records)
    sending = {"linger.ms": 0} | _producer_settings(session, acks)
    reading = session.connection.for_client(AsyncConsumer)

    async def work() -> list[dict[str, Any]]:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(**sending)
        async with producer, _consumer(reading) as consumer:
            trips = await measure_latency(producer, consumer, load, progress, SystemClock())
        return [
            {"until": "acknowledged", **_latencies(trips.acknowledged_us)},
            {"until": "consumed", **_latencies(trips.consumed_us)},
        ]

    progress = Progress("sent and read")
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
