"""Cutting text that came from a client before it is repeated in an error message.

A client may send a name of 32,767 bytes, or a list of thousands of names. A message that repeats
them whole is of no use to its reader, and may be too long for the string field it travels in.
"""

from __future__ import annotations

from typing import Final

NAME_LENGTH_MAX: Final = 260
"""A little more than the longest name of a topic, so that no valid name is cut."""

MESSAGE_LENGTH_MAX: Final = 2000
"""Four bytes of UTF-8 a character at most, so that any message fits into a string field."""

_CUT: Final = "..."


def shorten(text: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return the text, or its beginning and three dots if it is longer than that."""
    return text if len(text) <= length_max else text[:length_max] + _CUT


def shorten_list(names: list[str], separator: str = ", ", length_max: int = NAME_LENGTH_MAX) -> str:
    """Return names joined, by commas unless told, as `shorten` leaves them."""
    joined = ""
    for name in names:
        joined = f"{joined}{separator}{name}" if joined else name
        if len(joined) > length_max:
            break
    return shorten(joined, length_max)
