"""`kafka-consumer-perf-test`: how many records a consumer reads in a second."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from moldau.base.clock import SystemClock
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    client_settings,
    cluster_options,
    fitting,
    parse,
    require_cluster,
)
from moldau.cli.operations.perf import poll_once

MEGABYTE: Final = 1024 * 1024
POLL_MS: Final = 100
POLL_RECORDS_MAX: Final = 10_000
GROUP_NUMBERS: Final = 100_000
REST_OF_HEADER: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,"
    " fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
JAVA_DATE: Final = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "topic", "The topic."),
        text("include", "regex", "A regular expression for topics.", former=("whitelist",)),
        number("num-records", "count", "How many records to read.", former=("messages",)),
        text("group", "gid", "The group; one of its own if left out."),
        number("fetch-size", "size", "Bytes of a partition in one answer.", default=MEGABYTE),
        text("command-property", "prop1=val1", "A setting of the consumer.",
             former=("consumer-property",)),
        flag("from-latest", "Begin at the end where no offset is committed."),
        number("socket-buffer-size", "size", "Size of the socket's buffer.", default=2 * MEGABYTE),
        flag("print-metrics", "Taken and not heeded: there are no metrics of Java's kind."),
        flag("show-detailed-stats", "Tell how it goes, and no summary."),
        number("timeout", "milliseconds", "End when nothing comes for so long.", default=10_000),
        number("reporting-interval", "interval_ms", "Tell so often how it goes.", default=5_000),
        text("date-format", "date format", "As Java's SimpleDateFormat has it.",
             default="yyyy-MM-dd HH:mm:ss:SSS"),
        flag("hide-header", "Leave the line with titles out."),
        number("threads", "count", "Taken and not heeded: one since 2.0."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool is used to verify the consumer performance."
    options = parse(PARSER, arguments, about, console)
    require_cluster(options)
    options.require_one_of("topic", "include")
    options.require("num-records")
    settings = _settings(options, console)
    detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        first = "time, threadId, " if detailed else "start.time, end.time, "
        console.say(first + REST_OF_HEADER)

    asyncio.run(_read(fitting(client.AsyncConsumer, settings), options, console))
    return 0


async def _read(settings: dict[str, Any], options: Options, console: Console) -> None:
    consumer: client.AsyncConsumer[Any, Any] = client.AsyncConsumer(**settings)
    async with consumer:
        if options.has("topic"):
            consumer.subscribe([options.text("topic")])
        else:
            consumer.subscribe(pattern=re.compile(options.text("include")))
        await _Reading(options, console).run(consumer)


def _settings(options: Options, console: Console) -> dict[str, Any]:
    settings = client_settings(options, console)
    own_group = f"perf-consumer-{random.randrange(GROUP_NUMBERS)}"
    settings["group.id"] = options.value("group") or own_group
    settings["receive.buffer.bytes"] = options.text("socket-buffer-size")
    settings["max.partition.fetch.bytes"] = options.text("fetch-size")
    settings["auto.offset.reset"] = "latest" if options.has("from-latest") else "earliest"
    settings.setdefault("client.id", "perf-consumer-client")
    settings["check.crcs"] = "false"
    return settings


class _Mark(NamedTuple):
    """How far it was at a moment."""

    moment_ms: float
    record_count: int
    size: int


class _Reading:
    """One run."""

    def __init__(self, options: Options, console: Console) -> None:
        self._count_max = options.number("num-records") or 0
        self._patience_ms = options.number("timeout") or 0
        self._interval_ms = options.number("reporting-interval") or 0
        self._detailed = options.has("show-detailed-stats")
        self._date_format = options.text("date-format")
        self._console = console
        self._joined_ms: float | None = None

    async def run(self, consumer: client.AsyncConsumer[Any, Any]) -> None:
        start = last = _Mark(_now_ms(), 0, 0)
        count = size = 0
        heard_ms = start.moment_ms
        while count < self._count_max and _now_ms() - heard_ms <= self._patience_ms:
            polled = await poll_once(consumer, POLL_MS, POLL_RECORDS_MAX, SystemClock())
            now_ms = _now_ms()
            if self._joined_ms is None and (polled.record_count or consumer.assignment()):
                self._joined_ms = now_ms - start.moment_ms
            if not polled.record_count:
                continue
            heard_ms = now_ms
            count += polled.record_count
            size += polled.size
            if now_ms - last.moment_ms >= self._interval_ms:
                reached = _Mark(now_ms, count, size)
                self._progress(last, reached)
                last = reached
        if count < self._count_max:
            self._console.say(
                "WARNING: Exiting before consuming the expected number of records: timeout"
                f" ({self._patience_ms} ms) exceeded. You can use the --timeout option to increase"
                " the timeout."
            )
        if not self._detailed:
            self._summary(start, _Mark(_now_ms(), count, size))

    def _progress(self, last: _Mark, reached: _Mark) -> None:
        if self._detailed:
            when = self._date(reached.moment_ms)
            self._console.say(f"{when}, 0, {self._figures(last, reached, reached.size)}")

    def _summary(self, start: _Mark, end: _Mark) -> None:
        when = f"{self._date(start.moment_ms)}, {self._date(end.moment_ms)}"
        self._console.say(f"{when}, {self._figures(start, end, end.size)}")

    def _figures(self, start: _Mark, end: _Mark, size: int) -> str:
        elapsed_s = max(end.moment_ms - start.moment_ms, 1) / 1000
        joined_ms = int(self._joined_ms or 0) if start.record_count == 0 else 0
        fetch_ms = int(end.moment_ms - start.moment_ms) - joined_ms
        fetch_s = max(fetch_ms, 1) / 1000
        megabytes = (end.size - start.size) / MEGABYTE
        records = end.record_count - start.record_count
        return (
            f"{size / MEGABYTE:.4f}, {megabytes / elapsed_s:.4f}, {end.record_count},"
            f" {records / elapsed_s:.4f}, {joined_ms}, {fetch_ms}, {megabytes / fetch_s:.4f},"
            f" {records / fetch_s:.4f}"
        )

    def _date(self, moment_ms: float) -> str:
        moment = datetime.fromtimestamp(moment_ms / 1000)  # noqa: DTZ006 - local, as Java's is
        form = self._date_format.replace("SSS", f"{moment.microsecond // 1000:03d}")
        for java, own in JAVA_DATE.items():
            form = form.replace(java, own)
        return moment.strftime(form)


def _now_ms() -> float:
    return time.time() * 1000
