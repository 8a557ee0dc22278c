"""Java's properties text, read and written: `server.properties`, `meta.properties`.

The rules are those of java.util.Properties: `#` and `!` begin comments, a key ends at the first
unescaped `=`, `:` or blank, a line that ends in an odd number of backslashes goes on in the next
one, and what follows a backslash (a letter, or `u` and four digits) stands for a character. This
module knows text, not files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE = re.compile(r"[\\=:#!\t\n\r\f]|[^ -~]")
_NAMES = {character: "\\" + letter for letter, character in _LETTERS.items()}


class Property(NamedTuple):
    """One entry of a properties text, and the line it begins in."""

    key: str
    value: str
    line: int


def parse_properties(text: str) -> dict[str, str]:
    """Read properties; of a key given twice the last value counts. ValueError names the line."""
    return {entry.key: entry.value for entry in parse_entries(text)}


def parse_entries(text: str) -> Iterator[Property]:
    """Read properties one by one, for those who must say where a value stands."""
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # the pattern also matches nothing
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        try:
            yield Property(_unescaped(key.group()), _unescaped(line[separator.end() :]), number)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def format_properties(properties: Mapping[str, str]) -> str:
    """Write properties in their given order, one per line, so that Java reads them back."""
    lines = (
        f"{_escaped(key, key=True)}={_escaped(value, key=False)}\n"
        for key, value in properties.items()
    )
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines and drop blank ones and comments; yields the first line's number."""
    begun, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun += line[:-1]
            # To Java a lone backslash has begun nothing: the next line may still be a comment.
            first = first if begun else 0
            continue
        yield first, begun + line
        begun, first = "", 0
    if first:
        yield first, begun


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_meaning, text)
    # Java escapes a character outside the basic plane as its two halves; here they meet again.
    try:
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise ValueError("an escaped surrogate lacks its other half") from error


def _meaning(escape: re.Match[str]) -> str:
    body = escape.group(1)
    if body == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    if body[0] == "u":
        return chr(int(body[1:], 16))
    return _LETTERS.get(body, body)


def _escaped(text: str, *, key: bool) -> str:
    escaped = _TO_ESCAPE.sub(_name, text)
    if key:
        return escaped.replace(" ", "\\ ")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _name(character: re.Match[str]) -> str:
    text = character.group()
    if text in "\\=:#!":
        return "\\" + text
    if text in _NAMES:
        return _NAMES[text]
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
