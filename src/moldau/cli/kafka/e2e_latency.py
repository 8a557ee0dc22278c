"""`kafka-e2e-latency`: how long a record is on its way from a producer to a consumer."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Final

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

ABOUT: Final = "This tool measures end-to-end latency in Kafka."
PATIENCE_MS: Final = 60_000
REPORT_EVERY: Final = 1_000
LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
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

    topic, size = options.text("topic"), options.number("record-size") or 0
    consumer: client.Consumer[Any, Any] = client.Consumer(
        **fitting(client.Consumer, settings), fetch_max_wait_ms=0
    )
    producer: client.Producer[Any, Any] = client.Producer(
        **fitting(client.Producer, settings), acks=acks, linger_ms=0
    )
    with consumer, producer:
        consumer.assign(consumer.partitions_for(topic))
        consumer.seek_to_end()
        for place in consumer.assignment():
            consumer.position(place)
        latencies = _measure(
            producer, consumer, topic, options.number("num-records") or 0, size, console
        )
    _report(latencies, console)
    return 0


def _in_new_words(arguments: Sequence[str]) -> list[str]:
    """Take `broker topic count acks size [file]` for the options of these names."""
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    names = (*WORDS, "command-config")
    return [
        part for name, word in zip(names, arguments, strict=False) for part in (f"--{name}", word)
    ]


def _measure(
    producer: client.Producer[Any, Any],
    consumer: client.Consumer[Any, Any],
    topic: str,
    count: int,
    size: int,
    console: Console,
) -> list[float]:
    drawn = random.Random(0)
    latencies = []
    for number_sent in range(count):
        payload = bytes(drawn.choices(LETTERS, k=size))
        start = time.perf_counter()
        producer.send(topic, payload).result()
        records = consumer.poll(PATIENCE_MS)
        latencies.append((time.perf_counter() - start) * 1000)
        if len(records) != 1:
            raise CommandFailed(
                f"poll() returned {len(records)} records where one was sent: is {topic} used by"
                " others?"
            )
        if records[0].value != payload:
            raise CommandFailed("The record that came is not the one that was sent")
        if number_sent % REPORT_EVERY == 0:
            console.say(f"{number_sent}\t{round(latencies[-1], 6)}")
    return latencies


def _report(latencies: list[float], console: Console) -> None:
    ordered = sorted(latencies) or [0.0]
    console.say(f"Avg latency: {sum(ordered) / len(ordered):.4f} ms")
    median, late, latest = (int(ordered[int(len(ordered) * part)]) for part in (0.5, 0.99, 0.999))
    console.say(f"Percentiles: 50th = {median}, 99th = {late}, 99.9th = {latest}")
