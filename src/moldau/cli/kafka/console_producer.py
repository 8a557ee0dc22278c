"""`kafka-console-producer`: sends lines of standard input as records.

One thing is not as in Kafka: where a record could not be delivered, the exit status is 1. Kafka's
command logs a line and ends with 0, and a script never learns of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import Option, OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    client_settings,
    cluster_options,
    fitting,
    key_values,
    parse,
    read_properties,
    require_cluster,
    what_of,
)

if TYPE_CHECKING:
    from moldau.cli.kafka.line_reader import Line, LineReader

SETTING_OF: Final = {
    "timeout": "linger.ms",
    "batch-size": "batch.size",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "max.block.ms",
    "max-memory-bytes": "buffer.memory",
    "socket-buffer-size": "send.buffer.bytes",
}
"""Options that are settings of the producer; what was typed counts before a file, a file before
the command's own default."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "topic", "The topic."),
        flag("sync", "Wait for each record before the next is sent."),
        Option("compression-codec", "none, gzip, snappy, lz4 or zstd; gzip if only named.",
               "compression-codec", argument_optional=True),
        number("batch-size", "size", "Bytes of a batch.", default=16_384,
               former=("max-partition-memory-bytes",)),
        number("message-send-max-retries", "", "How often sending is tried again.", default=3),
        number("retry-backoff-ms", "", "How long to wait in between.", default=100),
        number("timeout", "timeout_ms", "How long a batch may wait for more.", default=1_000),
        text("request-required-acks", "acks", "Who must have a record: 0, 1, all.", default="-1"),
        number("request-timeout-ms", "ms", "How long an answer may take.", default=1_500),
        number("metadata-expiry-ms", "ms", "How old metadata may become.", default=300_000),
        number("max-block-ms", "ms", "How long to wait for room in the buffer.", default=60_000),
        number("max-memory-bytes", "bytes", "Size of the buffer.", default=33_554_432),
        text("line-reader", "reader_class", "Taken; lines are read by Kafka's own reader's rules."),
        number("socket-buffer-size", "size", "Size of the socket's buffer.", default=102_400),
        text(
            "reader-property", "prop",
            "Of the reader: parse.key, key.separator, parse.headers, headers.delimiter,"
            " headers.separator, headers.key.separator, null.marker, ignore.error.",
            former=("property",),
        ),
        text("reader-config", "config file", "A file with properties of the reader."),
        text("command-property", "producer_prop", "A setting of the producer: key=value.",
             former=("producer-property",)),
        flag("new-producer", "Taken and not heeded: there is no other since 0.9."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to read data from standard input and publish it to Kafka."
    options = parse(PARSER, arguments, about, console)
    options.require("topic")
    require_cluster(options)
    settings = _settings(options, console)
    reader = _reader(options)

    sending = _Sending(options.text("topic"), console, waits=options.has("sync"))
    producer: client.Producer[bytes, bytes] = client.Producer(**fitting(client.Producer, settings))
    with producer:
        sending.run(producer, reader)
    return 1 if sending.failed else 0


def _settings(options: Options, console: Console) -> dict[str, Any]:
    settings = client_settings(options, console)
    for option, setting in SETTING_OF.items():
        if options.has(option) or setting not in settings:
            settings[setting] = options.text(option)
    if options.has("compression-codec") or "compression.type" not in settings:
        named = options.value("compression-codec") or "gzip"
        settings["compression.type"] = named if options.has("compression-codec") else "none"
    settings.setdefault("client.id", "console-producer")
    return settings


def _reader(options: Options) -> LineReader:
    from moldau.cli.kafka.line_reader import LineReader  # noqa: PLC0415 - not for the help

    properties: dict[str, str] = {}
    if (file := options.value("reader-config")) is not None:
        properties |= read_properties(file)
    return LineReader(properties | key_values(options, "reader-property"))


class _Sending:
    """From the first line to the last, and what became of them."""

    def __init__(self, topic: str, console: Console, *, waits: bool) -> None:
        self.failed = False
        self._topic = topic
        self._console = console
        self._waits = waits
        self._prompts = console.stdin.isatty() and console.stdout.isatty()

    def run(self, producer: client.Producer[bytes, bytes], reader: LineReader) -> None:
        self._prompt()
        for line in reader.read(self._console.stdin):
            delivery = producer.send(self._topic, line.value, line.key, headers=line.headers)
            delivery.add_done_callback(partial(self._settled, line))
            if self._waits:
                delivery.result()
            self._prompt()

    def _settled(self, line: Line, delivery: Any) -> None:
        error: MoldauError | None = delivery.exception()
        if error is None:
            return
        self.failed = True
        self._console.warn(
            f"Error when sending message to topic {self._topic} with key: {_size(line.key)},"
            f" value: {_size(line.value)} with error: {what_of(error)}"
        )

    def _prompt(self) -> None:
        if self._prompts:
            self._console.stdout.write(b">")
            self._console.stdout.flush()


def _size(part: bytes | None) -> str:
    return "null" if part is None else f"{len(part)} bytes"
