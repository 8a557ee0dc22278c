"""Parses the content of nodes as JSON, strictly. A large object is parsed in steps. Pure.

Python's parser takes a text as a whole, and 30 ms for a megabyte. So the two outer levels of a
large object are taken apart here, and Python's parser gets their elements one at a time. Where an
element ends is not known before it is parsed. So the parser sees a window of the text, which bounds
what it can do in one step; an element that does not fit is refused.

A worker process was the alternative. Its result would have to be taken apart in steps as well.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError
from typing import Any, Final

from moldau.cluster.zookeeper.nodes.steps import Pace, Steps, amount_of_text

DEPTH_MAX: Final = 8
"""Levels of nesting in a node; Kafka has four at most."""

ELEMENT_MAX: Final = 64 * 1024
"""Characters of one element. A text without escapes may be longer, because it costs little."""

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_SAME_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_COLON: Final = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+")
_COMMA_OR_END: Final = re.compile(r"[ \t\n\r]*+([,}\]])[ \t\n\r]*+")
_LEVELS_OUTSIDE: Final = 2
_LEVELS_INSIDE: Final = DEPTH_MAX - _LEVELS_OUTSIDE
_ENDS: Final = {"{": "}", "[": "]"}


def is_nested_deeper(data: bytes, depth: int) -> bool:
    """Tell whether brackets outside of strings are nested deeper than this, or do not match.

    The parser recurses, and how deep it may is different in each Python. Each replacement removes
    the innermost level.
    """
    brackets = _STRING.sub(b"", data).translate(_SAME_BRACKETS, _NO_BRACKETS)
    for _ in range(depth):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        # Parsers differ in which of the two they take.
        raise ValueError("a key is there twice")
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)


def parse(data: bytes) -> object:
    """Parse a small content whose nesting was checked; ValueError if it is no JSON."""
    return _DECODER.decode(data.decode())


def parse_in_steps(data: bytes) -> Steps[object]:
    """Parse a content of any size; ValueError or RecursionError if it is no JSON."""
    return (yield from _Parser(data.decode()).whole())


class _Parser:
    """Goes through one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        """How far the text is parsed."""
        self._pace = Pace()
        self._window = ""
        self._window_at = 0

    def whole(self) -> Steps[object]:
        self._skip(_SPACE)
        value: object
        if self._text.startswith("{", self._at):
            value = yield from self._container(_LEVELS_OUTSIDE)
        else:
            value = self._element()
        self._skip(_SPACE)
        if self._at != len(self._text):
            raise ValueError("something follows it")
        return value

    def _container(self, levels: int) -> Steps[dict[str, Any] | list[Any]]:
        """Parse an object or a list; if there are more levels, its elements in the same way."""
        opened = self._text[self._at]
        fields: dict[str, Any] = {}
        values: list[Any] = []
        self._at += 1
        self._skip(_SPACE)
        is_open = not self._text.startswith(_ENDS[opened], self._at)
        if not is_open:
            self._at += 1
        while is_open:
            begun = self._at
            key = self._key() if opened == "{" else None
            if levels > 1 and self._text.startswith(("{", "["), self._at):
                value = yield from self._container(levels - 1)
            else:
                value = self._element()
            if key is None:
                values.append(value)
            elif key in fields:
                raise ValueError("a key is there twice")
            else:
                fields[key] = value
            is_open = self._skip(_COMMA_OR_END, _ENDS[opened]) == ","
            if self._pace.is_due(amount_of_text(self._at - begun)):
                yield
        return fields if opened == "{" else values

    def _key(self) -> str:
        if not self._text.startswith('"', self._at):
            raise ValueError("a key is no text")
        key: str = self._element()
        self._skip(_COLON)
        return key

    def _skip(self, pattern: re.Pattern[str], end: str = "") -> str:
        """Go over spaces and punctuation; return the comma, or the end of the container."""
        found = pattern.match(self._text, self._at)
        mark: str = found[1] if found is not None and end else ""
        if found is None or (end and mark not in {",", end}):
            raise ValueError(f"there is no comma, colon or bracket at character {self._at}")
        self._at = found.end()
        return mark

    def _element(self) -> Any:
        """Parse one value: in the window, or in one that begins with it."""
        text = self._text
        if text.startswith('"', self._at):
            end = text.find('"', self._at + 1)
            if end - self._at > ELEMENT_MAX and "\\" not in text[self._at : end]:
                value, self._at = _DECODER.raw_decode(text, self._at)
                return value
        begins_window = False
        while True:
            start = self._at - self._window_at
            is_last = self._window_at + len(self._window) == len(text)
            try:
                value, end = _DECODER.raw_decode(self._window, start)
            except JSONDecodeError as error:
                if begins_window and is_last:
                    raise ValueError(f"{error.msg} at character {self._at}") from error
            else:
                if is_last or end < len(self._window):  # else a number may be cut
                    self._check_nesting(start, end)
                    self._at += end - start
                    return value
            if begins_window:
                raise ValueError(f"an element has more than {ELEMENT_MAX} characters")
            begins_window = True
            self._window_at = self._at
            self._window = text[self._at : self._at + ELEMENT_MAX]

    def _check_nesting(self, start: int, end: int) -> None:
        opened = self._window.count("[", start, end) + self._window.count("{", start, end)
        if opened > _LEVELS_INSIDE and is_nested_deeper(
            self._window[start:end].encode(), _LEVELS_INSIDE
        ):
            raise ValueError(f"it has more than {DEPTH_MAX} levels")
