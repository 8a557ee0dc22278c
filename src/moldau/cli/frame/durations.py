"""Durations as options have them: `10s`, `5m`, in the unit that who asked for them reckons with."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from moldau.cli.frame.offset_words import parse_duration_ms

DAYS_MAX: Final = 3650
"""Of a duration: longer than records are kept, and Spark can still reckon with it."""


_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def duration_text(duration_ms: int) -> str:
    """Write a duration as options have it: `1d12h`, `90s` as `1m30s`, `500ms`."""
    parts = []
    for unit, size_ms in _UNITS_MS.items():
        count, duration_ms = divmod(duration_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


class Seconds(click.ParamType[float]):
    """`10s`, `5m`, or seconds as a number."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        if (duration_ms := parse_duration_ms(value)) is not None:
            return duration_ms / 1000
        if not re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
            self.fail(f"{value!r} is no duration: expected 10s, 5m or seconds", param, ctx)
        return float(value)


class Milliseconds(click.ParamType[int]):
    """`10s`, `5m`; milliseconds where a program reads it."""

    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        """`zero` is whether it may be none at all."""
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        duration_ms = 0 if re.fullmatch(r"0+", value, re.ASCII) else parse_duration_ms(value)
        if duration_ms is None:
            raise click.BadParameter(f"{value!r} is no duration: expected 10s or 5m", ctx, param)
        if not (0 if self._zero else 1000) <= duration_ms <= DAYS_MAX * 86_400_000:
            least = "0" if self._zero else "1s"
            text = f"{value!r} is out of range: expected {least} to {DAYS_MAX}d"
            raise click.BadParameter(text, ctx, param)
        return duration_ms
