"""What a stream reads between two offsets, when partitions came, went, shrank or were made anew."""

from __future__ import annotations

import pytest

from moldau.client.records import TopicPartition
from moldau.spark.errors import DataLost
from moldau.spark.source.offsets import StreamOffset
from moldau.spark.source.planning import places_of, stream_ranges
from moldau.spark.source.ranges import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = "aa" * 16, "bb" * 16


class Firsts:
    """Knows where partitions begin."""

    def __init__(self, firsts=()):
        self._firsts = dict(firsts)

    def earliest(self, partitions):
        return {one: self._firsts[one] for one in partitions}


def at(positions, id_=OLD):
    return StreamOffset(positions, {"t": id_} if id_ else {})


def ranges(start, end, lookup=None, *, fail=True):
    return stream_ranges(start, end, lookup or Firsts(), fail=fail)


def test_what_lies_between_two_offsets_is_read():
    assert ranges(at({T0: 5, T1: 7}), at({T0: 9, T1: 7})) == [
        OffsetRange(T0, 5, 9),
        OffsetRange(T1, 7, 7),
    ]


def test_a_new_partition_is_read_from_its_first_record():
    found = ranges(at({T0: 5}), at({T0: 5, T1: 3}), Firsts({T1: 0}))

    assert OffsetRange(T1, 0, 3) in found


@pytest.mark.parametrize(
    ("start", "end", "firsts", "message", "left"),
    [
        ({T0: 5}, {T0: 5, T1: 9}, {T1: 4}, "t-1 is new and begins at offset 4", [(T1, 4, 9)]),
        ({T0: 5, T1: 7}, {T0: 6}, {}, "t-1 is gone", [(T0, 5, 6)]),
        ({T0: 9}, {T0: 4}, {}, "t-0 ends at offset 4, before 9", []),
    ],
)
def test_what_cannot_be_read_any_more_ends_the_query_or_is_passed_over(
    start, end, firsts, message, left
):
    lookup = Firsts(firsts)
    with pytest.raises(DataLost, match=message):
        ranges(at(start), at(end), lookup)

    found = ranges(at(start), at(end), lookup, fail=False)

    assert [each for each in found if each.size > 0] == left


def test_a_topic_made_anew_is_not_taken_for_the_old_one():
    start, end = at({T0: 5}, OLD), at({T0: 40}, NEW)

    with pytest.raises(DataLost, match="'t' was deleted and created again"):
        ranges(start, end, Firsts({T0: 0}))
    assert ranges(start, end, Firsts({T0: 0}), fail=False) == [OffsetRange(T0, 0, 40)]


def test_without_ids_nobody_can_tell_a_topic_from_its_successor():
    assert ranges(at({T0: 5}, None), at({T0: 40}, NEW)) == [OffsetRange(T0, 5, 40)]


def test_limits_count_a_new_partition_from_its_first_record():
    assert places_of(at({T0: 5}), at({T0: 9, T1: 9}), Firsts({T1: 2})) == {T0: 5, T1: 2}
