"""Colours of terminals, which programs write into their logs, and nobody looks for. Pure."""

from __future__ import annotations

import re
from typing import Final

ESCAPE: Final = "\x1b"
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]{0,32}[mK]")
"""What sets colours, or erases to the end of the line; nothing else is left out."""


def uncoloured(text: str) -> str:
    """Return a text without colours."""
    return _COLOUR.sub("", text) if ESCAPE in text else text
