"""Series and windows between Arrow and plain Python: what Spark's workers run.

An Arrow array of series comes in, each with its samples and what it remembers; what comes out has a
row per window, and one for what is to be remembered now. It knows Arrow, and neither Spark nor
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from moldau.spark.pipelines.metrics.deviation import Sense
from moldau.spark.pipelines.metrics.series import (
    Past,
    Sample,
    Window,
    is_remembered,
    windows_of,
)
from moldau.spark.pipelines.metrics.statistics import Bucket

WINDOW: Final = "window"
ANOMALY: Final = "anomaly"
PAST: Final = "past"

FIGURES: Final = ("count", "min", "max", "avg", "rate", "p50", "p95", "p99")
COMPARED: Final = ("level", "usual", "spread", "score")

PAST_COLUMNS: Final = (
    "past_start TIMESTAMP, levels ARRAY<DOUBLE>, past_time TIMESTAMP, past_value DOUBLE"
)
ROW_COLUMNS: Final = (
    "role STRING, window_start TIMESTAMP, window_end TIMESTAMP, unit STRING, count BIGINT,"
    " min DOUBLE, max DOUBLE, avg DOUBLE, rate DOUBLE, p50 DOUBLE, p95 DOUBLE, p99 DOUBLE,"
    f" level DOUBLE, usual DOUBLE, spread DOUBLE, score DOUBLE, {PAST_COLUMNS}"
)
"""`role` says what a row is: a window, an anomaly (its window once more), or the past."""

_TIME: Final = pa.timestamp("us", "UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "STRING": pa.string(),
    "TIMESTAMP": _TIME,
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "ARRAY<DOUBLE>": pa.list_(pa.float64()),
}
ROW: Final = pa.struct([
    (name, _TYPES[kind]) for name, kind in (one.split() for one in ROW_COLUMNS.split(", "))
])  # fmt: skip

Row = dict[str, Any]


class Rules(NamedTuple):
    """How windows are made; travels to executors."""

    window_ms: int
    until_ms: int
    """Where the closed windows end."""
    sense: Sense


def folded(kinds: pa.Array, samples: pa.Array, pasts: pa.Array, rules: Rules) -> pa.Array:
    """Return the rows of each series."""
    columns = (kinds.to_pylist(), samples.to_pylist(), pasts.to_pylist())
    rows = [list(_rows(*one, rules)) for one in zip(*columns, strict=True)]
    return pa.array(rows, pa.list_(ROW))


def _rows(kind: str, samples: list[Row], past: Row | None, rules: Rules) -> Iterator[Row]:
    windows, kept = windows_of(
        kind, list(map(_sample, samples)), _past(past), rules.window_ms, rules.sense
    )
    for window in windows:
        row = _window_row(window, rules.window_ms)
        yield row
        if window.deviation is not None and window.deviation.is_anomaly:
            yield {**row, "role": ANOMALY}
    if kept is not None and is_remembered(kept, rules.until_ms, rules.window_ms, rules.sense):
        yield {
            "role": PAST,
            "past_start": _time(1000 * kept.start_ms),
            "levels": list(kept.levels),
            "past_time": None if kept.time_us is None else _time(kept.time_us),
            "past_value": kept.value,
        }


def _sample(row: Row) -> Sample:
    buckets = [Bucket(one["bound"], one["count"]) for one in row["buckets"] or ()]
    value = 0.0 if row["reading"] is None else row["reading"]
    return Sample(_us(row["time"]), value, row["interval_s"], row["unit"], buckets, row["sum"])


def _past(row: Row | None) -> Past | None:
    if row is None:
        return None
    time_us = None if row["past_time"] is None else _us(row["past_time"])
    start_ms = _us(row["past_start"]) // 1000
    return Past(start_ms, tuple(row["levels"]), time_us, row["past_value"])


def _window_row(window: Window, window_ms: int) -> Row:
    compared, level = window.deviation, window.level
    row: Row = {
        "role": WINDOW,
        "window_start": _time(1000 * window.start_ms),
        "window_end": _time(1000 * (window.start_ms + window_ms)),
        "unit": window.unit,
        "level": level,
        **dict(zip(FIGURES, window.figures, strict=True)),
    }
    if compared is not None and level is not None:
        row |= {"usual": compared.usual, "spread": compared.spread, "score": compared.score(level)}
    return row


def _us(time: datetime) -> int:
    return (time - _EPOCH) // _US


def _time(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)
