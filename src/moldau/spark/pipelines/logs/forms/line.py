"""What every form makes of a line, and what they share in making it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import tzinfo
from typing import Final, NamedTuple

from moldau.spark.pipelines.logs.levels import NONE


class Line(NamedTuple):
    """What a line says; None where it does not say it."""

    format: str
    message: str
    time_us: int | None = None
    level: str = NONE
    host: str | None = None
    service: str | None = None
    fields: Mapping[str, str] = {}
    stack: str | None = None


class Sent(NamedTuple):
    """What is known of a line besides its text."""

    time_us: int
    """When its record was sent, or written, as its timestamp says."""
    zone: tzinfo
    """In which zone times are that name none."""


Numbers = dict[str, int]
"""By the names that a line has more than once, the next number that may be free. It is kept while a
line is read, as one may repeat a name as often as it has room for it."""


def put(fields: dict[str, str], name: str, value: str, numbers: Numbers) -> None:
    """Add a field; a name that is taken gets a number behind it."""
    if name in fields:
        number = numbers.get(name, 2)
        while (free := f"{name}.{number}") in fields:
            number += 1
        numbers[name] = number + 1
        name = free
    fields[name] = value


_TRACE: Final = re.compile(
    r"^(?:Traceback \(most|[ \t]+at \S|Caused by: "
    r"|(?:[\w$]+\.)*\w*(?:Exception|Error|Throwable)\b)",
    re.MULTILINE,
)
"""What makes the lines after the first a stack trace: Python's, Java's, JavaScript's."""


def parted(text: str) -> tuple[str, str | None]:
    """Part a message from the stack trace below it."""
    message, newline, rest = text.partition("\n")
    return (message, rest) if newline and _TRACE.search(rest) else (text, None)


def plain_line(text: str) -> Line:
    """Take a line as it is."""
    message, stack = parted(text)
    return Line("plain", message, stack=stack)
