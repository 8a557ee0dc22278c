"""The content of a node: a JSON object as Kafka writes it, or a decimal number.

Encoding has Kafka's bytes, which are those of Jackson: no spaces, keys in the order given, UTF-8.
Control characters and characters beyond 16 bits are escaped with upper-case hexadecimal digits.

Decoding treats the content as input of strangers, because anybody with zookeeper-shell can write
it. Size and nesting are limited before the JSON parser sees the content. Unknown fields are ignored
and missing optional fields get a default, so that nodes of older and newer Kafkas can be read. For
everything else there is one exception, `MalformedNode`, which says in one line which node is wrong
and why. The reader leaves out what depends on that node and goes on with the others.

Decoding takes time in proportion to the size, some 0.2 s for the largest node. The kinds of nodes
that may be large are decoded and encoded in steps (`steps`), the others are refused if they are.

This module does not know which nodes there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.base.texts import shorten
from moldau.cluster.zookeeper.nodes.json_parsing import (
    DEPTH_MAX,
    is_nested_deeper,
    parse,
    parse_in_steps,
)
from moldau.cluster.zookeeper.nodes.steps import Steps

NODE_BYTES_MAX: Final = 0xFFFFF
"""ZooKeeper's default for `jute.maxbuffer`: a client cannot read a larger node."""

SMALL_BYTES_MAX: Final = 64 * 1024
"""Of a node that is decoded at once, in a millisecond: an ISR of thousands of brokers fits."""

_AT_ONCE_MAX: Final = 4 * 1024
"""Content that Python's parser takes as a whole, also in steps: most nodes."""

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

NO_TIMESTAMP: Final = 0
"""A node without a time. Kafka writes times for people, and never reads them."""

_BROKERS_MAX: Final = 10_000
"""Brokers in one list of replicas: more than any cluster has."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")
_BEYOND_16_BITS: Final = re.compile("[\U00010000-\U0010ffff]")
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


class MalformedNode(MoldauError):  # noqa: N818 - it names the thing
    """A node whose content cannot be used. The text is one line and names the node."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{printable(path)}: {problem}")
        self.path = path
        self.problem = problem


def printable(text: str) -> str:
    """Return text of a node as part of one line of bounded length."""
    text = shorten(text)
    return text if text.isprintable() else ascii(text)[1:-1]


def encode_object(fields: Mapping[str, Any]) -> bytes:
    """Encode a JSON object, its keys in this order."""
    return encode_value(fields)


def encode_value(value: object) -> bytes:
    """Encode any JSON value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if "\\u" in text:
        text = _ESCAPE.sub(_with_upper_case_digits, text)
    if not text.isascii():
        text = _BEYOND_16_BITS.sub(_as_two_escapes, text)
    return text.encode()


def _with_upper_case_digits(escape: re.Match[str]) -> str:
    digits: str | None = escape[1]
    return escape[0] if digits is None else "\\u" + digits.upper()


def _as_two_escapes(character: re.Match[str]) -> str:
    number = ord(character[0])
    return f"\\u{0xD7C0 + (number >> 10):04X}\\u{0xDC00 + (number & 0x3FF):04X}"


def encode_decimal(number: int) -> bytes:
    """Encode a number as decimal text."""
    return b"%d" % number


def decode_decimal(path: str, data: bytes | None, most: int = INT32_MAX) -> int:
    """Decode decimal text from 0 on, without a sign and without zeros in front."""
    if not data:
        raise MalformedNode(path, "it is empty")
    text = data[:32].decode("ascii", "replace")
    if len(data) > 32 or not _DECIMAL.fullmatch(text) or int(text) > most:
        raise MalformedNode(path, f"{printable(text)} is no number from 0 to {most}")
    return int(text)


def decode_object(path: str, data: bytes | None) -> NodeObject:
    """Decode a JSON object of a kind of node that is never large."""
    data = _checked_size(path, data, SMALL_BYTES_MAX)
    if is_nested_deeper(data, DEPTH_MAX):
        raise MalformedNode(path, f"it has open brackets, or more than {DEPTH_MAX} levels")
    try:
        return _as_object(path, parse(data))
    except ValueError as error:
        raise _no_json(path, error) from error


def decode_object_in_steps(path: str, data: bytes | None) -> Steps[NodeObject]:
    """Decode a JSON object of any size."""
    data = _checked_size(path, data, NODE_BYTES_MAX)
    if len(data) <= _AT_ONCE_MAX:
        return decode_object(path, data)
    try:
        return _as_object(path, (yield from parse_in_steps(data)))
    except (ValueError, RecursionError) as error:
        raise _no_json(path, error) from error


def _checked_size(path: str, data: bytes | None, most: int) -> bytes:
    if not data:
        raise MalformedNode(path, "it is empty")
    if len(data) > most:
        raise MalformedNode(path, f"it has {len(data)} bytes, more than {most}")
    return data


def _as_object(path: str, value: object) -> NodeObject:
    if not isinstance(value, dict):
        raise MalformedNode(path, "it is no JSON object")
    return NodeObject(path, "", value)


def _no_json(path: str, error: Exception) -> MalformedNode:
    return MalformedNode(path, f"it is no JSON: {printable(str(error))}")


class NodeObject:
    """A JSON object of a node. Its methods return fields of the right type, or refuse the node."""

    __slots__ = ("_fields", "_name", "path")

    def __init__(self, path: str, name: str, fields: Mapping[str, Any]) -> None:
        self.path = path
        self._name = name
        self._fields = fields

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Walk over the names of all fields."""
        for name in self._fields:
            yield self._checked_text(name, name)

    def refuse(self, problem: str) -> MalformedNode:
        """Return the exception for this node."""
        return MalformedNode(self.path, problem)

    def number(
        self, name: str, default: int | None = None, *, least: int = 0, most: int = INT32_MAX
    ) -> int:
        """Return a whole number in these bounds."""
        value = self._value(name, default)
        if not _is_whole_number(value) or not least <= value <= most:
            raise self.refuse(f"{self._label(name)} is no number from {least} to {most}")
        return int(value)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return self._checked_text(name, self._value(name, default))

    def flag(self, name: str) -> bool:
        """Return whether a field is true. One that is missing is not."""
        value = self._value(name, default=False)
        if not isinstance(value, bool):
            raise self.refuse(f"{self._label(name)} is neither true nor false")
        return value

    def decimal_text(self, name: str, default: int | None = None, *, most: int = INT64_MAX) -> int:
        """Return a number that is written as text."""
        if name not in self and default is not None:
            return default
        text = self.text(name)
        if not _DECIMAL.fullmatch(text) or int(text) > most:
            raise self.refuse(f"{self._label(name)} is no decimal text from 0 to {most}")
        return int(text)

    def object(self, name: str, default: Mapping[str, Any] | None = None) -> NodeObject:
        """Return an object."""
        value = self._value(name, default)
        if not isinstance(value, Mapping):
            raise self.refuse(f"{self._label(name)} is no object")
        return NodeObject(self.path, self._label(name), value)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return [self._checked_text(name, value) for value in self._list(name)]

    def objects(self, name: str) -> Iterator[NodeObject]:
        """Walk over a list of objects."""
        for value in self._list(name):
            if not isinstance(value, Mapping):
                raise self.refuse(f"{self._label(name)} has an element that is no object")
            yield NodeObject(self.path, self._label(name), value)

    def brokers(self, name: str, default: list[int] | None = None) -> tuple[BrokerId, ...]:
        """Return a list of the ids of different brokers."""
        values = self._list(name, default)
        if len(values) > _BROKERS_MAX:
            raise self.refuse(f"{self._label(name)} has more than {_BROKERS_MAX} brokers")
        for value in values:
            if not _is_whole_number(value) or not 0 <= value <= INT32_MAX:
                raise self.refuse(f"{self._label(name)} has a value that is no broker id")
        if len(set(values)) != len(values):
            raise self.refuse(f"{self._label(name)} has a broker twice")
        return tuple(values)

    def _list(self, name: str, default: list[Any] | None = None) -> list[Any]:
        value = self._value(name, default)
        if not isinstance(value, list):
            raise self.refuse(f"{self._label(name)} is no list")
        return value

    def _value(self, name: str, default: Any) -> Any:
        value = self._fields.get(name)
        if value is not None:
            return value
        if default is None:
            raise self.refuse(f"{self._label(name)} is missing")
        return default

    def _checked_text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.refuse(f"{self._label(name)} is no text")
        if not value.isascii() and _HALF_CHARACTER.search(value):
            # An escape for half a character. It could never be written as UTF-8 again.
            raise self.refuse(f"{self._label(name)} is no valid Unicode text")
        return value

    def _label(self, name: str) -> str:
        return f"{self._name}.{printable(name)}" if self._name else printable(name)


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
