"""Records as `kafka-console-consumer` prints them: what of them, in which order, what in between.

The properties and their defaults are those of Kafka's default formatter. Records are bytes, and
bytes they stay where nobody asks for a deserializer.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.base.errors import ConfigError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed
from moldau.client.serdes import built_in

PLAIN: Final = ("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter")
"""Formatters of any records, by the last part of their names."""
PARTS: Final = (
    "timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value",
)  # fmt: skip
"""In the order in which they are printed."""
TIMES: Final = {
    client.TimestampType.CREATE_TIME: "CreateTime",
    client.TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
NOT_TOLD: Final = b"NOT_PRESENT"
"""Of the delivery and the epoch: Kafka's console consumer does not hand them to its formatter."""

logger = logging.getLogger(__name__)

Formatter = Callable[["client.Record[bytes | None, bytes | None]"], bytes]


def make_formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    """Return the formatter that Kafka knows by the name of a class, today's or an earlier one."""
    short = re.split(r"[.$]", class_name)[-1]
    if short == "DefaultMessageFormatter":
        return RecordFormatter(properties)
    if short == "LoggingMessageFormatter":
        return LoggingFormatter(RecordFormatter(properties))
    if short == "NoOpMessageFormatter":
        return lambda _: b""
    from moldau.cli.kafka.internal_formatter import FORMS, InternalFormatter  # noqa: PLC0415 - rare

    if short in FORMS:
        return InternalFormatter(FORMS[short])
    known = ", ".join((*PLAIN, *FORMS))
    raise CommandFailed(f"Moldau has no formatter {class_name}; it has {known}")


def print_record(
    record: client.Record[Any, Any], formatter: Formatter, console: Console, *, skips: bool
) -> bool:
    """Print a record; if that is impossible refuse it, or say so where the command skips it."""
    try:
        console.stdout.write(formatter(record))
    except (ValueError, struct.error) as error:
        what = f"{record.topic}-{record.partition} offset {record.offset}: {error}"
        if not skips:
            raise CommandFailed(f"This record cannot be printed: {what}") from None
        console.warn(f"Error processing message, skipping this message: {what}")
        return False
    return True


class LoggingFormatter:
    """Prints records as another does, and notes them in the log at level INFO."""

    def __init__(self, inner: RecordFormatter) -> None:
        self._inner = inner

    def __call__(self, record: client.Record[bytes | None, bytes | None]) -> bytes:
        """Return the bytes of one record, the end of its line included."""
        kind = TIMES.get(record.timestamp_type)
        time = "" if kind is None else f"{kind}:{record.timestamp_ms}, "
        logger.info("%skey:%s, value:%s", time, _logged(record.key), _logged(record.value))
        return self._inner(record)


def _logged(part: bytes | None) -> str:
    return "null" if part is None else part.decode(errors="replace")


class RecordFormatter:
    """Kafka's default formatter."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        given = properties.get
        self._printed = [
            part for part in PARTS if _is_true(given(f"print.{part}", str(part == "value")))
        ]
        self._column_end = given("key.separator", "\t").encode()
        self._line_end = given("line.separator", "\n").encode()
        self._between_headers = given("headers.separator", ",").encode()
        self._null = given("null.literal", "null").encode()
        self._readers = {
            part: _reader(given(f"{part}.deserializer")) for part in ("key", "value", "headers")
        }

    def __call__(self, record: client.Record[bytes | None, bytes | None]) -> bytes:
        """Return the bytes of one record, the end of its line included."""
        columns = [getattr(self, f"_{part}")(record) for part in self._printed]
        return self._column_end.join(columns) + self._line_end if columns else b""

    def _timestamp(self, record: client.Record[Any, Any]) -> bytes:
        kind = TIMES.get(record.timestamp_type)
        return b"NO_TIMESTAMP" if kind is None else f"{kind}:{record.timestamp_ms}".encode()

    def _partition(self, record: client.Record[Any, Any]) -> bytes:
        return b"Partition:%d" % record.partition

    def _offset(self, record: client.Record[Any, Any]) -> bytes:
        return b"Offset:%d" % record.offset

    def _delivery(self, record: client.Record[Any, Any]) -> bytes:
        del record
        return b"Delivery:" + NOT_TOLD

    def _epoch(self, record: client.Record[Any, Any]) -> bytes:
        del record
        return b"Epoch:" + NOT_TOLD

    def _headers(self, record: client.Record[Any, Any]) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._between_headers.join(
            name.encode() + b":" + self._read("headers", value) for name, value in record.headers
        )

    def _key(self, record: client.Record[Any, Any]) -> bytes:
        return self._read("key", record.key)

    def _value(self, record: client.Record[Any, Any]) -> bytes:
        return self._read("value", record.value)

    def _read(self, part: str, data: bytes | None) -> bytes:
        reader = self._readers[part]
        given = self._null if data is None else data
        return given if reader is None else reader(given)


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _reader(class_name: str | None) -> Callable[[bytes], bytes] | None:
    if class_name is None:
        return None
    try:
        read = built_in(class_name).read
    except ConfigError as error:
        raise CommandFailed(str(error)) from None

    def text_of(data: bytes) -> bytes:
        value = read(data)
        if isinstance(value, bytes):
            return value
        return (str(value).lower() if isinstance(value, bool) else str(value)).encode()

    return text_of
