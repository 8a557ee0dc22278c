"""Texts that others chose (ids of clients, values of configs), as a terminal may have them.

They may hold anything; what would move the cursor, change colours or turn the direction of writing
is shown escaped.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What could move the cursor, change colours or turn the direction of writing."""
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Those of them that JSON leaves as they are."""


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Write data as JSON that people of every language can read, and any terminal show."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def safe(text: str) -> str:
    """Escape what a terminal would obey."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
