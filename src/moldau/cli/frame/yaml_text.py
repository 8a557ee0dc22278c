"""YAML for what commands print: mappings, lists, text, numbers, yes, no and nothing.

Half a page does it, because only writing is needed and text that could be read as anything else is
quoted as in JSON, which YAML contains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

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
