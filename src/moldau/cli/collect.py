"""`moldau collect`: log files and measurements of this machine, sent to topics until it is stopped.

Here the real ports are chosen: the machine's files, clock and counters. What is collected and what
becomes of it is the collectors' own business.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.connection import Connection, connection_options
from moldau.cli.frame.offset_words import parse_duration_ms
from moldau.cli.frame.terminal_text import safe
from moldau.cli.produce import CODECS
from moldau.cli.stream.reading import parse_header
from moldau.client.processing import graceful
from moldau.client.producer import AsyncProducer
from moldau.collect.complaints import Complaints
from moldau.collect.files import FileCollector, Labels
from moldau.collect.framing import PRESETS, Beginnings, Framing
from moldau.collect.machine import MachineSources
from moldau.collect.metrics.access_logs import COMBINED, UNITS_US, AccessSamples, access_pattern
from moldau.collect.metrics.collector import AccessLog, Measured, MetricsCollector
from moldau.collect.metrics.host import ProcessSamples
from moldau.collect.outlet import SETTINGS, Producer, connect
from moldau.collect.positions import Positions
from moldau.collect.running import until_stopped
from moldau.collect.state import Entry, StateFile
from moldau.collect.wanted import COMPRESSED, Wanted
from moldau.storage.disk import Disk

RECORD_SIZE_MAX: Final = 1_000_000
"""Below the million and some that brokers take by default, with room for headers."""

HEADERS_SIZE: Final = 48 * 1024
"""What a record has besides its value at most: its path twice, and what the user adds."""

Command = Callable[..., None]


class Duration(click.ParamType[float]):
    """`10s`, `5m`, or seconds as a number."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        if (duration_ms := parse_duration_ms(value)) is not None:
            return duration_ms / 1000
        if not re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
            self.fail(f"{value!r} is no duration: expected 10s, 5m or seconds", param, ctx)
        return float(value)


DURATION: Final = Duration()


@click.group()
def collect() -> None:
    """Collect log files and measurements of this machine."""


def collector_options(command: Command) -> Command:
    """Give a command what every collector has."""
    for option in (
        click.option(
            "--grace", type=DURATION, default="10s", show_default=True, metavar="DURATION",
            help="How long the end waits for what is not acknowledged.",
        ),
        click.option("-z", "--compression", type=click.Choice(CODECS), help="Compress batches."),
        click.option("--host", default=socket.gethostname, help="Name of this host [its own]."),
        click.option(
            "-t", "--topic", required=True, shell_complete=complete_topics, help="Where to send."
        ),
    ):  # fmt: skip
        command = option(command)
    return connection_options(command)


@collect.command()
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Where positions are kept.",
)
@click.option(
    "--key",
    type=click.Choice(("path", "host", "none")),
    default="path",
    show_default=True,
    help="The key of records.",
)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable."
)
@click.option(
    "--from",
    "begin",
    type=click.Choice(("start", "end")),
    default="start",
    show_default=True,
    help="Where to begin in files that are there at the very first start.",
)
@click.option(
    "--exclude",
    multiple=True,
    default=COMPRESSED,
    metavar="PATTERN",
    help="Files to leave out [compressed ones]; repeatable.",
)
@click.option("--multiline", type=click.Choice(sorted(PRESETS)), help="Records of several lines.")
@click.option("--begins", metavar="REGEX", help="A line that begins so begins a record.")
@click.option("--continues", metavar="REGEX", help="A line that begins so continues a record.")
@click.option(
    "--lines-wait",
    type=DURATION,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="How long the lines of a record wait for the next record.",
)
@click.option(
    "--max-record-size",
    type=click.IntRange(1),
    default=RECORD_SIZE_MAX,
    show_default=True,
    metavar="BYTES",
    help="Records that are longer are too long.",
)
@click.option(
    "--too-long",
    type=click.Choice(("cut", "skip")),
    default="cut",
    show_default=True,
    help="What to do with them.",
)
@click.option(
    "--rotated-wait",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="How long a file that was rotated away must be quiet to be left.",
)
@click.option(
    "--poll",
    type=DURATION,
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="How seldom a quiet file may be looked at.",
)
@click.option(
    "--scan",
    type=DURATION,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="How often new files are looked for.",
)
@click.option("--once", is_flag=True, help="End when all there is has been delivered.")
@collector_options  # fmt: skip
def files(patterns: tuple[str, ...], **options: Any) -> None:
    r"""Follow log files and send every line as a record, at least once, until SIGTERM or Ctrl-C.

    Bytes go through as they are. Files are followed through rotation, by rename and by
    copytruncate, and restarts go on where the last run was. Records have the headers host, path
    and position.

    \b
    moldau collect files '/var/log/app/*.log' -t logs --state /var/lib/moldau/app.json
    moldau collect files app.log -t logs --state app.json --multiline python --once
    """
    producer = _producer(options, options["max_record_size"] + HEADERS_SIZE)
    wanted = _wanted(patterns, options)
    labels = Labels(
        options["topic"],
        options["host"],
        options["key"],
        tuple(parse_header(text) for text in options["headers"]),
    )
    state = StateFile(Disk(), str(options["state"].absolute()))
    complaints = Complaints(_say)
    try:
        collector = FileCollector(
            wanted, labels, producer, MachineSources(), state, SystemClock(), complaints
        )
        run = partial(collector.run, once=options["once"], grace_s=options["grace"])
        asyncio.run(_run(producer, complaints, run))
    finally:
        state.close()
    _say(_summary(collector))


@collect.command()
@click.option(
    "--interval",
    type=DURATION,
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How often to measure.",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="How many processes to tell of: by CPU, and as many by memory.",
)
@click.option(
    "--process",
    "processes",
    multiple=True,
    metavar="REGEX",
    help="Tell of processes of such names instead; repeatable.",
)
@click.option(
    "--http",
    "logs",
    multiple=True,
    metavar="SERVICE=PATTERN",
    help="Measure the requests in these access logs; repeatable.",
)
@click.option(
    "--http-format",
    "http_format",
    default=COMBINED,
    metavar="REGEX",
    help="What finds status and time in a line [combined, then the time].",
)
@click.option(
    "--http-unit",
    type=click.Choice(list(UNITS_US)),
    default="s",
    show_default=True,
    help="What their times are given in.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where positions in access logs are kept, to count every request.",
)
@click.option("--no-host", is_flag=True, help="Measure nothing but access logs.")
@click.option("--count", type=click.IntRange(1), help="End after so many measurements.")
@collector_options  # fmt: skip
def metrics(**options: Any) -> None:
    r"""Measure this machine and send what is found as JSON, until SIGTERM or Ctrl-C.

    CPU, memory, disks, networks, the busiest processes, and requests found in access logs.

    \b
    moldau collect metrics -t metrics --interval 10s
    moldau collect metrics -t metrics --http shop=/var/log/nginx/shop.log --state shop.json
    """
    interval_ms = round(options["interval"] * 1000)
    if interval_ms < 100:
        raise UserError("--interval is at least 0.1 s: measuring takes time itself")
    if options["state"] is not None and not options["logs"]:
        raise UserError("--state keeps positions in access logs: name one with --http")
    producer = _producer(options)
    complaints = Complaints(_say)
    with _positions(options["state"], complaints) as positions:
        saved = None if positions is None else positions.load()
        collector = MetricsCollector(
            options["topic"],
            options["host"],
            _measured(options, complaints, saved),
            producer,
            SystemClock(),
            complaints,
            positions,
        )
        run = partial(
            collector.run,
            interval_ms=interval_ms,
            rounds=options["count"],
            grace_s=options["grace"],
        )
        asyncio.run(_run(producer, complaints, run))
    lost = f", {collector.lost_count:,} lost" if collector.lost_count else ""
    _say(f"samples delivered: {collector.delivered_count:,}{lost}")


@contextmanager
def _positions(path: Path | None, complaints: Complaints) -> Iterator[Positions | None]:
    """Keep a file of positions to ourselves, if there is to be one."""
    if path is None:
        yield None
        return
    state = StateFile(Disk(), str(path.absolute()))
    try:
        yield Positions(state, complaints)
    finally:
        state.close()


# Running


async def _run(
    producer: Producer, complaints: Complaints, work: Callable[[asyncio.Event], Awaitable[None]]
) -> None:
    """Run a collector until it ends, or until the first signal, which ends it in order."""
    _raise_descriptor_limit()
    # What keeps records from getting through is said by the collector, once.
    logging.getLogger("moldau.client").setLevel(logging.ERROR)
    stop = asyncio.Event()
    with graceful(stop.set):
        try:
            await until_stopped(stop, connect(producer, complaints))
            if not stop.is_set():
                await work(stop)
        finally:
            await producer.close(timeout=0)


def _producer(options: dict[str, Any], request_size: int = 0) -> Producer:
    settings: dict[str, Any] = {**SETTINGS, **Connection.of(options).for_client(AsyncProducer)}
    if options["compression"] is not None:
        settings["compression.type"] = options["compression"]
    if request_size > 1_048_576:
        settings.setdefault("max.request.size", request_size)
    return AsyncProducer(**settings)


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as the system lets us: every file that is followed needs one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say(text: str) -> None:
    printable = safe(text).encode(errors="backslashreplace").decode()
    click.echo(f"moldau: {printable}", err=True)


# What is collected


def _wanted(patterns: tuple[str, ...], options: dict[str, Any]) -> Wanted:
    framing = Framing(
        options["max_record_size"], options["too_long"] == "cut", _beginnings(options)
    )
    return Wanted(
        _absolute(patterns),
        framing,
        excluded=options["exclude"],
        from_end=options["begin"] == "end",
        lines_wait_s=options["lines_wait"],
        rotated_wait_s=options["rotated_wait"],
        poll_max_s=options["poll"],
        scan_s=options["scan"],
    )


def _absolute(patterns: Iterable[str]) -> list[str]:
    """Name files by their whole paths: these are what records are known by."""
    return [str(Path(pattern).absolute()) for pattern in patterns]


def _beginnings(options: dict[str, Any]) -> Beginnings | None:
    preset, begins, continues = options["multiline"], options["begins"], options["continues"]
    if sum(one is not None for one in (preset, begins, continues)) > 1:
        raise UserError("--multiline, --begins and --continues exclude each other")
    if preset is not None:
        return Beginnings.preset(preset)
    if begins is not None:
        return Beginnings.of(begins)
    return None if continues is None else Beginnings.of(continues, if_matched=False)


def _summary(collector: FileCollector) -> str:
    tally = collector.tally
    parts = [f"records delivered: {tally.delivered_count:,}"]
    for what, count in (
        ("cut", tally.cut_count),
        ("left out as too long", tally.skipped_count),
        ("refused by the brokers", tally.refused_count),
    ):
        if count:
            parts.append(f"{what}: {count:,}")
    return ", ".join(parts)


def _measured(
    options: dict[str, Any], complaints: Complaints, saved: list[Entry] | None
) -> Measured:
    logs = _access_logs(options, complaints, saved)
    if options["no_host"]:
        if not logs:
            raise UserError("--no-host leaves nothing to measure: name an access log with --http")
        return Measured(access_logs=logs)
    # Imported here: it needs psutil, which only who measures a machine has to have.
    from moldau.collect.metrics.machine import LocalMachine  # noqa: PLC0415

    processes = None
    if options["top"] or options["processes"]:
        processes = ProcessSamples(
            options["top"], [_process_pattern(text) for text in options["processes"]]
        )
    return Measured(LocalMachine(), processes, logs)


def _process_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"--process {text!r} is not a pattern: {error}") from error


def _access_logs(
    options: dict[str, Any], complaints: Complaints, saved: list[Entry] | None
) -> list[AccessLog]:
    """Return the logs of each service, however many patterns name them."""
    patterns: dict[str, list[str]] = {}
    for text in options["logs"]:
        service, equals, pattern = text.partition("=")
        if not equals or not service or not pattern:
            raise UserError(f"--http {text}: expected SERVICE=PATTERN")
        patterns.setdefault(service, []).append(pattern)
    form, unit_us = access_pattern(options["http_format"]), UNITS_US[options["http_unit"]]
    return [
        AccessLog(
            _absolute(own),
            AccessSamples(service, form, unit_us),
            MachineSources(),
            complaints,
            saved,
        )
        for service, own in patterns.items()
    ]
