"""`moldau produce`: sends lines as records.

This thread reads lines and the producer's thread sends them. A slow pipe does not delay records
already read, and a slow broker slows down reading, so memory stays bounded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.connection import Connection, connection_options
from moldau.cli.frame.failures import INTERRUPTED, complain, reason_of
from moldau.cli.stream.lines import (
    Interrupts,
    given_lines,
    interruptible,
    line_lists,
    numbered,
    read_chunk,
)
from moldau.cli.stream.progress import Progress
from moldau.cli.stream.reading import (
    Read,
    given_header,
    json_reader,
    key_reader,
    percent_reader,
    tombstone_reader,
    value_reader,
)
from moldau.cli.stream.sending import Sending, Target
from moldau.client.producer import Producer

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

BATCH_SIZE: Final = "131072"
"""A pipe has more to send than a service: lines of 100 bytes cost a seventh less than in batches of
the usual size, and the broker has an eighth of the batches to look at."""


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How lines are to be read."""

    delimiter: str | None
    null: str | None
    is_json: bool
    percent: str | None
    tombstone: bool

    def reader(self) -> Read:
        """Return what reads lines; UserError where the options exclude each other."""
        if (self.delimiter is not None) + self.is_json + bool(self.percent) + self.tombstone > 1:
            raise UserError("-K, --json, -f and --tombstone exclude each other")
        null = None if self.null is None else _bytes(self.null)
        if self.is_json:
            return json_reader
        if self.tombstone:
            return tombstone_reader
        if self.percent is not None:
            return percent_reader(self.percent, null)
        if self.delimiter is not None:
            if not self.delimiter:
                raise UserError("-K needs a delimiter")
            return key_reader(_bytes(self.delimiter), null)
        return value_reader(null)


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option(
    "-i", "--input", "file", type=click.Path(path_type=Path), help="Read lines from this file."
)
@click.option("-k", "--key", metavar="KEY", help="The key of records without one.")
@click.option(
    "-K", "--key-delimiter", metavar="TEXT", help="Split lines into key and value at this text."
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
    "-p", "--partition", type=click.IntRange(0), help="Send all records to this partition."
)
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON objects.")
@click.option("-f", "--format", "percent", metavar="FORMAT", help="Parse lines with this format.")
@click.option("--null", metavar="TEXT", help="Send a key or value with this text as null.")
@click.option("--tombstone", is_flag=True, help="Send null values; lines (or -k) are keys.")
@click.option("-z", "--compression", type=click.Choice(CODECS), help="Compress batches.")
@click.option(
    "--acks", type=click.Choice(("all", "1", "0")), help="Acknowledgements to wait for [all]."
)
@connection_options
def produce(topic: str, values: tuple[str, ...], file: Path | None, **options: Any) -> None:
    r"""Send lines as records: from standard input, from a file, or from the arguments.

    A line is a value; its bytes are sent unchanged. On a terminal, typed lines are numbered and
    progress is shown. In a pipe, only errors are printed. Ctrl-C stops reading; records already
    read are still delivered.

    \b
    moldau produce orders -K : < orders.txt          key:value
    moldau produce orders -k 17 '{"total": 3}'       one record
    moldau consume a -e -o json | moldau produce b --json
    moldau produce orders -f '%p %k=%v'              %p %k %v %T %h %v{hex} %v{base64}

    \b
    Fields of --json: key, value (text; other JSON is sent as JSON), key_base64, value_base64,
    headers ({"NAME": "VALUE"} or [{"key": "NAME", "value": "VALUE"}]), partition, timestamp (ms).
    """
    connection = Connection.of(options)
    tombstone, key = options["tombstone"], options["key"]
    read = InputFormat(
        options["key_delimiter"], options["null"], options["is_json"], options["percent"], tombstone
    ).reader()
    target = Target(
        topic,
        None if key is None else _bytes(key),
        options["partition"],
        tuple(given_header(text) for text in options["headers"]),
    )
    if values and file is not None:
        raise UserError("give values as arguments or in a file, not both")
    if tombstone and key is not None:
        if values or file is not None:
            raise UserError("--tombstone with -k sends one record: leave out values and file")
        values = (key,)
    settings = _settings(connection, options)
    is_typed = not values and file is None and sys.stdin.isatty()
    if is_typed:
        click.echo(f"Each line is a record for {topic}. Ctrl-D ends.", err=True)
    progress = Progress("read", is_wanted=not values and not is_typed)
    source = partial(_source, values, file)
    status = _send(settings, target, read, source, progress, is_typed=is_typed)
    if status:
        raise click.exceptions.Exit(status)


def _settings(connection: Connection, options: dict[str, Any]) -> dict[str, Any]:
    settings = {"batch.size": BATCH_SIZE} | connection.for_client(Producer)
    for option, setting in (("compression", "compression.type"), ("acks", "acks")):
        if options[option] is not None:
            settings[setting] = options[option]
    return settings


Source = Callable[[ExitStack, Interrupts], Iterable[list[bytes]]]


def _source(
    values: tuple[str, ...], file: Path | None, stack: ExitStack, interrupts: Interrupts
) -> Iterable[list[bytes]]:
    """Open what lines come from."""
    if values:
        return given_lines(values)
    stream = sys.stdin.buffer if file is None else stack.enter_context(_opened(file))
    lists = line_lists(interruptible(interrupts, partial(read_chunk, stream)))
    is_dialogue = file is None and sys.stdin.isatty() and sys.stderr.isatty()
    return numbered(lists, sys.stderr) if is_dialogue else lists


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {file}: {reason_of(error)}") from error
    with stream:
        yield stream


def _send(
    settings: dict[str, Any],
    target: Target,
    read: Read,
    source: Source,
    progress: Progress,
    *,
    is_typed: bool,
) -> int:
    """Send everything; return the status to end with."""
    producer: Producer[bytes, bytes] = Producer(**settings)
    sending = Sending(producer, target, read, progress)
    with ExitStack() as stack:
        interrupts = Interrupts()
        lists = source(stack, interrupts)
        producer.start()
        stack.callback(producer.close, timeout=0)
        stack.enter_context(interrupts)
        try:
            sending.run(lists)
            sending.settle()
        except KeyboardInterrupt:  # the second: what is not delivered yet is given up
            producer.close(timeout=0)
            sending.sweep()
    progress.end()
    return _conclude(sending, interrupted=interrupts.came, is_typed=is_typed)


def _conclude(sending: Sending, *, interrupted: bool, is_typed: bool) -> int:
    status = 0 if sending.failure is None else complain(sending.failure)
    if interrupted:
        status = INTERRUPTED
    if status or is_typed:
        click.echo(f"moldau: records delivered: {sending.delivered_count:,}", err=True)
    return status


def _bytes(text: str) -> bytes:
    """Take an argument's bytes as they were typed."""
    return text.encode(errors="surrogateescape")
