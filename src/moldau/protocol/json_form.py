"""Messages as JSON, letter for letter as Kafka's tools print them.

Names are Kafka's own in camel case, ids are text, bytes are base64, and a tagged field that has its
default is left out, as it is on the wire. Made from the declarations alone, so that any message in
any version can be shown.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

from moldau.base.ids import uuid_text
from moldau.protocol.fields import Field, Kind

_FIRST_WORDS: Final = {"kraft": "kRaft"}
"""Words with a capital of their own inside."""

_ESCAPE: Final = re.compile(r"\\(?:u(....)|.)")


def as_json(message: Any, version: int) -> dict[str, Any]:
    """Turn a message into plain values that `json_text` can write."""
    return {
        _camel_case(field.name): _value(field, getattr(message, field.name), version)
        for field in message.FIELDS
        if version in field.versions and not _left_out(field, message, version)
    }


def json_text(value: dict[str, Any]) -> str:
    """Write plain values in one line. Control characters are escaped with capital digits."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], text)


def _left_out(field: Field, message: Any, version: int) -> bool:
    if version not in field.tagged:
        return False
    default = field.default() if callable(field.default) else field.default
    return bool(getattr(message, field.name) == default)


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    match field.kind:
        case Kind.UUID:
            return uuid_text(value)
        case Kind.BYTES:
            return base64.b64encode(value).decode()
        case Kind.STRUCT:
            return as_json(value, version)
        case Kind.ARRAY:
            assert field.element is not None
            return [_value(field.element, each, version) for each in value]
        case _:
            return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return _FIRST_WORDS.get(first, first) + "".join(word.capitalize() for word in others)
