"""Pairs of names and values, as many programs in Go write them. Pure."""

from __future__ import annotations

import re
import sys
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Numbers, Sent, put
from moldau.spark.pipelines.logs.forms.named import named_line, sound

_PAIR: Final = re.compile(
    r'([A-Za-z_@][\w.@/:-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)', re.ASCII | re.DOTALL
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U(00[\da-fA-F]{6})|(.))", re.ASCII | re.DOTALL
)
_ESCAPED: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    '"': '"', "\\": "\\", "'": "'", "/": "/",
}  # fmt: skip
"""As Go and JSON write them; before anything else a backslash is one."""


def logfmt_line(text: str, sent: Sent) -> Line | None:
    """Read `level=info msg="what happened" user=7`: pairs, at least two, and nothing else."""
    fields: dict[str, str] = {}
    numbers: Numbers = {}
    place, count = 0, 0
    while (found := _PAIR.match(text, place)) is not None:
        name, value = found.groups()
        put(fields, name, _unquoted(value), numbers)
        place, count = found.end(), count + 1
    if count < 2 or place < len(text):
        return None
    return named_line("logfmt", text, fields, sent)


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    if "\\" not in value:
        return value[1:-1]
    return sound(_ESCAPE.sub(_meant, value[1:-1]))


def _meant(found: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    byte, short, long, other = found.groups()
    if other is not None:
        return _ESCAPED.get(other, found[0])
    number = int(byte or short or long, 16)
    # A byte above ASCII is one of no character: such are written so because they are no UTF-8.
    return found[0] if number > sys.maxunicode or (byte and number > 127) else chr(number)
