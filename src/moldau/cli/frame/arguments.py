"""Words of a command line: texts, `KEY=VALUE` pairs, and changes of configs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from moldau.base.errors import UserError
from moldau.cli.frame import client

_CHANGE = re.compile(r"([^=+\-\s][^=+\s]*?)\s*(\+=|-=|=)(.*)", re.DOTALL)


def check_texts(given: Iterable[Any]) -> None:
    """Refuse values of options, repeated or not, that are not UTF-8: a shell passes any bytes."""
    for value in given:
        texts = value if isinstance(value, tuple) else (value,)
        for text in (one for one in texts if isinstance(one, str)):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UserError(f"{text!r} is not text: expected UTF-8") from None


def parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Read `KEY=VALUE` texts."""
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text}: expected KEY=VALUE")
        found.append((key, value))
    return found


def assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Read `KEY=VALUE` texts that name each key once."""
    found: dict[str, str] = {}
    for key, value in parse_pairs(texts, option):
        _once(key.strip(), found)
        found[key.strip()] = value
    return found


def parse_changes(
    texts: Iterable[str], deleted: Iterable[str] = ()
) -> dict[str, client.ConfigChange]:
    """Read changes; a deleted config goes back to its default."""
    found: dict[str, client.ConfigChange] = {}
    for text in texts:
        parts = _CHANGE.fullmatch(text)
        if parts is None:
            raise UserError(
                f"{text!r} is not a change: expected KEY=VALUE, KEY+=VALUE or KEY-=VALUE"
            )
        key, sign, value = parts.groups()
        _once(key, found)
        found[key] = {"=": str, "+=": client.Append, "-=": client.Subtract}[sign](value)
    for key in deleted:
        _once(key, found)
        found[key] = None
    return found


def config_texts(changes: Mapping[str, client.ConfigChange]) -> str:
    """Write changes as they were meant."""
    return ", ".join(_text(key, change) for key, change in changes.items())


def _text(key: str, change: client.ConfigChange) -> str:
    match change:
        case None:
            return f"the default {key}"
        case client.Append(value):
            return f"{key}+={value}"
        case client.Subtract(value):
            return f"{key}-={value}"
        case value:
            return f"{key}={value}"


def _once(key: str, found: Mapping[str, object]) -> None:
    if key in found:
        raise UserError(f"{key} is given twice")
