"""The header that Confluent's serializers put before a value: a zero, and the number of a schema.

The number is that of a schema in a registry, which nobody here asks: values are read by the schema
that the query names. Before a message of Protocol Buffers there also stands which of the messages
of its file it is, as a list of numbers; one zero is short for the first.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc

_MAGIC: Final = b"\x00"
_HEADER_SIZE: Final = 5
_VALUE_SIZE_MAX: Final = 2**31 - 1
"""Of a value in Arrow; a slice without an end goes wrong in pyarrow 26."""
_VARINT_SIZE_MAX: Final = 5

NO_HEADER: Final = "the value does not begin with a zero and four bytes, as valueHeader says"


def has_header(values: Any) -> Any:
    """Tell of each value whether it begins with a header; null of those that are null."""
    return pc.and_(
        pc.starts_with(values, _MAGIC), pc.greater_equal(pc.binary_length(values), _HEADER_SIZE)
    )


def without_header(values: Any) -> Any:
    """Return values without their headers; each has one."""
    return pc.binary_slice(values, _HEADER_SIZE, _VALUE_SIZE_MAX)


def without_message_numbers(value: bytes) -> bytes:
    """Return a message without the numbers before it; ValueError if they are none."""
    count, position = _varint(value, 0)
    for _ in range(count):
        _, position = _varint(value, position)
    return value[position:]


def _varint(value: bytes, position: int) -> tuple[int, int]:
    """Read a number in zigzag form; return it and the position behind it."""
    read = 0
    for place, byte in enumerate(value[position : position + _VARINT_SIZE_MAX]):
        read |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (read >> 1) ^ -(read & 1), position + place + 1
    raise ValueError("the value does not say which message of its file it is")
