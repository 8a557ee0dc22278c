"""`kafka-console-consumer`: prints the records of topics, as bytes."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    client_settings,
    cluster_options,
    fitting,
    key_values,
    parse,
    read_properties,
    require_cluster,
)

if TYPE_CHECKING:
    from moldau.cli.kafka.record_formatter import Formatter

DEFAULT_FORMATTER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
POLL_MS: Final = 1_000
POLL_RECORDS_MAX: Final = 500
GROUP_NUMBERS: Final = 100_000
"""Of the group that is made up where none is given."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "topic", "The topic."),
        text("include", "regex", "A regular expression for topics.", former=("whitelist",)),
        number("partition", "partition", "One partition; from its end, unless --offset says more."),
        text(
            "offset", "consume offset", "Where to begin in the partition: an offset, earliest or"
            " latest.", default="latest",
        ),
        text(
            "command-property", "consumer_prop", "A setting of the consumer: key=value.",
            former=("consumer-property",),
        ),
        text("formatter", "class", "How records are printed.", default=DEFAULT_FORMATTER),
        text(
            "formatter-property", "prop",
            "Of the formatter: print.timestamp, print.key, print.offset, print.partition,"
            " print.epoch, print.headers, print.value, key.separator, line.separator,"
            " headers.separator, null.literal, key.deserializer, value.deserializer.",
            former=("property",),
        ),
        text("formatter-config", "config file", "A file with properties of the formatter."),
        flag("from-beginning", "Begin with the first record where no offset is committed."),
        number("max-messages", "num_messages", "End after so many records."),
        number("timeout-ms", "timeout_ms", "End when none has come for so long."),
        flag("skip-message-on-error", "Go on after a record that cannot be printed."),
        text("key-deserializer", "class", "How keys are read: String, Long, ..., Java's names."),
        text("value-deserializer", "class", "How values are read."),
        flag("enable-systest-events", "Say when it ends."),
        text("isolation-level", "", "read_committed leaves out what was aborted.",
             default="read_uncommitted"),
        text("group", "consumer group id", "The group whose offsets are used and committed."),
        flag("new-consumer", "Taken and not heeded: there is no other since 2.0."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to read data from Kafka topics and outputs it to standard output."
    options = parse(PARSER, arguments, about, console)
    _check(options)
    settings = _settings(options, console)
    start = _start(options)
    formatter = _formatter(options)

    reading = _Reading(options, formatter, console)
    consumer: client.Consumer[Any, Any] = client.Consumer(**fitting(client.Consumer, settings))
    try:
        with consumer:
            _begin(consumer, options, start)
            reading.run(consumer)
    finally:
        console.warn(f"Processed a total of {reading.count} messages")
        if options.has("enable-systest-events"):
            console.say("shutdown_complete")
    return 0


def _check(options: Options) -> None:
    options.require_one_of("topic", "include")
    if options.has("partition"):
        if not options.has("topic"):
            raise options.error("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise options.error("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise options.error("The partition is required when offset is specified.")
    require_cluster(options)


def _settings(options: Options, console: Console) -> dict[str, Any]:
    settings = client_settings(options, console)
    groups = {one for one in (options.value("group"), settings.get("group.id")) if one}
    if len(groups) > 1:
        listed = ", ".join(f"'{one}'" for one in sorted(groups))
        raise options.error(
            "The group ids provided in different places (directly using '--group', via"
            " '--consumer-property', or via '--consumer.config') do not match. Detected group"
            f" ids: {listed}"
        )
    if groups and options.has("partition"):
        raise options.error("Options group and partition cannot be specified together.")
    reset = settings.setdefault(
        "auto.offset.reset", "earliest" if options.has("from-beginning") else "latest"
    )
    if options.has("from-beginning") and reset != "earliest":
        raise CommandFailed(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}',"
            " please remove one option"
        )
    settings.setdefault("client.id", "console-consumer")
    if options.has("isolation-level"):
        settings["isolation.level"] = options.text("isolation-level")
    if groups:
        settings["group.id"] = groups.pop()
    else:
        # The group is never used again, so its offsets are not kept either.
        settings["group.id"] = f"console-consumer-{random.randrange(GROUP_NUMBERS)}"
        settings.setdefault("enable.auto.commit", "false")
    return settings


def _start(options: Options) -> int | str:
    given = options.text("offset")
    if not options.has("offset"):
        return "earliest" if options.has("from-beginning") else "latest"
    if given.lower() in ("earliest", "latest"):
        return given.lower()
    if not given.isdecimal():
        raise options.error(
            f"The provided offset value '{given}' is incorrect. Valid values are 'earliest',"
            " 'latest', or a non-negative long."
        )
    return int(given)


def _formatter(options: Options) -> Formatter:
    from moldau.cli.kafka.record_formatter import make_formatter  # noqa: PLC0415 - not for the help

    properties: dict[str, str] = {}
    if (file := options.value("formatter-config")) is not None:
        properties |= read_properties(file)
    for part in ("key", "value"):
        if (name := options.value(f"{part}-deserializer")) is not None:
            properties[f"{part}.deserializer"] = name
    properties |= key_values(options, "formatter-property")
    try:
        return make_formatter(options.text("formatter"), properties)
    except CommandFailed as error:
        raise options.error(str(error)) from None


def _begin(consumer: client.Consumer[Any, Any], options: Options, start: int | str) -> None:
    if (partition := options.number("partition")) is not None:
        place = (options.text("topic"), partition)
        consumer.assign([place])
        if start == "earliest":
            consumer.seek_to_beginning(place)
        elif isinstance(start, int):
            consumer.seek(place, start)
        else:
            consumer.seek_to_end(place)
    elif (pattern := options.value("include")) is not None:
        import re  # noqa: PLC0415 - for patterns alone

        consumer.subscribe(pattern=re.compile(pattern))
    else:
        consumer.subscribe([options.text("topic")])


class _Reading:
    """Printing until it is enough: by count, by time, or because nobody reads any more."""

    def __init__(self, options: Options, formatter: Formatter, console: Console) -> None:
        self.count = 0
        self._count_max = options.number("max-messages")
        given_ms = options.number("timeout-ms")
        self._patience_ms = given_ms if given_ms is not None and given_ms >= 0 else None
        self._skips = options.has("skip-message-on-error")
        self._formatter = formatter
        self._console = console

    def run(self, consumer: client.Consumer[Any, Any]) -> None:
        from moldau.cli.kafka.record_formatter import print_record  # noqa: PLC0415 - not for the help

        last_ms = _now_ms()
        while (left := self._left()) > 0:
            records = consumer.poll(
                timeout_ms=min(
                    POLL_MS, POLL_MS if self._patience_ms is None else self._patience_ms
                ),
                max_records=min(POLL_RECORDS_MAX, left),
            )
            for record in records:
                self.count += 1
                print_record(record, self._formatter, self._console, skips=self._skips)
            if not self._reaches_reader():
                return
            if records:
                last_ms = _now_ms()
            elif self._patience_ms is not None and _now_ms() - last_ms > self._patience_ms:
                self._console.warn("No record has come in time: --timeout-ms is over")
                return

    def _left(self) -> int:
        return POLL_RECORDS_MAX if self._count_max in (None, -1) else self._count_max - self.count

    def _reaches_reader(self) -> bool:
        try:
            self._console.stdout.flush()
        except BrokenPipeError:
            self._console.warn("Unable to write to standard out, closing consumer.")
            return False
        return True


def _now_ms() -> float:
    return time.monotonic() * 1000
