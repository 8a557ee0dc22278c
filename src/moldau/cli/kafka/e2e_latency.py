"""`kafka-e2e-latency`: how long a record is on its way from a producer to a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from moldau.base.clock import SystemClock
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    client_settings,
    cluster_options,
    fitting,
    parse,
    require_cluster,
)
from moldau.cli.operations.perf import Load, random_letters, round_trip

ABOUT: Final = "This tool measures end-to-end latency in Kafka."
PATIENCE_S: Final = 60.0
REPORT_EVERY: Final = 1_000
WORDS: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
"""What the words without options meant before 4.2, in their order; a file may follow."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "topic", "The topic."),
        number("num-records", "count", "How many records to send, one after the other."),
        text("producer-acks", "acks", "Who must have a record: 1 or all."),
        number("record-size", "size", "Bytes of a record."),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, _in_new_words(arguments), ABOUT, console)
    require_cluster(options)
    options.require(*WORDS[1:])
    acks = options.text("producer-acks")
    if acks not in ("1", "all"):
        raise CommandFailed(
            "Latency testing requires synchronous acknowledgement. Please use 1 or all"
        )
    settings = client_settings(options, console)
    values = random_letters(options.number("record-size") or 0)
    load = Load(options.text("topic"), values, options.number("num-records") or 0)
    _report(asyncio.run(_measure(settings, acks, load, console)), console)
    return 0


def _in_new_words(arguments: Sequence[str]) -> list[str]:
    """Take `broker topic count acks size [file]` for the options of these names."""
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    names = (*WORDS, "command-config")
    return [
        part for name, word in zip(names, arguments, strict=False) for part in (f"--{name}", word)
    ]


async def _measure(
    settings: dict[str, Any], acks: str, load: Load, console: Console
) -> list[float]:
    """Return how long each record took, in milliseconds."""
    consumer: client.AsyncConsumer[Any, Any] = client.AsyncConsumer(
        **fitting(client.AsyncConsumer, settings), fetch_max_wait_ms=0
    )
    producer: client.AsyncProducer[Any, Any] = client.AsyncProducer(
        **fitting(client.AsyncProducer, settings), acks=acks, linger_ms=0
    )
    latencies = []
    async with consumer, producer:
        consumer.assign(await consumer.partitions_for(load.topic))
        consumer.seek_to_end()
        for partition in consumer.assignment():
            await consumer.position(partition)
        for number_sent, value in enumerate(islice(load.values, load.record_count)):
            record = (load.topic, value, None)
            trip = await round_trip(producer, consumer, record, PATIENCE_S, SystemClock())
            latencies.append(trip.consumed_s * 1000)
            if len(trip.records) != 1:
                raise CommandFailed(
                    f"poll() returned {len(trip.records)} records where one was sent: is"
                    f" {load.topic} used by others?"
                )
            if trip.records[0].value != value:
                raise CommandFailed("The record that came is not the one that was sent")
            if number_sent % REPORT_EVERY == 0:
                console.say(f"{number_sent}\t{round(latencies[-1], 6)}")
    return latencies


def _report(latencies: list[float], console: Console) -> None:
    ordered = sorted(latencies) or [0.0]
    console.say(f"Avg latency: {sum(ordered) / len(ordered):.4f} ms")
    median, late, latest = (int(ordered[int(len(ordered) * part)]) for part in (0.5, 0.99, 0.999))
    console.say(f"Percentiles: 50th = {median}, 99th = {late}, 99.9th = {latest}")
