"""Records as bytes to print: by a percent format, or as JSON, one object a line.

Pure. Values are bytes and stay bytes; where they go to a terminal, what it would obey is escaped.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moldau.cli.frame.texts import safe
from moldau.cli.stream.percent import DATE, OUTPUT_LETTERS, WRITERS, Field, parse_percent
from moldau.client.records import Header, Record

AnyRecord = Record[bytes | None, bytes | None]
Write = Callable[[AnyRecord], bytes]
"""Makes of a record what is printed for it."""
Escape = Callable[[bytes], bytes]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def harmless(text: bytes) -> bytes:
    """Escape what a terminal would obey, and show bytes that are no text."""
    return safe(text.decode("utf-8", "backslashreplace")).encode()


def percent_writer(text: str, *, null: bytes = b"", escape: Escape | None = None) -> Write:
    """Make a writer of a format; `null` is written for nothing, `escape` is for terminals."""
    parts = [_writer(part, null, escape) for part in parse_percent(text, OUTPUT_LETTERS)]
    if len(parts) == 1:
        return parts[0]

    def write(record: AnyRecord) -> bytes:
        return b"".join([part(record) for part in parts])

    return write


def _writer(part: bytes | Field, null: bytes, escape: Escape | None) -> Write:
    if isinstance(part, bytes):
        return lambda _: part
    match part.letter:
        case "k":
            return _bytes_writer(_key, WRITERS.get(part.form, escape), null)
        case "v":
            return _bytes_writer(_value, WRITERS.get(part.form, escape), null)
        case "h":
            return lambda record: _headers(record.headers, null, escape)
        case "d":
            return _date_writer(part.form or DATE)
        case _:
            return _NUMBERS[part.letter]


def _key(record: AnyRecord) -> bytes | None:
    return record.key


def _value(record: AnyRecord) -> bytes | None:
    return record.value


def _bytes_writer(
    field: Callable[[AnyRecord], bytes | None], form: Escape | None, null: bytes
) -> Write:
    def write(record: AnyRecord) -> bytes:
        found = field(record)
        if found is None:
            return null
        return found if form is None else form(found)

    return write


def _date_writer(pattern: str) -> Write:
    def write(record: AnyRecord) -> bytes:
        return _date(record.timestamp_ms).strftime(pattern).encode(errors="surrogateescape")

    return write


def _date(timestamp_ms: int) -> datetime:
    """Return a local date; times are the producer's, and may be beyond all calendars."""
    try:
        return (EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone()
    except (OverflowError, ValueError):
        return EPOCH


def _headers(headers: Any, null: bytes, escape: Escape | None) -> bytes:
    def shown(part: bytes) -> bytes:
        return part if escape is None else escape(part)

    return b",".join(
        shown(name.encode()) + b"=" + (null if value is None else shown(value))
        for name, value in headers
    )


def _size(part: bytes | None) -> bytes:
    return b"-1" if part is None else b"%d" % len(part)


_NUMBERS: Final[dict[str, Write]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "K": lambda record: _size(record.key),
    "S": lambda record: _size(record.value),
}


def write_json(record: AnyRecord) -> bytes:
    """Write a record as a line of JSON, which `moldau produce --json` takes as it is.

    What is no text stands in `key_base64` and `value_base64` instead.
    """
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_json_field("key", record.key),
        **_json_field("value", record.value),
    }
    if record.headers:
        shown["headers"] = [_json_header(header) for header in record.headers]
    # Escaped, so that a terminal is never told anything but letters.
    return json.dumps(shown).encode() + b"\n"


def _json_header(header: Header) -> dict[str, Any]:
    name, value = header
    return {"key": name, **_json_field("value", value)}


def _json_field(name: str, part: bytes | None) -> dict[str, str | None]:
    if part is None:
        return {name: None}
    try:
        return {name: part.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(part).decode()}
