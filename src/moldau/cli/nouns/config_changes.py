"""Changes of configs as people write them: `key=value`, `key+=value`, `key-=value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moldau.base.errors import UserError
from moldau.cli.frame import client

_CHANGE = re.compile(r"([^=+\-\s][^=+\s]*?)\s*(\+=|-=|=)(.*)", re.DOTALL)


def assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Read `key=value` texts."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text}: expected KEY=VALUE")
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
            raise UserError(f"{text!r} is no change: expected KEY=VALUE, KEY+=VALUE or KEY-=VALUE")
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
