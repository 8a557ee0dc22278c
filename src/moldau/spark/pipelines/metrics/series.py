"""One series: its samples in order of time, window by window, and what it remembers in between.

    gauge      a level, such as used memory
    count      a number of events within `interval_s`, such as requests
    counter    a running total, which begins again at zero when its process does
    histogram  how many values fell between which bounds

A window of a counter is described by the rates between one sample and the next, the first of them
from the last sample of the window before. A total that has become smaller was reset: what it shows
now came since.

Pure, and it computes the same to the last bit from the same samples: a batch that is run again
finds the same windows standing out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from moldau.spark.pipelines.metrics.deviation import Deviation, Sense, deviation
from moldau.spark.pipelines.metrics.statistics import (
    Bucket,
    histogram_percentile,
    merged,
    percentile,
)

GAUGE: Final = "gauge"
COUNT: Final = "count"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"
KINDS: Final = (GAUGE, COUNT, COUNTER, HISTOGRAM)

_RATE_UNITS: Final[Mapping[str | None, str]] = {
    "count": "1/s", "bytes": "bytes/s", "seconds": "cores"
}  # fmt: skip
"""What a rate has for a unit, by that of what is counted."""


VALUES_MAX: Final = 2**63 - 1
"""As many as a column holds. Histograms that add up to more have this many."""


class Sample(NamedTuple):
    """What was measured at one moment."""

    time_us: int
    value: float = 0.0
    """Of a histogram nothing."""
    interval_s: float | None = None
    unit: str | None = None
    buckets: Sequence[Bucket] = ()
    """Of a histogram."""
    total: float | None = None
    """What all values of a histogram add up to, if that is known."""


class Figures(NamedTuple):
    """What a window holds."""

    number: int
    """Of samples; of a histogram that of values."""
    minimum: float | None = None
    maximum: float | None = None
    average: float | None = None
    rate: float | None = None
    """A second."""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Window(NamedTuple):
    """One window of a series."""

    start_ms: int
    unit: str | None
    figures: Figures
    level: float | None
    """The figure that windows are compared by."""
    deviation: Deviation | None


class Past(NamedTuple):
    """What a series remembers of the windows that are closed."""

    start_ms: int
    """The last window that held samples."""
    levels: tuple[float, ...] = ()
    """Of the last windows, the oldest first."""
    time_us: int | None = None
    value: float | None = None
    """The last sample of a counter."""


def windows_of(
    kind: str, samples: Sequence[Sample], past: Past | None, window_ms: int, sense: Sense
) -> tuple[list[Window], Past | None]:
    """Return the windows that samples, sorted by time, make up, and what is remembered then.

    A second sample of the same time is the first one sent again.
    """
    windows = []
    for start_ms, found in groupby(
        _distinct(samples), lambda one: one.time_us // (1000 * window_ms) * window_ms
    ):
        held = list(found)
        if past is not None and not is_remembered(past, start_ms, window_ms, sense):
            past = None  # as if the windows in between had been closed one by one
        levels = () if past is None else past.levels
        before = _before(past, start_ms - window_ms)
        figures = _finite(_figures(kind, held, before, window_ms / 1000))
        level = _level(kind, figures)
        unit = held[-1].unit
        compared = None
        if level is not None:
            compared = deviation(level, levels, _level_unit(kind, unit), sense)
        windows.append(Window(start_ms, unit, figures, level, compared))
        if level is not None:
            levels = (*levels, level)[-sense.history :]
        past = Past(start_ms, levels)
        if kind == COUNTER:
            past = past._replace(time_us=held[-1].time_us, value=held[-1].value)
    return windows, past


def is_remembered(past: Past, until_ms: int, window_ms: int, sense: Sense) -> bool:
    """Tell whether a series is still of interest after windows until then were closed.

    Processes and containers come and go, and each has its series.
    """
    return past.start_ms + sense.history * window_ms >= until_ms


def _distinct(samples: Iterable[Sample]) -> Iterator[Sample]:
    last_us: int | None = None
    for sample in samples:
        if sample.time_us != last_us:
            yield sample
        last_us = sample.time_us


def _before(past: Past | None, since_ms: int) -> tuple[int, float] | None:
    """Return the last sample of a counter, if it is of the window before.

    An older one would spread what happened over a time that nobody has measured.
    """
    if past is None or past.time_us is None or past.value is None:
        return None
    return None if past.time_us < 1000 * since_ms else (past.time_us, past.value)


def _level(kind: str, figures: Figures) -> float | None:
    if kind == GAUGE:
        return figures.average
    return figures.p95 if kind == HISTOGRAM else figures.rate


def _level_unit(kind: str, unit: str | None) -> str | None:
    return _RATE_UNITS.get(unit, unit) if kind in (COUNT, COUNTER) else unit


def _finite(figures: Figures) -> Figures:
    """Leave out what is beyond all numbers, such as a rate over hardly any time.

    As a level it would make what is usual no number either, for as long as it is remembered.
    """
    number, *others = figures
    return Figures(number, *(one if one is None or math.isfinite(one) else None for one in others))


def _figures(
    kind: str, samples: Sequence[Sample], before: tuple[int, float] | None, window_s: float
) -> Figures:
    if kind == COUNTER:
        return _of_counter(samples, before)
    if kind == HISTOGRAM:
        return _of_histograms(samples, window_s)
    values = [sample.value for sample in samples]
    rate = sum(values) / _measured_s(samples, window_s) if kind == COUNT else None
    return _of_values(len(values), values, sum(values) / len(values), rate)


def _of_values(
    count: int, values: Iterable[float], average: float | None, rate: float | None
) -> Figures:
    ordered = sorted(values)
    if not ordered:
        return Figures(count)
    percentiles = (percentile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Figures(count, ordered[0], ordered[-1], average, rate, *percentiles)


def _of_counter(samples: Sequence[Sample], before: tuple[int, float] | None) -> Figures:
    increases, times_s = [], []
    for sample in samples:
        if before is not None:
            time_us, value = before
            increases.append(sample.value if sample.value < value else sample.value - value)
            times_s.append((sample.time_us - time_us) / 1_000_000)
        before = (sample.time_us, sample.value)
    rates = [increase / time_s for increase, time_s in zip(increases, times_s, strict=True)]
    rate = sum(increases) / sum(times_s) if rates else None
    return _of_values(len(samples), rates, rate, rate)


def _of_histograms(samples: Sequence[Sample], window_s: float) -> Figures:
    buckets = merged(sample.buckets for sample in samples)
    count = sum(bucket.held for bucket in buckets)
    totals = [sample.total for sample in samples if sample.total is not None]
    average = sum(totals) / count if count and len(totals) == len(samples) else None
    percentiles = [histogram_percentile(buckets, share) for share in (0.5, 0.95, 0.99)]
    rate = count / _measured_s(samples, window_s)
    return Figures(min(round(count), VALUES_MAX), None, None, average, rate, *percentiles)


def _measured_s(samples: Sequence[Sample], window_s: float) -> float:
    """Return the time that samples are about; the whole window if one of them does not say."""
    intervals = [sample.interval_s for sample in samples]
    known = [one for one in intervals if one is not None]
    return sum(known) if len(known) == len(intervals) else window_s
