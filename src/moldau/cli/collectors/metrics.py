"""`moldau collect metrics`: measurements of this machine, sent to a topic until it is stopped."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.cli.collectors.frame import (
    collector_options,
    duration_option,
    producer_of,
    run_collector,
    say,
    state_file,
    whole_paths,
)
from moldau.collect.complaints import Complaints
from moldau.collect.machine import MachineSources
from moldau.collect.metrics.access_logs import COMBINED, UNITS_US, AccessSamples, access_pattern
from moldau.collect.metrics.collector import AccessLog, Measured, MetricsCollector
from moldau.collect.metrics.host import ProcessSamples
from moldau.collect.positions import Positions
from moldau.collect.state import Entry


@click.command()
@duration_option("--interval", "10s", "How often to measure.")
@click.option(
    "--top",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="How many processes to report, by CPU and by memory each.",
)
@click.option(
    "--process",
    "processes",
    multiple=True,
    metavar="REGEX",
    help="Report processes with these names instead; repeatable.",
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
    help="How to find status and time in a line [combined, then the time].",
)
@click.option(
    "--http-unit",
    type=click.Choice(list(UNITS_US)),
    default="s",
    show_default=True,
    help="The unit of the request times.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file for positions in access logs, to count every request.",
)
@click.option("--no-host", is_flag=True, help="Only measure access logs.")
@click.option("--count", type=click.IntRange(1), help="Exit after this many measurements.")
@collector_options  # fmt: skip
def metrics(**options: Any) -> None:
    r"""Measure this machine and send the samples as JSON, until SIGTERM or Ctrl-C.

    Measures CPU, memory, disks, networks, the largest processes, and requests in access logs.

    \b
    moldau collect metrics -t metrics --interval 10s
    moldau collect metrics -t metrics --http shop=/var/log/nginx/shop.log --state shop.json
    """
    interval_ms = round(options["interval"] * 1000)
    if interval_ms < 100:
        raise UserError("--interval must be at least 0.1 s")
    if options["state"] is not None and not options["logs"]:
        raise UserError("--state needs an access log: name one with --http")
    producer = producer_of(options)
    complaints = Complaints(say)
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
        asyncio.run(run_collector(producer, complaints, run))
    lost = f", {collector.lost_count:,} lost" if collector.lost_count else ""
    say(f"samples delivered: {collector.delivered_count:,}{lost}")


@contextmanager
def _positions(path: Path | None, complaints: Complaints) -> Iterator[Positions | None]:
    """Keep a file of positions to ourselves, if there is to be one."""
    if path is None:
        yield None
        return
    with state_file(path) as state:
        yield Positions(state, complaints)


def _measured(
    options: dict[str, Any], complaints: Complaints, saved: list[Entry] | None
) -> Measured:
    logs = _access_logs(options, complaints, saved)
    if options["no_host"]:
        if not logs:
            raise UserError("--no-host needs an access log: name one with --http")
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
            whole_paths(own),
            AccessSamples(service, form, unit_us),
            MachineSources(),
            complaints,
            saved,
        )
        for service, own in patterns.items()
    ]
