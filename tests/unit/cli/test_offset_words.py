"""How people name a place in a partition."""

from __future__ import annotations

from datetime import datetime

import pytest

from moldau.base.errors import UserError
from moldau.cli.frame.offset_words import (
    parse_duration_ms,
    parse_position,
    parse_time_ms,
)
from moldau.cli.operations.positions import Position, PositionKind

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("earliest", Position(PositionKind.EARLIEST)),
        ("START", Position(PositionKind.EARLIEST)),
        ("latest", Position(PositionKind.LATEST)),
        ("end", Position(PositionKind.LATEST)),
        ("current", Position(PositionKind.CURRENT)),
        ("42", Position(PositionKind.OFFSET, 42)),
        ("+5", Position(PositionKind.SHIFT, 5)),
        ("-5", Position(PositionKind.SHIFT, -5)),
        ("@1767225600000", Position(PositionKind.TIME, 1_767_225_600_000)),
        ("@1767225600", Position(PositionKind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T00:00Z", Position(PositionKind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T01:00+01:00", Position(PositionKind.TIME, 1_767_225_600_000)),
        ("90m", Position(PositionKind.TIME, NOW_MS - 5_400_000)),
        ("PT1H30M", Position(PositionKind.TIME, NOW_MS - 5_400_000)),
        ("100000d", Position(PositionKind.TIME, 0)),
    ],
)
def test_a_word_is_read(text, word):
    assert parse_position(text, NOW_MS) == word


LONG = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "1.5", "+", "@", "@soon", "@2026-13-01", "5x", "P", "٣"),
        *(LONG, f"-{LONG}", f"@{LONG}"),
    ],
)
def test_what_is_no_word_is_refused_with_what_there_is(text):
    with pytest.raises(UserError, match="expected"):
        parse_position(text, NOW_MS)


def test_a_time_without_a_zone_is_local():
    local = datetime(2026, 1, 31, 12).astimezone()
    assert parse_time_ms("2026-01-31T12:00") == int(local.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1w", 604_800_000), ("1d12h", 129_600_000), ("5s", 5_000), ("P1DT1S", 86_401_000),
     ("500ms", 500), ("1s5ms", 1005), ("h", None), ("", None), ("1h1d", None)],
)  # fmt: skip
def test_a_duration_is_read_in_both_spellings(text, ms):
    assert parse_duration_ms(text) == ms
