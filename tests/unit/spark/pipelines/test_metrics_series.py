"""Series, window by window: figures, rates, percentiles, and what stands out."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.spark.pipelines.metrics.deviation import Sense, deviation
from moldau.spark.pipelines.metrics.folding import Rules, folded
from moldau.spark.pipelines.metrics.series import (
    COUNT,
    COUNTER,
    GAUGE,
    HISTOGRAM,
    KINDS,
    Past,
    Sample,
    is_remembered,
    windows_of,
)
from moldau.spark.pipelines.metrics.statistics import (
    Bucket,
    histogram_percentile,
    merged,
    percentile,
)

WINDOW_MS = 60_000
SENSE = Sense(history=5, history_min=3)
NUMBERS = st.floats(-1e100, 1e100)
LEVELS = st.floats(0, 1000)
TIMES_US = st.integers(0, 40 * WINDOW_MS).map(lambda ms: 1000 * ms) | st.integers(
    0, 40_000 * WINDOW_MS
)
EXTREMES = st.sampled_from([-1e100, -5e-324, 0.0, 5e-324, 1.0, 1e100]) | NUMBERS
COUNTS = st.sampled_from([0.0, 5e-324, 1.0, 2.0**53])
BUCKETS = st.lists(
    st.fixed_dictionaries({"bound": st.none() | EXTREMES, "count": COUNTS}), min_size=1, max_size=3
)
LEGAL = st.fixed_dictionaries(
    {
        "time": st.integers(0, 8).map(lambda n: datetime(2026, 1, 1, 0, n, tzinfo=UTC)),
        "reading": EXTREMES,
        "interval_s": st.sampled_from([None, 5e-324, 1e100]),
        "unit": st.sampled_from([None, "count"]),
        "buckets": BUCKETS,
        "sum": st.none() | EXTREMES,
    }
)
"""Samples with numbers as large and as small as they are let in."""


def sample(time_ms, *told, **named):
    return Sample(1000 * time_ms, *told, **named)


def windows(kind, samples, past=None):
    return windows_of(kind, samples, past, WINDOW_MS, SENSE)


def figures(kind, samples, past=None):
    found, _ = windows(kind, samples, past)
    return found[0].figures


@given(st.lists(NUMBERS, min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_are_those_of_numpy(values, share):
    found = percentile(sorted(values), share)
    expected = float(np.percentile(np.array(values), share * 100))
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=max(map(abs, values)) * 1e-9)


@given(
    st.lists(st.lists(st.floats(0, 100), min_size=1), min_size=1, max_size=4),
    st.sampled_from([0.5, 0.95, 0.99]),
)
def test_a_percentile_of_merged_histograms_lies_in_the_bucket_of_the_exact_one(parts, share):
    bounds = [1.0, 5.0, 20.0, 50.0]
    histograms = []
    for values in parts:
        counts = Counter(next((b for b in bounds if value <= b), None) for value in values)
        histograms.append([Bucket(bound, counts[bound]) for bound in [*bounds, None]])
    ordered = sorted(value for values in parts for value in values)
    exact = ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]

    found = histogram_percentile(merged(histograms), share)

    upper = next((b for b in bounds if exact <= b), None)
    if upper is None:
        assert found == bounds[-1]
    else:
        assert _below(bounds, upper) <= found <= upper


def _below(bounds, bound):
    place = bounds.index(bound)
    return bounds[place - 1] if place else -math.inf


def test_a_histogram_has_averages_rates_and_percentiles_of_what_it_counted():
    one = sample(0, interval_s=10.0, buckets=[Bucket(1.0, 8), Bucket(2.0, 2)], total=9.0)
    two = sample(10_000, interval_s=10.0, buckets=[Bucket(2.0, 8), Bucket(None, 2)], total=41.0)
    found = figures(HISTOGRAM, [one, two])
    assert (found.number, found.average, found.rate) == (20, 2.5, 1.0)
    assert found.p50 == pytest.approx(1.2)
    assert (found.p95, found.minimum, found.maximum) == (2.0, None, None)
    assert figures(HISTOGRAM, [one, two._replace(total=None)]).average is None
    assert figures(HISTOGRAM, [sample(0, buckets=[Bucket(1.0, 0)])]).p50 is None


def test_a_gauge_has_no_rate_and_a_count_has_one_of_the_time_it_is_about():
    samples = [sample(0, 4.0, 10.0), sample(10_000, 2.0, 10.0)]
    assert figures(GAUGE, samples)[:5] == (2, 2.0, 4.0, 3.0, None)
    assert figures(COUNT, samples).rate == pytest.approx(6 / 20)
    unknown = [samples[0], samples[1]._replace(interval_s=None)]
    assert figures(COUNT, unknown).rate == pytest.approx(6 / 60)


@given(st.lists(st.lists(st.integers(0, 1000), max_size=6), min_size=1, max_size=6))
def test_the_rates_of_a_counter_add_up_to_what_was_counted_through_resets(lives):
    """Each life of a process begins at zero; its steps are what it counts until the next sample."""
    values, counted = [0.0], 0
    for life in lives:
        total = 0
        for step in life:
            total += step
            values.append(float(total))
        if life:
            # A life whose first sample is not below the last one before looks like one life.
            first = life[0]
            before = values[-len(life) - 1]
            counted += sum(life) if first < before else total - before
    samples = [sample(1000 * place, value) for place, value in enumerate(values)]
    found = figures(COUNTER, samples)
    if len(values) == 1:
        assert (found.number, found.rate, found.p50) == (1, None, None)
    else:
        assert found.rate == pytest.approx(counted / (len(values) - 1))
        assert found.minimum <= found.average <= found.maximum + 1e-9


def test_a_counter_goes_on_from_the_window_before_but_not_from_an_older_one():
    first, past = windows(COUNTER, [sample(50_000, 100.0)])
    assert first[0].figures.rate is None
    next_window = [sample(70_000, 300.0)]
    assert windows(COUNTER, next_window, past)[0][0].figures.rate == pytest.approx(10)
    assert windows(COUNTER, [sample(130_000, 300.0)], past)[0][0].figures.rate is None


def test_a_sample_that_was_sent_twice_counts_once():
    samples = [sample(0, 1.0), sample(0, 9.0), sample(1000, 3.0)]
    assert figures(GAUGE, samples)[:4] == (2, 1.0, 3.0, 2.0)


def test_samples_a_microsecond_apart_are_two():
    assert figures(GAUGE, [Sample(0, 1.0), Sample(1, 9.0)])[:4] == (2, 1.0, 9.0, 5.0)
    assert figures(COUNTER, [Sample(0, 1.0), Sample(1, 9.0)]).rate == pytest.approx(8e6)


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(TIMES_US, LEVELS), max_size=60),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_windows_do_not_depend_on_how_many_are_closed_at_once(kind, points, cuts):
    samples = [
        Sample(time_us, value, 10.0, "seconds", [Bucket(value, 3), Bucket(None, 1)])
        for time_us, value in sorted(points)
    ]
    whole, past = windows(kind, samples)
    found, carried = [], None
    edges = [0, *sorted(1000 * cut * WINDOW_MS for cut in cuts), math.inf]
    for since, until in pairwise(edges):
        part = [one for one in samples if since <= one.time_us < until]
        more, carried = windows(kind, part, carried)
        found += more
    assert found == whole
    assert carried == past
    assert past is None or len(past.levels) <= SENSE.history


@given(st.lists(LEVELS, min_size=3, max_size=5), LEVELS, st.sampled_from(["ratio", None]))
def test_a_change_stands_out_only_if_it_is_large_and_unusual(history, level, unit):
    found = deviation(level, history, unit, SENSE)
    usual = float(np.median(history))
    spread = 1.4826 * float(np.median(np.abs(np.array(history) - usual)))
    assert (found.usual, found.spread) == (pytest.approx(usual), pytest.approx(spread))
    if found.is_anomaly:
        assert abs(level - usual) > 0.2 * abs(usual)
        assert abs(level - usual) >= 6 * spread * 0.999
        assert unit is None or abs(level - usual) > 0.05
        assert found.score(level) is None or abs(found.score(level)) > 5.99


def test_a_flat_series_does_not_alarm_until_something_happens():
    flat = [0.01, 0.0100001, 0.01, 0.01]
    assert not deviation(0.0101, flat, "ratio", SENSE).is_anomaly
    assert not deviation(0.05, flat, "ratio", SENSE).is_anomaly
    assert deviation(0.9, flat, "ratio", SENSE).is_anomaly
    assert deviation(0.9, flat[:2], "ratio", SENSE) is None
    assert deviation(1.0, [1.0] * 4, None, SENSE).score(1.0) is None


def test_rates_are_compared_by_the_unit_of_a_rate():
    """Half a kilobyte a second more is nothing, though a megabyte of memory less would be."""
    steady = [sample(WINDOW_MS * n + at, 1000.0 * n + at / 60, 60.0, "bytes")
              for n in range(4) for at in (0, 30_000)]  # fmt: skip
    quiet, _ = windows(COUNTER, [*steady, sample(WINDOW_MS * 4, 34_000.0, 60.0, "bytes")])
    loud, _ = windows(COUNTER, [*steady, sample(WINDOW_MS * 4, 3.4e7, 60.0, "bytes")])
    assert not quiet[-1].deviation.is_anomaly
    assert loud[-1].deviation.is_anomaly


def test_series_that_have_ended_are_forgotten():
    past = Past(start_ms=0)
    assert is_remembered(past, 5 * WINDOW_MS, WINDOW_MS, SENSE)
    assert not is_remembered(past, 6 * WINDOW_MS, WINDOW_MS, SENSE)


def test_a_series_is_forgotten_however_many_windows_are_closed_at_once():
    """A pipeline that catches up finds the silence and what follows it in one closing."""
    usual = [sample(WINDOW_MS * n, 1.0) for n in range(SENSE.history)]
    last = usual[-1].time_us // 1000
    known = sample(last + WINDOW_MS * SENSE.history, 9.0)
    forgotten = sample(last + WINDOW_MS * (SENSE.history + 1), 9.0)
    assert windows(GAUGE, [*usual, known])[0][-1].deviation.is_anomaly
    assert windows(GAUGE, [*usual, forgotten])[0][-1].deviation is None
    _, past = windows(GAUGE, usual)
    assert is_remembered(past, known.time_us // 1000, WINDOW_MS, SENSE)
    assert not is_remembered(past, forgotten.time_us // 1000, WINDOW_MS, SENSE)


def folded_rows(kind, samples):
    rules = Rules(WINDOW_MS, 1_767_225_600_000, SENSE)
    (rows,) = folded(pa.array([kind]), pa.array([samples]), pa.array([None]), rules).to_pylist()
    return rows


@given(st.sampled_from(KINDS), st.lists(LEGAL, min_size=1, max_size=9))
def test_no_sample_that_is_let_in_makes_a_window_that_is_no_number(kind, samples):
    for row in folded_rows(kind, sorted(samples, key=lambda one: one["time"])):
        numbers = [one for one in row.values() if isinstance(one, float)]
        assert all(map(math.isfinite, [*numbers, *(row["levels"] or ())])), row


def test_a_histogram_of_more_values_than_a_column_holds_has_as_many_as_it_holds():
    buckets = [{"bound": 1.0, "count": 2.0**53}] * 1000
    first, second = (
        {"time": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), "reading": None,
         "interval_s": None, "unit": None, "buckets": buckets, "sum": None}
        for second in (1, 2)
    )  # fmt: skip
    assert folded_rows(HISTOGRAM, [first, second])[0]["count"] == 2**63 - 1
