"""`moldau collect files`: tails log files and sends their lines to a topic."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Final

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
from moldau.cli.stream.reading import given_header
from moldau.collect.complaints import Complaints
from moldau.collect.files import FileCollector, Labels
from moldau.collect.framing import PRESETS, Beginnings, Framing
from moldau.collect.machine import MachineSources
from moldau.collect.wanted import COMPRESSED, WantedFiles

RECORD_SIZE_MAX: Final = 1_000_000
"""Below the million and some that brokers take by default, with room for headers."""

HEADERS_SIZE: Final = 48 * 1024
"""What a record has besides its value at most: its path twice, and what the user adds."""


@click.command()
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The file for positions.",
)
@click.option(
    "--key",
    type=click.Choice(("path", "host", "none")),
    default="path",
    show_default=True,
    help="The key of records.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Add a header; repeatable.",
)
@click.option(
    "--from",
    "begin",
    type=click.Choice(("start", "end")),
    default="start",
    show_default=True,
    help="Where to start in files that exist at the first start.",
)
@click.option(
    "--exclude",
    multiple=True,
    default=COMPRESSED,
    metavar="PATTERN",
    help="Skip these files [compressed ones]; repeatable.",
)
@click.option(
    "--multiline",
    type=click.Choice(sorted(PRESETS)),
    help="Combine lines into records, as this logger writes them.",
)
@click.option("--begins", metavar="REGEX", help="Lines that start like this start a record.")
@click.option("--continues", metavar="REGEX", help="Lines that start like this continue a record.")
@duration_option("--lines-wait", "5s", "How long an incomplete record waits for more lines.")
@click.option(
    "--max-record-size",
    type=click.IntRange(1),
    default=RECORD_SIZE_MAX,
    show_default=True,
    metavar="BYTES",
    help="The longest record.",
)
@click.option(
    "--too-long",
    type=click.Choice(("cut", "skip")),
    default="cut",
    show_default=True,
    help="What to do with longer records.",
)
@duration_option("--rotated-wait", "60s", "Close a rotated file after this time without new lines.")
@duration_option("--poll", "2s", "The longest interval between checks of an idle file.")
@duration_option("--scan", "5s", "How often to look for new files.")
@click.option("--once", is_flag=True, help="Exit when all lines have been delivered.")
@collector_options  # fmt: skip
def files(patterns: tuple[str, ...], **options: Any) -> None:
    r"""Tail log files and send every line as a record, at least once, until SIGTERM or Ctrl-C.

    Bytes are sent unchanged. Files are followed through rotation, by rename and by copytruncate. A
    restart continues where the last run ended. Records have the headers host, path and position.

    \b
    moldau collect files '/var/log/app/*.log' -t logs --state /var/lib/moldau/app.json
    moldau collect files app.log -t logs --state app.json --multiline python --once
    """
    producer = producer_of(options, options["max_record_size"] + HEADERS_SIZE)
    wanted = _wanted(patterns, options)
    labels = Labels(
        options["topic"],
        options["host"],
        options["key"],
        tuple(given_header(text) for text in options["headers"]),
    )
    complaints = Complaints(say)
    with state_file(options["state"]) as state:
        collector = FileCollector(
            wanted, labels, producer, MachineSources(), state, SystemClock(), complaints
        )
        run = partial(collector.run, once=options["once"], grace_s=options["grace"])
        asyncio.run(run_collector(producer, complaints, run))
    say(_summary(collector))


def _wanted(patterns: tuple[str, ...], options: dict[str, Any]) -> WantedFiles:
    framing = Framing(
        options["max_record_size"], options["too_long"] == "cut", _beginnings(options)
    )
    return WantedFiles(
        whole_paths(patterns),
        framing,
        excluded=options["exclude"],
        from_end=options["begin"] == "end",
        lines_wait_s=options["lines_wait"],
        rotated_wait_s=options["rotated_wait"],
        poll_max_s=options["poll"],
        scan_s=options["scan"],
    )


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
