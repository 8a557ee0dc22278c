"""Lines from standard input as records: what `kafka-console-producer` takes headers and keys from.

    parse.headers=true parse.key=true       h1:v1,h2:v2<tab>key<tab>value

The properties and their defaults are those of Kafka's reader. A line is bytes and stays bytes:
what is not UTF-8 goes through unharmed, where Kafka's reader would replace it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from moldau.cli.kafka.running import CommandFailed


class Line(NamedTuple):
    """One record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Reads lines as the properties say."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        given = properties.get
        self._parses_key = _is_true(given("parse.key"))
        self._parses_headers = _is_true(given("parse.headers"))
        self._ignores_errors = _is_true(given("ignore.error"))
        separators = {
            "key.separator": given("key.separator", "\t"),
            "headers.delimiter": given("headers.delimiter", "\t"),
            "headers.separator": given("headers.separator", ","),
            "headers.key.separator": given("headers.key.separator", ":"),
        }
        marker = given("null.marker")
        _check(separators, marker)
        self._key_end = separators["key.separator"].encode()
        self._headers_end = separators["headers.delimiter"].encode()
        self._between_headers = re.compile(separators["headers.separator"].encode())
        self._header_key_end = separators["headers.key.separator"].encode()
        self._null = None if marker is None else marker.encode()
        self._number = 0

    def read(self, stdin: BinaryIO) -> Iterator[Line]:
        """Yield the records of a stream as they come."""
        for line in stdin:
            stripped = line.removesuffix(b"\n").removesuffix(b"\r")
            for part in stripped.split(b"\r"):  # to Java a lone carriage return ends a line too
                self._number += 1
                yield self._record(part)

    def _record(self, line: bytes) -> Line:
        headers, rest = self._cut(
            line, self._headers_end, "headers delimiter", wanted=self._parses_headers
        )
        key, value = self._cut(rest, self._key_end, "key separator", wanted=self._parses_key)
        named = [] if headers is None or headers == self._null else self._headers(headers)
        return Line(self._known(key), self._known(value), named)

    def _cut(
        self, line: bytes, end: bytes, what: str, *, wanted: bool
    ) -> tuple[bytes | None, bytes]:
        if not wanted:
            return None, line
        part, found, rest = line.partition(end)
        if found:
            return part, rest
        if self._ignores_errors:
            return None, line
        shown = line.decode(errors="replace")
        raise CommandFailed(f"No {what} found on line number {self._number}: '{shown}'")

    def _headers(self, given: bytes) -> list[tuple[str, bytes | None]]:
        pairs = self._between_headers.split(given)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return [self._header(pair) for pair in pairs]

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self._header_key_end)
        shown = name.decode(errors="replace")
        if not found:
            if self._ignores_errors:
                return shown, None
            raise CommandFailed(
                f"No header key separator found in pair '{shown}' on line number {self._number}"
            )
        if name == self._null:
            raise CommandFailed(
                f"Header keys should not be equal to the null marker '{shown}' as they can't be"
                " null"
            )
        return shown, self._known(value)

    def _known(self, part: bytes | None) -> bytes | None:
        return None if part is None or part == self._null else part


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _check(separators: Mapping[str, str], marker: str | None) -> None:
    headers = ("headers.delimiter", "headers.separator", "headers.key.separator")
    for place, name in enumerate(headers):
        for other in headers[place + 1 :]:
            if separators[name] == separators[other]:
                raise CommandFailed(f"{name} and {other} may not be equal")
    for name, separator in separators.items():
        if separator == marker:
            raise CommandFailed(f"null.marker and {name} may not be equal")
