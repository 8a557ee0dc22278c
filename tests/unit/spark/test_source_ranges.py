"""How much a batch reads, and how it is divided among tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.records import TopicPartition
from moldau.spark.source.ranges import OffsetRange, backlog, divided, later, limited

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))

partitions = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 5))
sizes = st.dictionaries(partitions, st.tuples(st.integers(0, 1000), st.integers(0, 500)))


def range_lists():
    found = st.builds(
        lambda partition, start, size: OffsetRange(partition, start, start + size),
        partitions,
        st.integers(0, 1000),
        st.integers(-5, 500),
    )
    return st.lists(found, max_size=6)


def test_a_limit_is_divided_by_what_there_is_to_read():
    start, end = {T0: 0, T1: 100, T2: 5}, {T0: 300, T1: 800, T2: 5}

    assert limited(start, end, 100) == {T0: 30, T1: 170, T2: 5}


def test_a_small_partition_beside_a_large_one_is_not_starved():
    assert limited({T0: 0, T1: 0}, {T0: 1, T1: 1_000_000}, 10) == {T0: 1, T1: 9}


def test_a_limit_above_what_there_is_changes_nothing():
    assert limited({T0: 0}, {T0: 7}, 7) == {T0: 7}


def test_a_log_that_has_shrunk_is_left_for_others_to_judge():
    assert limited({T0: 9, T1: 0}, {T0: 5, T1: 100}, 10) == {T0: 5, T1: 10}


@given(sizes, st.integers(1, 2000))
def test_a_limit_is_kept_up_to_one_offset_a_partition(given_sizes, most):
    start = {one: place for one, (place, _) in given_sizes.items()}
    end = {one: place + size for one, (place, size) in given_sizes.items()}
    unfinished = sum(size > 0 for _, size in given_sizes.values())

    reached = limited(start, end, most)

    assert reached.keys() == end.keys()
    assert all(start[one] <= reached[one] <= end[one] for one in end)
    assert all(reached[one] > start[one] for one in end if end[one] > start[one])
    read = backlog(start, reached)
    assert read <= max(most, unfinished)
    assert read >= min(most, backlog(start, end))


@given(range_lists(), st.none() | st.integers(1, 50), st.none() | st.integers(1, 40))
def test_division_covers_everything_once_and_in_order(ranges, most, least_count):
    parts = divided(ranges, most=most, least_count=least_count)

    def offsets(of):
        return [(each.partition, offset) for each in of for offset in range(each.start, each.end)]

    assert offsets(parts) == offsets(ranges)
    assert all(part.size > 0 for part in parts)
    if most is not None:
        assert all(part.size <= most for part in parts)
    if least_count is not None:
        assert len(parts) >= min(least_count, len(offsets(ranges)))


def test_a_large_range_is_split_and_a_small_one_is_not():
    ranges = [OffsetRange(T0, 0, 10), OffsetRange(T1, 0, 90)]

    parts = divided(ranges, least_count=4)

    assert parts == [
        OffsetRange(T0, 0, 10),
        OffsetRange(T1, 0, 30),
        OffsetRange(T1, 30, 60),
        OffsetRange(T1, 60, 90),
    ]


def test_enough_ranges_stay_as_they_are():
    ranges = [OffsetRange(T0, 0, 10), OffsetRange(T1, 0, 1000)]

    assert divided(ranges, least_count=2) == ranges


def test_only_partitions_on_both_sides_can_have_shrunk():
    assert later({T0: 5, T1: 5, T2: 9}, {T0: 4, T1: 5}) == [T0]
