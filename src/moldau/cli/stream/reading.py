"""Lines as records to send: plain, with keys, as JSON, or by a percent format.

    value                              a line
    key:value                          -K :
    {"key": "k", "value": "v"}         --json, as `moldau consume -o json` writes it
    %k=%v                              -f, each field up to what follows it in the format

Pure. A line is bytes and stays bytes. What cannot be read raises UserError.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from moldau.base.errors import UserError
from moldau.cli.stream.percent import INPUT_LETTERS, READERS, Field, parse_percent
from moldau.client.records import Header

SHOWN_SIZE_MAX: Final = 60
"""As much of a bad line as helps to find it."""

NUMBER_DIGITS_MAX: Final = 18
"""All numbers of so many digits are numbers of 64 bits."""


class Line(NamedTuple):
    """What a line says of a record; None leaves it to the options, or to the producer."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


Read = Callable[[bytes], Line]


def value_reader(null: bytes | None) -> Read:
    """Take lines as values; those equal to `null` are no value."""
    if null is None:
        return Line
    return lambda line: Line(None if line == null else line)


def tombstone_reader(line: bytes) -> Line:
    """Take a line as a key whose value is to go."""
    return Line(None, line)


def key_reader(delimiter: bytes, null: bytes | None) -> Read:
    """Take lines as keys and values, cut at the first delimiter."""

    def read(line: bytes) -> Line:
        key, found, value = line.partition(delimiter)
        if not found:
            raise UserError(f"{_shown(line)} has no {_shown(delimiter)} between key and value")
        return Line(None if value == null else value, None if key == null else key)

    return read


def percent_reader(text: str, null: bytes | None) -> Read:
    """Take lines by a format; a field ends where what follows it in the format begins."""
    parts = parse_percent(text.removesuffix("\\n"), INPUT_LETTERS)
    fields = [part for part in parts if isinstance(part, Field)]
    letters = [field.letter for field in fields]
    if len(set(letters)) < len(letters):
        raise UserError(f"-f {text!r}: a field occurs twice")
    if any(isinstance(a, Field) and isinstance(b, Field) for a, b in zip(parts, parts[1:])):  # noqa: B905, RUF007 - neighbours
        raise UserError(f"-f {text!r}: two fields need a text between them")
    pattern = re.compile(
        b"".join(b"(.*?)" if isinstance(part, Field) else re.escape(part) for part in parts),
        re.DOTALL,
    )

    def read(line: bytes) -> Line:
        found = pattern.fullmatch(line)
        if found is None:
            raise UserError(f"{_shown(line)} does not match -f {text!r}")
        named = {
            _LINE_FIELDS[field.letter]: _field(field, part, null)
            for field, part in zip(fields, found.groups(), strict=True)
        }
        return Line(**{"value": None, **named})

    return read


_LINE_FIELDS: Final = {
    "k": "key", "v": "value", "p": "partition", "T": "timestamp_ms", "h": "headers",
}  # fmt: skip


def _field(field: Field, part: bytes, null: bytes | None) -> Any:
    match field.letter:
        case "p" | "T":
            if not part.isdigit() or len(part) > NUMBER_DIGITS_MAX:
                raise UserError(f"{_shown(part)} is not a number for %{field.letter}")
            return int(part)
        case "h":
            pairs = part.decode(errors="replace").split(",") if part else ()
            return tuple(parse_header(pair) for pair in pairs)
        case _:
            if part == null:
                return None
            try:
                return READERS[field.form](part) if field.form else part
            except ValueError as error:
                raise UserError(f"{_shown(part)} is not {field.form}: {error}") from error


def given_header(text: str) -> Header:
    """Read `name=value` of an option; a name alone is more likely a slip than a null."""
    if "=" not in text:
        raise UserError(f"{text!r} is not a header: expected NAME=VALUE, or NAME= for an empty one")
    return parse_header(text)


def parse_header(text: str) -> Header:
    """Read `name=value`; a name alone, as `consume` prints it, has no value."""
    name, equals, value = text.partition("=")
    if not name:
        raise UserError(f"{text!r} is not a header: expected NAME=VALUE")
    return name, value.encode(errors="surrogateescape") if equals else None


# JSON

_JSON_FIELDS: Final = frozenset(
    {"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"}
)
_JSON_UNUSED: Final = frozenset({"topic", "offset"})
"""Written by `moldau consume -o json`, and of the record that was."""


def json_reader(line: bytes) -> Line:
    """Take a line as a JSON object."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{_shown(line)} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise UserError(f"{_shown(line)} is not an object")
    if unknown := given.keys() - _JSON_FIELDS - _JSON_UNUSED:
        known = ", ".join(sorted(_JSON_FIELDS))
        raise UserError(f"{_shown(line)}: no field {min(unknown)!r} (there is: {known})")
    return Line(
        _json_bytes(given, "value"),
        _json_bytes(given, "key"),
        _json_number(given, "partition"),
        _json_number(given, "timestamp"),
        _json_headers(given.get("headers")),
    )


def _json_bytes(given: Mapping[str, Any], name: str) -> bytes | None:
    """Take text as it is, base64 decoded, nothing as null, and anything else as JSON again."""
    if (encoded := given.get(f"{name}_base64")) is not None:
        if name in given:
            raise UserError(f"{name} and {name}_base64 are both given")
        try:
            return b64decode(encoded, validate=True)
        except (ValueError, TypeError) as error:
            raise UserError(f"{name}_base64 is not base64: {error}") from error
    match given.get(name):
        case None:
            return None
        case str(text):
            try:
                return text.encode()
            except UnicodeEncodeError as error:
                raise UserError(f"{name} has an invalid character: {error}") from error
        case other:
            return json.dumps(other, ensure_ascii=True, separators=(",", ":")).encode()


def _json_number(given: Mapping[str, Any], name: str) -> int | None:
    number = given.get(name)
    if number is None:
        return None
    if type(number) is int and 0 <= number < 10**NUMBER_DIGITS_MAX:
        return number
    raise UserError(f"{name} must be a number of at least 0, not {number!r}")


def _json_headers(given: Any) -> tuple[Header, ...]:
    """Take headers as a list of objects, in which names may repeat, or as one object."""
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((name, _json_bytes(given, name)) for name in given)
    if isinstance(given, list) and all(
        isinstance(one, dict) and isinstance(one.get("key"), str) for one in given
    ):
        return tuple((one["key"], _json_bytes(one, "value")) for one in given)
    raise UserError('headers are {"NAME": "VALUE"} or [{"key": "NAME", "value": "VALUE"}]')


def _shown(part: bytes) -> str:
    text = part[:SHOWN_SIZE_MAX].decode(errors="backslashreplace")
    return repr(text + ("..." if len(part) > SHOWN_SIZE_MAX else ""))
