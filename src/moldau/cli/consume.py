"""`moldau consume`: prints records.

Without a group, options decide where to start and stop. With a group, it starts at the committed
offsets and commits what it has printed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any, Final

import click

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.cli.frame.completion import complete_groups, complete_topics
from moldau.cli.frame.connection import Connection, connection_options
from moldau.cli.frame.selection import chosen_topics, parse_numbers, regex_option
from moldau.cli.frame.session import Session
from moldau.cli.operations.positions import Position, PositionKind
from moldau.cli.stream.printing import Printing
from moldau.cli.stream.progress import Progress
from moldau.cli.stream.reach import METADATA_AGE_MS, Newcomers, Reach, parse_place, stretches
from moldau.cli.stream.writing import Write, harmless, percent_writer, write_json
from moldau.client.consumer import Consumer
from moldau.client.records import TopicPartition

FORMATS: Final = {"text": r"%v\n", "raw": "%v", "hex": r"%v{hex}\n"}
"""The forms of output that are percent formats."""

RESETS: Final = {PositionKind.EARLIEST: "earliest", PositionKind.LATEST: "latest"}


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """What is to be read."""

    topics: tuple[str, ...]
    regex: bool
    partitions: list[int] | None
    reach: Reach
    group: str | None
    to_end: bool

    def settings(self) -> dict[str, Any]:
        """Return what the consumer is to be, unless the user has set it."""
        found: dict[str, Any] = {
            "allow.auto.create.topics": False,
            "metadata.max.age.ms": METADATA_AGE_MS,
        }
        if self.group is not None:
            found["group.id"] = self.group
            found["auto.offset.reset"] = RESETS[self.reach.begin.kind]
        return found


@click.command()
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@regex_option
@click.option("-p", "--partitions", metavar="N[,N-M...]", help="Only these partitions.")
@click.option("-s", "--from", "begin", metavar="PLACE", help="Where to start [start].")
@click.option("-u", "--until", metavar="PLACE", help="Where to stop, exclusive.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="Stop at the current end.")
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option(
    "-g", "--group", metavar="GROUP", shell_complete=complete_groups,
    help="Read as a member of this group and commit printed records.",
)  # fmt: skip
@click.option("--grep", metavar="REGEX", help="Only records whose key or value matches.")
@click.option(
    "--read-committed", is_flag=True, help="Skip records of open and aborted transactions."
)
@click.option("-o", "--output", type=click.Choice((*FORMATS, "json")), help="Output format [text].")
@click.option("-f", "--format", "percent", metavar="FORMAT", help="Print records in this format.")
@click.option("--null", default="", metavar="TEXT", help="Print null as this text [nothing].")
@connection_options
def consume(topics: tuple[str, ...], *, regex: bool, **options: Any) -> None:
    r"""Print records of topics, until Ctrl-C or the given end.

    \b
    moldau consume orders -e                         all records up to now
    moldau consume orders -s -10                     the last ten of each partition, then new ones
    moldau consume orders -s 1h -u @2026-01-31T12:00
    moldau consume orders -g billing -n 100          as a member of a group
    moldau consume 'orders\..*' -r --grep 'id=17'

    \b
    PLACE   start, end, an offset, +N (after the start), -N (before the end),
            @TIME (2026-01-31T12:00, or ms since 1970), or an age (90m, 1d12h)
    FORMAT  %t topic  %p partition  %o offset  %T time in ms  %d date  %d{strftime[%H:%M]}  %k key
            %v value  %v{hex}  %v{base64}  %h headers  %K and %S sizes of key and value  \n  \t  %%
            text is '%v\n', raw '%v', hex '%v{hex}\n'

    Values are printed unchanged in a pipe; on a terminal, control characters are escaped.
    """
    connection = Connection.of(options)
    wanted = _wanted(topics, regex, options)
    write = _writer(options["output"], options["percent"], options["null"])
    grep = _pattern(options["grep"])
    settings = wanted.settings() | connection.for_client(Consumer)
    if options["read_committed"]:
        settings["isolation.level"] = "read_committed"
    if regex and wanted.group is None:
        wanted = _named(wanted, connection)
    progress = Progress("printed", is_wanted=not sys.stdout.isatty())
    consumer: Consumer[bytes | None, bytes | None] = Consumer(**settings)
    try:
        with consumer:
            printing = Printing(
                consumer, write, sys.stdout.buffer, progress,
                count_max=options["count"], grep=grep,
            )  # fmt: skip
            _run(consumer, printing, wanted)
    finally:
        progress.end()


def _wanted(topics: tuple[str, ...], regex: bool, options: dict[str, Any]) -> WantedRecords:
    now_ms = SystemClock.wall_ms()
    begin = parse_place(options["begin"] or "start", "--from", now_ms)
    until, to_end, group = options["until"], options["to_end"], options["group"]
    numbers = options["partitions"]
    if until is not None and to_end:
        raise UserError("--until and --exit exclude each other")
    if group is not None:
        if until is not None or numbers is not None:
            raise UserError("--group cannot be combined with -p and --until")
        if begin.kind not in RESETS:
            raise UserError(
                "with --group, --from is start or end, for partitions without a committed offset;"
                " to move a group, use moldau group seek"
            )
    word = Position(PositionKind.LATEST) if to_end else None
    if until is not None:
        word = parse_place(until, "--until", now_ms)
    chosen = None
    if numbers is not None:
        chosen = parse_numbers(numbers, f"-p {numbers}", "numbers of partitions, as in 0,2-4")
    return WantedRecords(topics, regex, chosen, Reach(begin, word), group, to_end)


def _writer(output: str | None, percent: str | None, null: str) -> Write:
    if percent is not None and output is not None:
        raise UserError("-o and -f exclude each other")
    if output == "json":
        return write_json
    # Raw is for who wants the bytes, wherever they go.
    escapes = sys.stdout.isatty() and output != "raw"
    return percent_writer(
        FORMATS[output or "text"] if percent is None else percent,
        null=null.encode(errors="surrogateescape"),
        escape=harmless if escapes else None,
    )


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        raise UserError(f"--grep {text!r} is not a pattern: {error}") from error


def _named(wanted: WantedRecords, connection: Connection) -> WantedRecords:
    """Find the topics that patterns mean."""
    found = Session(connection).run(lambda admin: chosen_topics(admin, wanted.topics, regex=True))
    return WantedRecords(
        tuple(found), False, wanted.partitions, wanted.reach, None, wanted.to_end
    )  # fmt: skip


def _run(consumer: Consumer[Any, Any], printing: Printing, wanted: WantedRecords) -> None:
    if wanted.group is None:
        partitions = _partitions(consumer, wanted)
        follows = wanted.reach.until is None and wanted.partitions is None
        newcomers = Newcomers(consumer, wanted.topics, partitions) if follows else None
        printing.run_assigned(stretches(consumer, partitions, wanted.reach), newcomers)
        return
    if wanted.regex:
        consumer.subscribe(pattern="|".join(f"(?:{one})" for one in wanted.topics))
    else:
        consumer.subscribe(wanted.topics)
    printing.run_subscribed(to_end=wanted.to_end)


def _partitions(consumer: Consumer[Any, Any], wanted: WantedRecords) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic in dict.fromkeys(wanted.topics):
        known = sorted(consumer.partitions_for(topic))
        if wanted.partitions is None:
            found += known
            continue
        for number in wanted.partitions:
            if (one := TopicPartition(topic, number)) not in known:
                raise UserError(f"topic {topic!r} has no partition {number}")
            found.append(one)
    return found
