"""Says why a message could not be encoded, after the fact.

Encoders check nothing in advance: they fail on the value that does not fit. Only then does this
walk the message, field by field, to name the culprit. Nothing on the hot path comes here.
"""

from __future__ import annotations

import struct
from typing import Any

from moldau.base.files import FileRegion
from moldau.protocol.fields import Field, Kind
from moldau.protocol.layout import CODES, Layout
from moldau.protocol.wire import TEXT_BYTES_MAX, EncodeError

_SHOWN_CHARACTERS = 60
"""Enough of a wrong value to recognise it; the rest would only fill the log."""


def unencodable(message: Any, layout: Layout, error: Exception) -> EncodeError:
    """Build the error that names the first field whose value does not fit."""
    label = f"{type(message).__name__} v{layout.version}"
    problem = _struct_problem(type(message), message, layout, "")
    return EncodeError(f"{label}: {problem or error}")


def _struct_problem(declared: Any, value: Any, layout: Layout, path: str) -> str | None:
    if not isinstance(value, declared):
        return f"{path} is {_shown(value)}, not a {declared.__name__}"
    tagged = layout.tagged(declared)
    for field in [*layout.ordinary(declared), *tagged]:
        inner = getattr(value, field.name)
        if inner is None and field.default is None and field in tagged:
            continue
        problem = _problem(field, inner, layout, f"{path}.{field.name}".lstrip("."))
        if problem:
            return problem
    return None


def _problem(field: Field, value: Any, layout: Layout, path: str) -> str | None:
    if value is None:
        return None if layout.nullable(field) else f"{path} is None, not allowed in this version"
    if field.kind is Kind.STRUCT:
        return _struct_problem(field.struct, value, layout, path)
    if field.kind is Kind.ARRAY:
        return _array_problem(field, value, layout, path)
    problem = _scalar_problem(field, value, layout)
    return f"{path} {problem}" if problem else None


def _array_problem(field: Field, value: Any, layout: Layout, path: str) -> str | None:
    if field.element is None or not isinstance(value, (list, tuple)):
        return f"{path} is {_shown(value)}, not a list"
    for index, item in enumerate(value):
        problem = _problem(field.element, item, layout, f"{path}[{index}]")
        if problem:
            return problem
    return None


def _scalar_problem(field: Field, value: Any, layout: Layout) -> str | None:
    match field.kind:
        case Kind.STRING:
            return _text_problem(value, layout)
        case Kind.BYTES:
            fits = isinstance(value, (bytes, bytearray, memoryview))
        case Kind.UUID:
            fits = isinstance(value, bytes) and len(value) == 16
        case Kind.RECORDS:
            fits = not isinstance(value, (str, FileRegion))
        case _:
            try:
                struct.pack(">" + CODES[field.kind], value)
            except struct.error as error:
                return f"is {_shown(value)}: {error}"
            fits = True
    return None if fits else f"is {_shown(value)}, not {field.kind.value}"


def _text_problem(value: Any, layout: Layout) -> str | None:
    if not isinstance(value, str):
        return f"is {_shown(value)}, not a string"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"is {_shown(value)}, which UTF-8 cannot write"
    if size > TEXT_BYTES_MAX and not layout.flexible:
        return f"has {size} bytes, more than {TEXT_BYTES_MAX}"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
