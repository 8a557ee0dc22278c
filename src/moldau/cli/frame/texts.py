"""Data and words as text: JSON and YAML for programs, and what a terminal may be shown.

Ids of clients and values of configs are chosen by others and may hold anything. Characters that
move the cursor, change colours or turn the direction of writing are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Those that JSON leaves as they are."""


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Write data as JSON that people of every language can read, and any terminal show."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def safe(text: str) -> str:
    """Escape what a terminal would obey."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def size_text(size: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# YAML: text that could be read as anything else is quoted as in JSON, which YAML contains.

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that are something else than text, to readers of YAML 1.1 at least."""


def yaml_text(data: object) -> str:
    """Write plain data as one YAML document."""
    return "\n".join(_lines(data)) + "\n"


def _lines(data: object) -> Iterator[str]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _entry(f"{_scalar(str(key))}:", value)
    elif isinstance(data, (list, tuple)) and data:
        for value in data:
            yield from _item(value)
    else:
        yield _scalar(data)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, (dict, list, tuple)) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _item(value: object) -> Iterator[str]:
    mark = "- "
    for line in _lines(value):
        yield mark + line
        mark = "  "


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=True)
