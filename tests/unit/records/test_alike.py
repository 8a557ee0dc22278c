"""Batches that are alike are read as grids, and say what reading record by record says."""

import pytest

from kits.column_kit import batch_of, parts_of, read_both_ways
from moldau.base.errors import CorruptRecords
from moldau.records import columns as columns_module
from moldau.records.alike import FEWEST, find_runs
from moldau.records.batch import TimestampType
from moldau.records.columns import read_columns
from moldau.records.record import Record

TIME = 1_700_000_000_000


def records_at(first, count=100, *, key=None, size=100, every=10):
    return [
        Record(number, TIME + number // every, key, bytes((number & 0xFF,)) * size)
        for number in range(first, first + count)
    ]


def batches(number=4, count=100, **shape):
    return [batch_of(records_at(first * count, count, **shape)) for first in range(number)]


def runs_of(made):
    data = b"".join(made)
    return [(run.first, run.end) for run in find_runs(data, parts_of(data))]


def assert_read_alike(made):
    data = b"".join(made)
    columns, records = read_both_ways(data, parts_of(data))
    assert columns == records is not None


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000])
@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 70])
def test_batches_of_one_shape_are_one_run(key, size):
    made = batches(key=key, size=size)
    assert runs_of(made) == [(0, 4)]
    assert_read_alike(made)


def test_a_run_may_be_one_large_batch():
    made = batches(1, 9000)
    assert runs_of(made) == [(0, 1)]
    assert_read_alike(made)


def test_times_of_two_bytes_are_read_and_may_go_back():
    made = [
        batch_of(
            [
                each._replace(timestamp=TIME if number < 64 else TIME - 4000 + 90 * number)
                for number, each in enumerate(records_at(first))
            ]
        )
        for first in range(0, 400, 100)
    ]
    assert runs_of(made) == [(0, 4)]
    assert_read_alike(made)


def test_times_are_those_of_the_leader_where_it_says_so():
    made = batches()
    made[2] = batch_of(records_at(200), timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert runs_of(made) == [(0, 4)]
    assert_read_alike(made)


def test_between_runs_batches_are_read_as_ever(monkeypatch):
    made = [*batches(), *batches(2, 40), *batches(3, 150, key=b"key")]
    assert runs_of(made) == [(0, 4), (6, 9)]
    assert_read_alike(made)
    read = []
    usual = columns_module._read
    monkeypatch.setattr(
        columns_module,
        "_read",
        lambda data, parts: (read.append(len(parts)), usual(data, parts))[1],
    )
    data = b"".join(made)
    assert len(read_columns(data, parts_of(data)).offsets) == 930
    assert read == [2]


def test_few_records_are_no_run():
    assert runs_of(batches(2, FEWEST // 2 - 1)) == []
    assert runs_of(batches(3, FEWEST // 2)) == [(0, 3)]


def test_records_of_uneven_sizes_are_no_run():
    made = [
        batch_of([each._replace(value=b"v" * (each.offset % 7)) for each in records_at(first)])
        for first in range(0, 400, 100)
    ]
    assert runs_of(made) == []
    assert_read_alike(made)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"value": b"v" * 96, "headers": (("a", b"x"),)}, id="a header"),
        pytest.param({"key": b"k", "value": b"v" * 99}, id="a key"),
        pytest.param({"timestamp": TIME + 5000, "value": b"v" * 99}, id="a wider time"),
        pytest.param({"value": None, "key": b"v" * 100}, id="key instead of value"),
    ],
)
def test_one_record_of_another_shape_in_as_many_bytes_ends_a_run(other):
    made = batches()
    changed = records_at(200)
    changed[50] = changed[50]._replace(**other)
    made[2] = batch_of(changed)
    assert len(made[2]) == len(made[1])
    assert runs_of(made) == []
    assert_read_alike(made)


def test_what_is_not_wanted_is_left_out():
    data = b"".join(batches())
    columns = read_columns(data, parts_of(data, first_wanted=250))
    assert columns.offsets.tolist() == list(range(250, 400))


def test_every_byte_that_can_be_wrong_is_wrong_both_ways():
    good = b"".join(batches(3, size=3, key=b"k"))
    part = parts_of(good)[1]
    near_the_ends = (*range(part.start, part.start + 30), *range(part.end - 30, part.end))
    for position in near_the_ends:
        for byte in (0x00, 0x01, 0x7E, 0x80, 0xFF, good[position] ^ 0x02):
            damaged = good[:position] + bytes((byte,)) + good[position + 1 :]
            columns, records = read_both_ways(damaged, parts_of(good))
            assert columns == records, f"{byte:#x} at {position}"


def test_a_header_that_ends_its_batch_before_the_last_record_is_corrupt():
    data = b"".join(batches())
    parts = parts_of(data)
    parts[2] = parts[2]._replace(header=parts[2].header._replace(last_offset_delta=98))
    with pytest.raises(CorruptRecords, match="leave their batch"):
        read_columns(data, parts)
