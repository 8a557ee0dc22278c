"""Columns, and stretches of records, say what reading record by record says, on any bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.column_kit import batch_of, parts_of, read_both_ways, rows_of
from moldau.base.errors import CorruptRecords
from moldau.records import record as record_module
from moldau.records.batch import TimestampType, parse_header
from moldau.records.columns import read_columns
from moldau.records.record import Record, iter_records

blobs = st.none() | st.binary(max_size=80) | st.builds(bytes, st.integers(0, 9_000))
times = st.integers(0, 2**41) | st.integers(-1, 2**62)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple)
sizes = st.none() | st.integers(0, 130)


@st.composite
def any_records(draw):
    """Records of any shape at rising offsets."""
    records, offset = [], draw(st.integers(0, 2**62))
    for _ in range(draw(st.integers(1, 12))):
        fields = draw(st.tuples(times, blobs, blobs, headers))
        records.append(Record(offset, *fields))
        offset += draw(st.integers(1, 300))
    return records


@st.composite
def alike_records(draw):
    """Runs of records of one shape; now and then one differs."""
    records, offset = [], draw(st.integers(0, 2**62))
    time = draw(st.integers(0, 2**41))
    for _ in range(draw(st.integers(1, 3))):
        key, value = (
            None if size is None else draw(st.binary(min_size=size, max_size=size))
            for size in (draw(sizes), draw(sizes))
        )
        steps = draw(st.lists(st.sampled_from([0, 0, 1, 70, -3]), min_size=1, max_size=5))
        for number in range(draw(st.integers(1, 120))):
            records.append(Record(offset, time, key, value))
            offset += 1
            time += steps[number % len(steps)]
        offset += draw(st.sampled_from([0, 1, 9000]))
    return records


batches = st.builds(
    batch_of, any_records() | alike_records(), timestamp_type=st.sampled_from(TimestampType)
)


@settings(max_examples=40)
@given(st.lists(batches, min_size=1, max_size=4), st.data())
def test_columns_hold_the_records_of_all_batches(made, data):
    repeated = data.draw(st.lists(st.sampled_from(made), max_size=6))
    content = b"".join([*made, *repeated])
    columns, records = read_both_ways(content, parts_of(content))
    assert columns == records is not None


@settings(max_examples=40)
@given(batches, st.integers(0, 2**62))
def test_columns_leave_out_what_is_not_wanted(batch, first_wanted):
    parts = parts_of(batch)
    records = list(iter_records(parts[0].header, batch[61:]))
    middle = records[first_wanted % len(records)].offset
    columns = read_columns(batch, parts_of(batch, middle))
    assert rows_of(columns) == [record for record in records if record.offset >= middle]


@settings(max_examples=80)
@given(st.lists(batches, min_size=1, max_size=3), st.data())
def test_damage_is_found_both_ways_or_reads_the_same(made, data):
    content = bytearray(b"".join(made))
    parts = parts_of(bytes(content))
    part = data.draw(st.sampled_from(parts))
    near = st.integers(part.start, min(part.end, part.start + 40) - 1)
    for position in data.draw(st.lists(near | st.integers(part.start, part.end - 1), max_size=3)):
        content[position] = data.draw(st.integers(0, 255))
    columns, records = read_both_ways(bytes(content), parts)
    assert columns == records


def read_until_wrong(header, payload):
    """Read records, and tell what was wrong behind them."""
    found = []
    try:
        for record in iter_records(header, payload):
            found.append(record)  # noqa: PERF402 - those before the error count
    except CorruptRecords as error:
        return found, str(error)
    return found, None


@settings(max_examples=80)
@given(alike_records(), st.sampled_from(TimestampType), st.data())
def test_stretches_read_what_single_records_read(records, timestamp_type, data):
    batch = batch_of(records, timestamp_type=timestamp_type)
    header, payload = parse_header(batch), bytearray(batch[61:])
    for position in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=2)):
        payload[position] = data.draw(st.integers(0, 255))
    by_stretch = read_until_wrong(header, bytes(payload))
    single, record_module.find_stretch = record_module.find_stretch, lambda *_: None
    try:
        assert by_stretch == read_until_wrong(header, bytes(payload))
    finally:
        record_module.find_stretch = single
