"""Percentiles of whole numbers that are counted in buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.base.histogram import Histogram


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([0, 50, 90, 99, 100]))
def test_percentiles_are_right_within_a_hundredth(values, percent):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    rank = max(1, -(-len(values) * percent // 100))
    exact = sorted(values)[rank - 1]
    assert exact <= histogram.percentile(percent) <= exact * (1 + 1 / 127)
    assert histogram.percentile(100) == histogram.maximum == max(values)


def test_of_nothing_every_percentile_is_zero():
    assert Histogram().percentile(99) == 0
