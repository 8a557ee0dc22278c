"""How people name a place in a partition.

    earliest, latest     its ends
    current              where the group is
    42                   an offset
    +5, -5               so many records after, or before, where the group is
    @2026-01-31T12:00    the first record at or after a time; local unless it names its zone
    @1767225600000       the same in milliseconds, or seconds, since 1970
    90m, 1d12h, PT2H     a time so long ago

Pure: what the words mean for a partition is looked up elsewhere.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from moldau.base.errors import UserError
from moldau.cli.operations.positions import Position, PositionKind

DURATION = re.compile(
    r"(?:P(?=.))?(?:({0})W)?(?:({0})D)?T?(?:({0})H)?(?:({0})M)?(?:({0})S)?(?:({0})MS)?".format(
        r"\d{1,15}"
    ),
    re.IGNORECASE,
)
"""Python reads no number of thousands of digits, and nobody means one."""
NUMBER = r"\d{1,30}"
"""As with durations; what no offset can be is for a broker to say."""
UNIT_MS = (604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

FIRST_IN_MS = 100_000_000_000
"""A bare number below is seconds (until the year 5138), above it is milliseconds (since 1973)."""


WORDS = {
    "earliest": PositionKind.EARLIEST,
    "start": PositionKind.EARLIEST,
    "latest": PositionKind.LATEST,
    "end": PositionKind.LATEST,
    "current": PositionKind.CURRENT,
}


def parse_position(text: str, now_ms: int, *, known: str = "earliest, latest, current") -> Position:
    """Read a word; UserError says what there is, by the names that the user is told of."""
    word = text.strip()
    if (kind := WORDS.get(word.lower())) is not None:
        return Position(kind)
    if re.fullmatch(rf"[+-]{NUMBER}", word, re.ASCII):
        return Position(PositionKind.SHIFT, int(word))
    if re.fullmatch(NUMBER, word, re.ASCII):
        return Position(PositionKind.OFFSET, int(word))
    if word.startswith("@"):
        return Position(PositionKind.TIME, parse_time_ms(word[1:]))
    if (ago_ms := parse_duration_ms(word)) is not None:
        return Position(PositionKind.TIME, max(0, now_ms - ago_ms))
    raise UserError(
        f"{text!r} is not a position: expected {known}, an offset, +N, -N, @TIME or an age"
        " (90m, 1d12h)"
    )


def parse_time_ms(text: str) -> int:
    """Read a time: ISO 8601, or a number since 1970."""
    return parse_time_us(text) // 1000


def parse_time_us(text: str) -> int:
    """Read a time as `parse_time_ms` does, in microseconds."""
    if re.fullmatch(NUMBER, text, re.ASCII):
        number = int(text)
        return number * 1000 if number >= FIRST_IN_MS else number * 1_000_000
    try:
        return (datetime.fromisoformat(text).astimezone() - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError, OSError) as error:
        raise UserError(
            f"{text!r} is not a time: expected 2026-01-31T12:00, with a zone if it is not local, or"
            " milliseconds since 1970"
        ) from error


def parse_duration_ms(text: str) -> int | None:
    """Read `90m`, `1d12h`, `500ms`, or Java's `PT1H30M`; None if it is none."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum(int(one or 0) * unit for one, unit in zip(found.groups(), UNIT_MS, strict=True))
