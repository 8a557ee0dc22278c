"""Conditions of a query that narrow what is read, never by more than they say."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from moldau.client.records import TopicPartition
from moldau.spark.source.filters import Narrowing
from moldau.spark.source.ranges import OffsetRange

T0 = TopicPartition("t", 0)

numbers = st.integers(-5, 30)
maybe_null = st.none() | numbers
conditions = st.one_of(
    *(
        st.builds(kind, st.just(("offset",)), numbers)
        for kind in (GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    ),
    st.builds(EqualTo, st.just(("offset",)), maybe_null),
    st.builds(In, st.just(("offset",)), st.lists(maybe_null, min_size=1, max_size=4).map(tuple)),
)


def holds(condition, value):
    match condition:
        case EqualTo(_, other):
            return value == other
        case In(_, others):
            return value in others
        case GreaterThan(_, other):
            return value > other
        case GreaterThanOrEqual(_, other):
            return value >= other
        case LessThan(_, other):
            return value < other
        case LessThanOrEqual(_, other):
            return value <= other


@given(st.lists(conditions, max_size=4), st.integers(0, 20), st.integers(0, 20))
def test_no_offset_that_all_conditions_admit_is_left_out(given_conditions, start, size):
    whole = OffsetRange(T0, start, start + size)

    part = Narrowing.of(given_conditions).of_range(whole)

    wanted = [
        offset
        for offset in range(whole.start, whole.end)
        if all(holds(each, offset) for each in given_conditions)
    ]
    assert whole.start <= part.start <= part.end <= whole.end
    assert set(wanted) <= set(range(part.start, part.end))
    if not wanted and not any(isinstance(each, In) for each in given_conditions):
        assert part.size == 0


def test_partitions_and_topics_are_chosen():
    narrowing = Narrowing.of(
        [In(("partition",), (None, 1, 3, 5)), LessThan(("partition",), 5), EqualTo(("topic",), "t")]
    )

    admitted = [
        (topic, partition)
        for topic in ("t", "u")
        for partition in range(7)
        if narrowing.admits(TopicPartition(topic, partition))
    ]
    assert admitted == [("t", 1), ("t", 3)]


def test_the_latest_lower_limit_in_time_counts():
    def at(second):
        return datetime(2024, 1, 1, 0, 0, second, 500_000, tzinfo=UTC)

    narrowing = Narrowing.of(
        [
            GreaterThanOrEqual(("timestamp",), at(5)),
            GreaterThan(("timestamp",), at(3)),
            LessThan(("timestamp",), at(9)),
        ]
    )

    assert narrowing.since_ms == int(at(5).timestamp() * 1000)


def test_other_conditions_change_nothing():
    narrowing = Narrowing.of(
        [
            IsNotNull(("offset",)),
            Not(EqualTo(("offset",), 5)),
            StringStartsWith(("topic",), "t"),
            EqualTo(("value", "offset"), 5),
            LessThan(("timestamp",), datetime(2024, 1, 1, tzinfo=UTC)),
            GreaterThanOrEqual(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC)),
            EqualTo(("timestamp",), datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        ]
    )

    assert narrowing == Narrowing()
