"""The metrics pipeline, worked out by hand: what its tables must hold, from the records alone.

Which records came in one batch is taken from the tables; all else is computed here, by other means
than the pipeline's: numpy for percentiles and medians, and plain loops.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spark.activity_model import EARLIEST, rows_of

Series = tuple[str, str, str, str | None, str]
FIGURES = ("count", "min", "max", "avg", "rate", "p50", "p95", "p99")


class Rules(NamedTuple):
    window_s: int
    delay_s: int
    history: int
    history_min: int
    deviations: int
    change: float
    floors: dict[str, float]


def parse(value: bytes | None) -> dict[str, Any] | None:
    """Read a sample; None if it is none."""
    try:
        sample = json.loads((value or b"").decode(), parse_constant=lambda _: "x")
        names = [sample[name] for name in ("host", "service", "metric")]
        kind = sample.get("kind") or ("count" if sample.get("unit") == "count" else "gauge")
        if kind == "histogram":
            buckets = {math.inf if bound is None else bound: n for bound, n in sample["buckets"]}
            fine = min(buckets.values()) >= 0 and max(buckets.values()) <= 2**53
        else:
            buckets, fine = {}, abs(float(sample["value"])) < 1e100
        fine &= all(names) and sample.get("interval_s", 1) > 0
        fine &= len(sample.get("unit") or "") <= 512
        fine &= kind in ("gauge", "count", "counter", "histogram")
        time = datetime.fromisoformat(sample["time"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if not fine or time < EARLIEST or time.year > 2050:
        return None
    return {**sample, "time": time, "kind": kind, "buckets": buckets}


class Expected:
    """Goes through batches as the pipeline is to."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.fates: dict[str, set[int]] = {"samples": set(), "late": set(), "dead_letters": set()}
        self.closed_until: datetime | None = None
        self.late_for: dict[int, datetime] = {}
        """Up to when windows were closed as each late record came."""
        self._newest: datetime | None = None
        self._series: dict[Series, dict[datetime, dict[str, Any]]] = defaultdict(dict)

    def batch(self, records: Iterable[tuple[int, bytes | None]]) -> None:
        known = self.closed_until
        for offset, value in records:
            sample = parse(value)
            if sample is None:
                self.fates["dead_letters"].add(offset)
            elif known is not None and sample["time"] < known:
                self.fates["late"].add(offset)
                self.late_for[offset] = known
            else:
                self.fates["samples"].add(offset)
                self._newest = max(self._newest or sample["time"], sample["time"])
                series = tuple(sample.get(name) for name in ("host", "service", "metric", "target"))
                self._series[*series, sample["kind"]].setdefault(sample["time"], sample)
        if self._newest is not None:
            until = self.start(self._newest - timedelta(seconds=self.rules.delay_s))
            if any(time < until for samples in self._series.values() for time in samples):
                self.closed_until = max(self.closed_until or until, until)

    def start(self, time: datetime) -> datetime:
        return datetime.fromtimestamp(
            int(time.timestamp()) // self.rules.window_s * self.rules.window_s, UTC
        )

    def windows(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return the figures of closed windows, and level, usual, spread: by series and start."""
        found = {}
        for series, samples in self._series.items():
            levels: list[float] = []
            previous: tuple[datetime, float] | None = None
            held = defaultdict(list)
            for time in sorted(samples):
                if self.closed_until is not None and time < self.closed_until:
                    held[self.start(time)].append(samples[time])
            seen: datetime | None = None
            for start, inside in held.items():
                if seen is not None and start - seen > self.rules.history * self._window:
                    levels = []
                seen = start
                if previous is not None and previous[0] < start - self._window:
                    previous = None
                figures = self._figures(series[-1], inside, previous)
                if series[-1] == "counter":
                    previous = (inside[-1]["time"], inside[-1]["value"])
                place = {"gauge": 3, "histogram": 6}.get(series[-1], 4)
                level = figures[place]
                unit = inside[-1].get("unit")
                if series[-1] in ("count", "counter"):
                    unit = {"count": "1/s", "bytes": "bytes/s"}[unit]
                compared = self._compared(level, levels, unit)
                found[*series, start] = (*figures, level, *compared)
                if level is not None:
                    levels.append(level)
        return found

    @property
    def _window(self) -> timedelta:
        return timedelta(seconds=self.rules.window_s)

    def _compared(self, level: Any, levels: list[float], unit: str) -> tuple[Any, ...]:
        past = np.array(levels[-self.rules.history :])
        if level is None or len(past) < self.rules.history_min:
            return (None, None, False)
        usual = float(np.median(past))
        spread = 1.4826 * float(np.median(np.abs(past - usual)))
        needed = max(
            self.rules.deviations * spread,
            self.rules.change * abs(usual),
            self.rules.floors.get(unit, 0),
        )
        return (usual, spread, bool(abs(level - usual) > needed))

    def _figures(self, kind: str, samples: list[dict[str, Any]], previous: Any) -> tuple[Any, ...]:
        intervals = [sample.get("interval_s") for sample in samples]
        seconds = self.rules.window_s if None in intervals else sum(intervals)
        if kind == "histogram":
            return _of_buckets(samples, seconds)
        values, rate = [float(one["value"]) for one in samples if kind != "counter"], None
        average = float(np.mean(values)) if values else None
        if kind == "count":
            rate = sum(values) / seconds
        if kind == "counter":
            increase, passed = 0.0, 0.0
            for sample in samples:
                time, value = sample["time"], float(sample["value"])
                if previous is not None:
                    more = value - previous[1] if value >= previous[1] else value
                    step = (time - previous[0]).total_seconds()
                    values.append(more / step)
                    increase, passed = increase + more, passed + step
                previous = (time, value)
            average = rate = increase / passed if passed else None
        if not values:
            return (len(samples), *[None] * 7)
        shares = [float(np.percentile(values, share)) for share in (50, 95, 99)]
        return (len(samples), min(values), max(values), average, rate, *shares)


def _of_buckets(samples: list[dict[str, Any]], seconds: float) -> tuple[Any, ...]:
    counts: dict[float, float] = defaultdict(float)
    for sample in samples:
        for bound, count in sample["buckets"].items():
            counts[bound] += count
    bounds = sorted(counts)
    reached = np.cumsum([counts[bound] for bound in bounds])
    total = reached[-1]
    shares = [
        float(np.interp(share * total, [0.0, *reached[:-1]], [0.0, *bounds[:-1]]))
        for share in (0.5, 0.95, 0.99)
    ]
    average = sum(sample["sum"] for sample in samples) / total
    return (total, None, None, average, total / seconds, *shares)


def check_tables(out: Path, records: list[bytes | None], rules: Rules) -> Expected:
    """Compare every table with what the records, by their offsets, say it must hold."""
    filed = {name: rows_of(out, name) for name in ("samples", "late", "dead_letters")}
    places = [(row["offset"], row["batch"]) for rows in filed.values() for row in rows]
    batch_of = dict(places)
    assert len(batch_of) == len(places), "a record was filed twice"
    assert sorted(batch_of) == list(range(len(records)))
    expected = Expected(rules)
    for number in range(max(batch_of.values()) + 1):
        expected.batch((at, one) for at, one in enumerate(records) if batch_of[at] == number)
    for name, rows in filed.items():
        assert {row["offset"] for row in rows} == expected.fates[name], name
    _check_rows(filed, records, expected)
    windows = expected.windows()
    _check(out, "windows", FIGURES, {key: values[:8] for key, values in windows.items()})
    strange = {key: values[8:11] for key, values in windows.items() if values[11]}
    _check(out, "anomalies", ("level", "usual", "spread"), strange)
    return expected


def _check_rows(
    filed: dict[str, list[dict[str, Any]]], records: list[bytes | None], expected: Expected
) -> None:
    """Compare every row of a record with the record."""
    for row in filed["dead_letters"]:
        assert row["value"] == records[row["offset"]]
        assert row["reason"]
    same = ("time", "host", "service", "metric", "target", "kind", "unit", "interval_s", "sum")
    for name in ("samples", "late"):
        for row in filed[name]:
            sample = parse(records[row["offset"]]) or {}
            assert [row[one] for one in same] == [sample.get(one) for one in same], name
            assert row["reading"] == sample.get("value"), name
            buckets = {
                math.inf if one["bound"] is None else one["bound"]: one["count"]
                for one in row["buckets"] or ()
            }
            assert buckets == sample["buckets"], name
            assert row.get("closed_until") == expected.late_for.get(row["offset"]), name


def _check(out: Path, table: str, columns: tuple[str, ...], expected: dict[Any, Any]) -> None:
    rows = rows_of(out, table)
    names = ("host", "service", "metric", "target", "kind", "window_start")
    found = {
        tuple(row[name] for name in names): tuple(row[column] for column in columns) for row in rows
    }
    assert len(found) == len(rows), f"{table} has rows twice"
    assert set(found) == set(expected), table
    for key, values in found.items():
        for column, one, other in zip(columns, values, expected[key], strict=True):
            same = one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
            assert same, (table, key, column, one, other)
