"""`kafka-simple-consumer-shell`: prints the records of one partition, as Kafka 1.1's tool did.

Kafka removed it in 2.0. It reads without a group, begins at the start unless it is told otherwise,
and ends at the end of the log if `--no-wait-at-logend` asks for that. For the internal topics it
prints what 1.1's formatters printed, not the JSON of today's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    BOOTSTRAP_SERVER,
    CommandFailed,
    fitting,
    key_values,
    parse,
    what_of,
)
from moldau.cli.operations.connecting import run_with_admin

if TYPE_CHECKING:
    from moldau.cli.kafka.record_formatter import Formatter

ABOUT: Final = "A low-level tool for fetching data directly from a particular replica."
LEADER: Final = -1
"""The replica that is meant where none is named."""
EARLIEST, LATEST = -2, -1
"""Offsets that stand for the start and the end of the log."""
POLL_RECORDS_MAX: Final = 500

PARSER: Final = OptionParser(
    [
        text("broker-list", "hostname:port,...,hostname:port", "The brokers to begin with.",
             former=(BOOTSTRAP_SERVER.name,)),
        text("topic", "topic", "The topic to read."),
        number("partition", "partition", "The partition to read.", default=0),
        number("replica", "replica id", "The broker to read from; -1 means the leader.",
               default=LEADER),
        number("offset", "consume offset", "Where to begin: -2 is the start, -1 the end.",
               default=EARLIEST),
        text("clientId", "clientId", "The id of this client.", default="SimpleConsumerShell"),
        number("fetchsize", "fetchsize", "Bytes to ask for at once.", default=1024 * 1024),
        text("formatter", "class", "How records are printed.",
             default="kafka.tools.DefaultMessageFormatter"),
        text("property", "prop", "A property of the formatter: key=value."),
        flag("print-offsets", "Print the next offset before each record."),
        number("max-wait-ms", "ms", "How long a fetch waits at the broker.", default=1000),
        number("max-messages", "max-messages", "How many records to print.", default=2**31 - 1),
        flag("skip-message-on-error", "Go on after a record that cannot be printed."),
        flag("no-wait-at-logend", "End at the end of the log, without waiting for new records."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    options.require("broker-list", "topic")
    start = options.number("offset")
    assert start is not None
    if start < EARLIEST:
        raise CommandFailed(f"Invalid starting offset: {start}")
    formatter = _formatter(options)

    settings: dict[str, Any] = {
        "bootstrap.servers": options.text("broker-list"),
        "client.id": options.text("clientId"),
        "max.partition.fetch.bytes": options.text("fetchsize"),
        "fetch.max.wait.ms": options.text("max-wait-ms"),
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "allow.auto.create.topics": "false",
    }
    run_with_admin(fitting(client.AsyncAdmin, settings), lambda admin: _check(admin, options))
    consumer: client.Consumer[Any, Any] = client.Consumer(**settings)
    with consumer:
        reading = _Reading(options, formatter, console, consumer)
        reading.begin(start)
        return reading.run()


async def _check(admin: client.AsyncAdmin, options: Options) -> None:
    """Refuse a partition or a replica that does not exist."""
    topic, partition = options.text("topic"), _given(options, "partition")
    replica = _given(options, "replica")
    described = await admin.describe_topics([topic])
    found = described.ok.get(topic)
    numbered = {one.partition: one for one in found.partitions} if found is not None else {}
    if partition not in numbered:
        raise CommandFailed(f"Error: partition {partition} does not exist for topic {topic}")
    if replica not in (LEADER, *numbered[partition].replicas):
        raise CommandFailed(
            f"Error: replica {replica} does not exist for partition ({topic}, {partition})"
        )


def _formatter(options: Options) -> Formatter:
    from moldau.cli.kafka.old_formatter import make_old_formatter  # noqa: PLC0415 - not for the help

    try:
        return make_old_formatter(options.text("formatter"), key_values(options, "property"))
    except CommandFailed as error:
        raise options.error(str(error)) from None


class _Reading:
    """Reads one partition from an offset on, and prints."""

    def __init__(
        self,
        options: Options,
        formatter: Formatter,
        console: Console,
        consumer: client.Consumer[Any, Any],
    ) -> None:
        self._options = options
        self._formatter = formatter
        self._console = console
        self._consumer = consumer
        self._topic = options.text("topic")
        self._partition = _given(options, "partition")
        self._place = (self._topic, self._partition)
        self._left = _given(options, "max-messages")
        self._wait_ms = _given(options, "max-wait-ms")
        self._offset = 0

    def begin(self, start: int) -> None:
        """Go to where reading begins."""
        self._consumer.assign([self._place])
        if start == EARLIEST:
            self._consumer.seek_to_beginning(self._place)
        elif start == LATEST:
            self._consumer.seek_to_end(self._place)
        else:
            self._consumer.seek(self._place, start)
        self._offset = self._consumer.position(self._place)

    def run(self) -> int:
        """Print records until there are enough of them or the end is reached."""
        while self._left > 0:
            if self._options.has("no-wait-at-logend") and self._is_at_end():
                self._console.say(
                    f"Terminating. Reached the end of partition ({self._topic},"
                    f" {self._partition}) at offset {self._offset}"
                )
                return 0
            for record in self._polled():
                self._print(record)
            if not self._flush():
                return 1
        return 0

    def _is_at_end(self) -> bool:
        position = self._consumer.position(self._place)
        (end,) = self._consumer.end_offsets([self._place]).values()
        return position >= end

    def _polled(self) -> list[client.Record[Any, Any]]:
        try:
            return self._consumer.poll(
                timeout_ms=self._wait_ms, max_records=min(POLL_RECORDS_MAX, self._left)
            )
        except MoldauError as error:
            replica = _given(self._options, "replica")
            raise CommandFailed(
                f"Error consuming topic, partition, replica ({self._topic}, {self._partition},"
                f" {replica}) with offset [{self._offset}]: {what_of(error)}"
            ) from None

    def _print(self, record: client.Record[Any, Any]) -> None:
        from moldau.cli.kafka.record_formatter import print_record  # noqa: PLC0415 - not for the help

        self._offset = record.offset + 1
        if self._options.has("print-offsets"):
            self._console.say(f"next offset = {self._offset}")
        skips = self._options.has("skip-message-on-error")
        if print_record(record, self._formatter, self._console, skips=skips):
            self._left -= 1

    def _flush(self) -> bool:
        """Write out what was printed; False if nobody reads it any more."""
        try:
            self._console.stdout.flush()
        except BrokenPipeError:
            self._console.stderr.write(b"Unable to write to standard out, closing consumer.\n")
            return False
        return True


def _given(options: Options, name: str) -> int:
    value = options.number(name)
    assert value is not None, f"{name} has a default"
    return value
