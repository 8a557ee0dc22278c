import gc
from itertools import islice

import pytest

from kits.column_kit import batch_of
from moldau.base.errors import CorruptRecords
from moldau.records import record as record_module
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.record import Record, iter_fields, iter_records
from moldau.records.stretches import SHORTEST, find_stretch

TIME = 1_700_000_000_000


def alike(count, *, key=None, size=100, every=50, headers=()):
    return [
        Record(number, TIME + number // every, key, bytes((number & 0xFF,)) * size, headers)
        for number in range(count)
    ]


def stretches(records):
    """The lengths of the stretches in a batch; what lies between them ends the search."""
    payload = batch_of(records)[61:]
    found, position, delta = [], 0, 0
    while stretch := find_stretch(payload, position, delta, len(records) - delta):
        found.append(stretch.length)
        position = stretch.end
        delta += stretch.length
    return found


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 1000, 9000])
@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 70])
def test_records_of_one_shape_are_one_stretch(key, size):
    records = alike(60, key=key, size=size)
    assert stretches(records) == [60]
    batch = batch_of(records)
    assert list(iter_records(parse_header(batch), batch[61:])) == records


def test_a_stretch_ends_where_offset_deltas_grow_wider():
    records = alike(20_000, size=3, every=10**6)
    assert stretches(records) == [64, 8192 - 64, 8192, 20_000 - 16_384]
    batch = batch_of(records)
    assert list(iter_records(parse_header(batch), batch[61:])) == records


def test_a_stretch_ends_where_timestamp_deltas_grow_wider():
    records = alike(200, every=1)
    assert stretches(records) == [64, 136]
    assert stretches([*alike(40, every=1), Record(40, TIME + 70, None, b"x" * 100)]) == [40]
    batch = batch_of(records)
    assert list(iter_records(parse_header(batch), batch[61:])) == records


def test_times_may_go_back():
    records = [Record(number, TIME - 40 * number, None, b"v") for number in range(200)]
    batch = batch_of(records)
    assert list(iter_records(parse_header(batch), batch[61:])) == records


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Record(40, TIME, None, b"x" * 99), id="shorter value"),
        pytest.param(Record(40, TIME, b"k", b"x" * 99), id="key instead of value"),
        pytest.param(Record(41, TIME, None, b"x" * 100), id="gap between offsets"),
        pytest.param(Record(40, TIME, None, b"x" * 96, (("a", b"x"),)), id="a header"),
        pytest.param(Record(40, TIME + 100, None, b"x" * 99), id="wider time in the same size"),
    ],
)
def test_a_stretch_ends_before_a_record_that_is_different(other):
    records = [*alike(40), other]
    assert stretches(records) == [40]
    batch = batch_of(records)
    assert list(iter_records(parse_header(batch), batch[61:])) == records


def test_records_with_headers_are_no_stretch():
    assert stretches(alike(60, headers=(("a", b"1"),))) == []


def test_few_records_are_not_worth_a_look():
    assert stretches(alike(SHORTEST - 1)) == []
    assert stretches(alike(SHORTEST)) == [SHORTEST]


def test_a_stretch_is_not_found_beyond_the_last_offset_of_the_batch():
    batch = batch_of(alike(60))
    header = parse_header(batch)._replace(last_offset_delta=49)
    reading = iter_records(header, batch[61:])
    assert list(islice(reading, 50)) == alike(50)
    with pytest.raises(CorruptRecords, match="offset delta 50"):
        next(reading)


@pytest.mark.parametrize("cut", [1, 50, 108, 109, 110, 150])
def test_a_stretch_never_takes_a_record_that_is_not_all_there(cut):
    payload = batch_of(alike(60))[61:-cut]
    stretch = find_stretch(payload, 0, 0, 60)
    assert stretch.end <= len(payload)
    assert stretch.length == len(payload) // stretch.size


@pytest.mark.patches
def test_where_no_stretch_is_found_the_next_look_comes_later_and_later(monkeypatch):
    looks = []
    monkeypatch.setattr(
        record_module, "find_stretch", lambda _payload, _position, delta, _left: looks.append(delta)
    )
    batch = batch_of(alike(3000))
    assert len(list(iter_fields(parse_header(batch), batch[61:]))) == 3000
    assert looks == [0, 32, 96, 224, 480, 992, 1504, 2016, 2528]


def test_a_stretch_that_was_not_read_to_its_end_may_lie_in_a_cycle():
    batch = batch_of(alike(60))
    reading = iter_fields(parse_header(batch), batch[61:])
    next(reading)
    cycle = [reading]
    cycle.append(cycle)
    del reading, cycle
    gc.collect()  # would end the process


def test_an_emptied_batch_has_nothing_to_look_at():
    assert list(iter_fields(parse_header(BatchBuilder().build()), b"")) == []
