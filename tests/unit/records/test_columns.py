import numpy as np
import pytest

from kits.column_kit import batch_of, parts_of, read_both_ways, rows_of
from moldau.base.errors import CorruptRecords
from moldau.records import columns as columns_module
from moldau.records.batch import TimestampType, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.column_types import Part
from moldau.records.columns import header_columns, read_columns
from moldau.records.record import Record, read_records
from moldau.records.varint import VARINT

TIME = 1_700_000_000_000
MIXED = [
    Record(7, TIME, b"key", b"value"),
    Record(8, TIME, None, b""),
    Record(9, TIME + 900, b"", None),
    Record(10, TIME - 10**11, None, None),
    Record(400, TIME + 10**11, b"k" * 200, b"v" * 70_000),
    Record(100_000, 0, b"h", b"", (("a", b"1"), ("", None), ("\u017elu\u0165", b""))),
    Record(100_001, TIME, None, b"x", (("a", b"x" * 9000),)),
]


def alike(count, base_offset=0, size=100):
    """Records of one shape, as far as offsets of one and two bytes let them be."""
    return [
        Record(base_offset + number, TIME + number // 50, None, bytes((number & 0xFF,)) * size)
        for number in range(count)
    ]


def plain(data):
    return [record for part in parts_of(data) for record in read_records(data, part.start - 61)]


def test_every_kind_of_field_is_read_as_the_plain_decoder_reads_it():
    data = batch_of(MIXED)
    assert rows_of(read_columns(data, parts_of(data))) == MIXED


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 64, 65, 66, 200, 9000])
def test_long_stretches_of_one_length_are_crossed(count):
    records = alike(count, base_offset=5)
    data = batch_of(records)
    assert rows_of(read_columns(data, parts_of(data))) == records


def test_many_batches_are_read_at_once():
    data = b"".join(
        batch_of(records)
        for records in (alike(40), MIXED, alike(40, 200_000), alike(3, 200_100, 20_000))
    )
    assert rows_of(read_columns(data, parts_of(data))) == plain(data)


def test_a_batch_of_the_same_shape_is_guessed_and_a_wrong_guess_is_walked():
    sizes = [5, 300, 7, 90]
    data = b""
    for number, order in enumerate((sizes, sizes[::-1], sizes, sizes[::-1], sorted(sizes))):
        records = [
            Record(number * 4 + place, TIME, None, b"v" * size) for place, size in enumerate(order)
        ]
        data += batch_of(records)
    parts = parts_of(data)
    assert len({(part.header.count, part.end - part.start) for part in parts}) == 1
    assert rows_of(read_columns(data, parts)) == plain(data)


def test_a_guess_spares_the_walk(monkeypatch):
    data = b"".join(batch_of(alike(10, first)) for first in range(0, 100, 10))
    walked = []
    through = columns_module._Walk._through
    monkeypatch.setattr(
        columns_module._Walk,
        "_through",
        lambda self, content, left: (walked.append(left), through(self, content, left)),
    )
    assert len(read_columns(data, parts_of(data)).offsets) == 100
    assert walked == [10]


def test_the_leaders_time_stands_for_all_records_of_its_batches():
    early = batch_of(alike(5))
    late = batch_of(alike(5, 5), timestamp_type=TimestampType.LOG_APPEND_TIME)
    columns = read_columns(early + late, parts_of(early + late))
    assert columns.append_times.tolist() == [False] * 5 + [True] * 5
    assert columns.timestamps.tolist()[5:] == [parse_header(late).max_timestamp] * 5


def test_records_before_the_first_wanted_are_left_out():
    data = batch_of(alike(10)) + batch_of([each._replace(offset=each.offset + 3) for each in MIXED])
    columns = read_columns(data, parts_of(data, first_wanted=12))
    assert rows_of(columns) == [record for record in plain(data) if record.offset >= 12]


def test_a_batch_that_compaction_emptied_has_no_rows():
    data = BatchBuilder().build()
    assert rows_of(read_columns(data, parts_of(data))) == []
    assert header_columns(read_columns(data, parts_of(data))).counts.size == 0
    assert rows_of(read_columns(b"", [])) == []


def test_bytes_in_a_batch_without_records_are_corrupt():
    header = parse_header(BatchBuilder().build())
    with pytest.raises(CorruptRecords, match="without records"):
        read_columns(b"\x00", [Part(header, 0, 1)])


def test_nothing_behind_a_batch_is_taken_for_a_part_of_it():
    data = batch_of(alike(3))
    (part,) = parts_of(data)
    for end in range(part.start, part.end):
        with pytest.raises(CorruptRecords):
            read_columns(data, [part._replace(end=end)])


def test_a_memoryview_will_do():
    data = batch_of(MIXED)
    assert rows_of(read_columns(memoryview(data), parts_of(data))) == MIXED


def test_one_record_with_very_many_headers_does_not_cost_a_round_each(monkeypatch):
    headers = tuple((f"{number}", b"x") for number in range(2000))
    records = [Record(0, TIME, None, b"v", headers), *alike(20, 1)]
    rounds = []
    read_slices = columns_module._read_slices
    monkeypatch.setattr(
        columns_module,
        "_read_slices",
        lambda *arguments: (rounds.append(1), read_slices(*arguments))[1],
    )
    data = batch_of(records)
    assert rows_of(read_columns(data, parts_of(data))) == records
    assert len(rounds) < 10


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x02\x01\x01", id="null key"),
        pytest.param(b"\x02\x00\x03", id="value length -2"),
        pytest.param(b"\x02\x04a\x01", id="key eats the rest"),
        pytest.param(b"\x02\x02a\x04x", id="value eats the rest"),
        pytest.param(b"\x02\x02a\x00x", id="a byte too many"),
        pytest.param(b"\x04\x02a\x00\x80", id="cut inside a number"),
    ],
)
def test_headers_that_do_not_fill_their_record_are_corrupt(tail, count):
    payload = b"".join(
        bytes((2 * (5 + len(tail)), 0, 0, 2 * number, 1, 1)) + tail for number in range(count)
    )
    header = parse_header(batch_of(alike(count)))
    columns = read_columns(payload, [Part(header, 0, len(payload))])
    with pytest.raises(CorruptRecords):
        header_columns(columns)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x01", id="count -1"),
        pytest.param(b"\x02", id="one header, no bytes"),
        pytest.param(b"\xfe\xff\xff\xff\x0f", id="count beyond the bytes"),
        pytest.param(b"\xff\xff\xff\xff\x1f", id="count beyond 32 bits"),
        pytest.param(b"\x00\x00", id="bytes behind the last field"),
    ],
)
def test_counts_of_headers_are_checked_even_if_nobody_asks_for_headers(tail):
    payload = bytes((2 * (5 + len(tail)), 0, 0, 0, 1, 1)) + tail
    with pytest.raises(CorruptRecords):
        read_columns(payload, [Part(parse_header(batch_of(alike(1))), 0, len(payload))])


def test_every_byte_that_can_be_wrong_is_wrong_both_ways():
    good = batch_of(MIXED[:4]) + batch_of(alike(70, 1000, 3)) + batch_of(MIXED[5:6])
    parts = parts_of(good)
    for part in parts:
        for position in range(part.start, min(part.end, part.start + 300)):
            for byte in (0x00, 0x01, 0x7E, 0x80, 0xFF, good[position] ^ 0x02):
                damaged = good[:position] + bytes((byte,)) + good[position + 1 :]
                columns, records = read_both_ways(damaged, parts)
                assert columns == records, f"{byte:#x} at {position}"


@pytest.mark.parametrize("change", [-1, 1, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("field", ["count", "last_offset_delta", "base_offset"])
def test_every_lie_of_a_header_is_found_both_ways(field, change):
    data = batch_of(alike(70))
    (part,) = parts_of(data)
    header = part.header._replace(**{field: change})
    columns, records = read_both_ways(data, [part._replace(header=header)])
    assert columns == records


@pytest.mark.parametrize("bits", [32, 64])
def test_numbers_of_all_widths_are_read(bits):
    numbers = sorted(
        {sign * (2**bit + more) for bit in range(bits - 1) for more in (-1, 0) for sign in (1, -1)}
    )
    numbers.append(-(2 ** (bits - 1)))
    written = [VARINT[number] for number in numbers]
    positions = np.cumsum([0, *map(len, written)])
    content = np.frombuffer(b"".join(written), np.uint8)
    read, behind = columns_module._read_varints(content, positions[:-1], bits)
    assert read.tolist() == numbers
    assert behind.tolist() == positions[1:].tolist()
