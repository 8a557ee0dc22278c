"""`kafka-producer-perf-test`: how many records a producer sends in a second, and how late they are.

Payloads are random letters as in Kafka's command, but drawn once and sent in turn: drawing each
anew would measure the drawing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from moldau.base.clock import SystemClock
from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import Option, OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import CommandFailed, client_settings, cluster_options, fitting, parse
from moldau.cli.operations.perf import Load, random_letters, send_load

PAYLOADS: Final = 1_000
MEGABYTE: Final = 1024 * 1024
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "TOPIC", "The topic."),
        number("num-records", "NUM-RECORDS", "How many records to send."),
        number("record-size", "RECORD-SIZE", "Bytes of a record."),
        text("payload-file", "PAYLOAD-FILE", "A file with values to draw from."),
        text("payload-delimiter", "DELIMITER", "What stands between them.", default="\\n"),
        flag("payload-monotonic", "Send numbers that count up."),
        text("throughput", "THROUGHPUT", "Records a second at most; -1 for as many as it can."),
        Option("command-property", "Settings of the producer: key=value ...", "PROP",
               takes_many=True, former=("producer-props",)),
        flag("print-metrics", "Taken and not heeded: there are no metrics of Java's kind."),
        text("transactional-id", "ID", "Send in transactions."),
        number("transaction-duration-ms", "MS", "How long each is; 3000 if only the id is given."),
        number("warmup-records", "COUNT", "Leave so many out of a second summary.", default=0),
        number("reporting-interval", "INTERVAL-MS", "Tell so often how it goes.", default=5_000),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool is used to verify the producer performance."
    options = parse(PARSER, arguments, about, console)
    options.require("topic", "num-records", "throughput")
    options.require_one_of("record-size", "payload-file", "payload-monotonic")
    settings = client_settings(options, console)
    if "bootstrap.servers" not in settings:
        options.require("bootstrap-server")
    settings.setdefault("client.id", "perf-producer-client")
    transaction_ms = _transaction_ms(options, settings)

    load = Load(
        options.text("topic"),
        _payloads(options),
        options.number("num-records") or 0,
        _rate(options),
        None if transaction_ms is None else transaction_ms / 1000,
    )
    test = _Test(options, console)
    asyncio.run(_send(fitting(client.AsyncProducer, settings), load, test))
    test.report()
    return 0


async def _send(settings: dict[str, Any], load: Load, test: _Test) -> None:
    producer: client.AsyncProducer[Any, Any] = client.AsyncProducer(**settings)
    async with producer:
        test.begin()
        await send_load(producer, load, test.sent, SystemClock())
    test.check()


def _rate(options: Options) -> float | None:
    rate = float(options.text("throughput"))
    return rate if rate > 0 else None


def _transaction_ms(options: Options, settings: dict[str, Any]) -> int | None:
    """Return how long a transaction is to be open; None if none is wanted."""
    duration_ms = options.number("transaction-duration-ms")
    if duration_ms is not None and duration_ms <= 0:
        raise CommandFailed("--transaction-duration-ms should be greater than 0")
    if options.has("transactional-id"):
        settings["transactional.id"] = options.text("transactional-id")
    if "transactional.id" in settings:
        return duration_ms or 3_000
    if duration_ms is not None:
        settings["transactional.id"] = f"performance-producer-{random.getrandbits(64):x}"
    return duration_ms


def _payloads(options: Options) -> Iterator[bytes]:
    if (file := options.value("payload-file")) is not None:
        delimiter = options.text("payload-delimiter").encode().decode("unicode_escape")
        try:
            values = [one.encode() for one in Path(file).read_text().split(delimiter) if one]
        except OSError as error:
            raise CommandFailed(f"{file}: {error.strerror}") from None
        if not values:
            raise CommandFailed("File does not exist or empty file provided.")
        return cycle(random.choices(values, k=PAYLOADS))
    if (size := options.number("record-size")) is not None:
        if size < 0:
            raise CommandFailed("--record-size should be greater than zero")
        return cycle(list(islice(random_letters(size), PAYLOADS)))
    return (b"%d" % place for place in range(options.number("num-records") or 0))


class Latencies:
    """What was sent and how late it was, since a moment."""

    def __init__(self, now_ms: float) -> None:
        self.start_ms = now_ms
        self.count = 0
        self.size = 0
        self.total_ms = 0.0
        self.most_ms = 0.0

    def add(self, latency_ms: float, size: int) -> None:
        """Count one record."""
        self.count += 1
        self.size += size
        self.total_ms += latency_ms
        self.most_ms = max(self.most_ms, latency_ms)

    def rates(self, now_ms: float) -> tuple[float, float]:
        """Return records and megabytes a second."""
        seconds = max(now_ms - self.start_ms, 1) / 1000
        return self.count / seconds, self.size / seconds / MEGABYTE

    @property
    def average_ms(self) -> float:
        """Return how late a record was."""
        return self.total_ms / self.count if self.count else 0.0


class _Test:
    """The figures of one run."""

    def __init__(self, options: Options, console: Console) -> None:
        self._interval_ms = options.number("reporting-interval") or 0
        self._warmup = options.number("warmup-records") or 0
        self._console = console
        self._all: list[float] = []
        self._steady: Latencies | None = None
        self._refusal: MoldauError | None = None
        self.begin()

    def begin(self) -> None:
        """Begin to count the time."""
        self._whole, self._window = Latencies(_now_ms()), Latencies(_now_ms())

    def sent(self, delivery: client.AsyncDelivery, payload: bytes) -> None:
        """Count a record once it is settled; raises if the topic was refused."""
        self.check()
        delivery.add_done_callback(partial(self._settled, _now_ms(), len(payload)))

    def check(self) -> None:
        """Raise the error by which the brokers refused the topic."""
        if self._refusal is not None:
            raise self._refusal

    def _settled(self, sent_ms: float, size: int, delivery: Any) -> None:
        now_ms = _now_ms()
        error = delivery.exception()
        if error is not None:
            if self._whole.count == 0 and isinstance(error, _refusals()):
                self._refusal = error
            else:
                self._console.warn(str(error))
            return
        latency_ms = now_ms - sent_ms
        self._all.append(latency_ms)
        self._whole.add(latency_ms, size)
        self._window.add(latency_ms, size)
        if self._warmup and self._whole.count > self._warmup:
            self._steady = self._steady or Latencies(now_ms)
            self._steady.add(latency_ms, size)
        if self._interval_ms and now_ms - self._window.start_ms >= self._interval_ms:
            records, megabytes = self._window.rates(now_ms)
            self._console.say(
                f"{self._window.count} records sent, {records:.1f} records/sec"
                f" ({megabytes:.2f} MB/sec), {self._window.average_ms:.1f} ms avg latency,"
                f" {self._window.most_ms:.1f} ms max latency."
            )
            self._window = Latencies(now_ms)

    def report(self) -> None:
        """Print the summary."""
        now_ms = _now_ms()
        self._summary(self._whole, self._all, "", now_ms)
        if self._steady is not None:
            self._summary(self._steady, self._all[self._warmup :], " steady state", now_ms)

    def _summary(self, told: Latencies, each: list[float], kind: str, now_ms: float) -> None:
        ordered = sorted(each) or [0.0]
        marks = [ordered[min(int(part * len(ordered)), len(ordered) - 1)] for part in PERCENTILES]
        records, megabytes = told.rates(now_ms)
        median, late, later, latest = (int(mark) for mark in marks)
        self._console.say(
            f"{told.count}{kind} records sent, {records:f} records/sec ({megabytes:.2f} MB/sec),"
            f" {told.average_ms:.2f} ms avg latency, {told.most_ms:.2f} ms max latency,"
            f" {median} ms 50th, {late} ms 95th, {later} ms 99th, {latest} ms 99.9th."
        )


def _refusals() -> tuple[type[MoldauError], ...]:
    return client.UnknownTopicOrPartition, client.InvalidTopic, client.TopicAuthorizationFailed


def _now_ms() -> float:
    return time.monotonic() * 1000
