"""Messages in which every string is one text and every array has so many equal elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.protocol.fields import Field, Kind


def filled(declared: Any, version: int, text: str, count: int) -> Any:
    """Return a message of a declared class; numbers and fields of other versions keep defaults."""
    return declared(
        **{
            field.name: _value(field, version, text, count)
            for field in declared.FIELDS
            if version in field.versions and _is_filled(field)
        }
    )


def _is_filled(field: Field) -> bool:
    return field.kind in {Kind.STRING, Kind.ARRAY} or (
        field.kind is Kind.STRUCT and field.tag is None and not any(field.nullable)
    )


def _value(field: Field, version: int, text: str, count: int) -> Any:
    if field.kind is Kind.STRING:
        return text
    if field.kind is Kind.STRUCT:
        return filled(field.struct, version, text, count)
    if field.kind is Kind.ARRAY:
        element = field.element
        assert element is not None
        if element.kind is Kind.STRUCT:
            return [filled(element.struct, version, text, count) for _ in range(count)]
        return [text if element.kind is Kind.STRING else element.default for _ in range(count)]
    raise AssertionError(field)


def strings_in(message: Any) -> Iterator[str]:
    """Yield every string of a message."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        values = value if isinstance(value, list | tuple) else [value]
        for one in values:
            if isinstance(one, str):
                yield one
            elif hasattr(one, "FIELDS"):
                yield from strings_in(one)
