import pytest
from crc32c import crc32c

from moldau.base.errors import CorruptRecords
from moldau.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    BatchSpan,
    TimestampType,
    batch_prefix,
    crc_ok,
    iter_batches,
    pack_batch,
    parse_header,
    peek,
    with_append_time,
)
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import message_set
from moldau.records.record import Record, read_records


def batch_of(count: int, **options) -> bytes:
    builder = BatchBuilder(**options)
    for number in range(count):
        builder.append(1000 + number, b"key", b"value %d" % number)
    return builder.build()


FULL = batch_of(
    3,
    codec=Codec.GZIP,
    base_offset=40,
    leader_epoch=6,
    producer_id=2**40,
    producer_epoch=5,
    base_sequence=17,
    transactional=True,
)
OLD = message_set([Record(5, 99, b"k", b"v")], 1)


def test_the_header_is_read_field_by_field():
    header = parse_header(memoryview(b"??" + FULL), 2)
    assert header == BatchHeader(
        base_offset=40,
        length=len(FULL) - 12,
        leader_epoch=6,
        magic=2,
        crc=crc32c(FULL[21:]),
        attributes=0b10001,
        last_offset_delta=2,
        base_timestamp=1000,
        max_timestamp=1002,
        producer_id=2**40,
        producer_epoch=5,
        base_sequence=17,
        count=3,
    )
    assert (header.size, header.last_offset, header.next_offset) == (len(FULL), 42, 43)
    assert header.codec is Codec.GZIP
    assert header.transactional
    assert not header.control
    assert not header.has_delete_horizon
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.last_sequence == 19


@pytest.mark.parametrize(
    ("bit", "name"), [(8, "append_time"), (16, "transactional"), (32, "control")]
)
def test_every_attribute_bit_has_its_name(bit, name):
    plain = parse_header(batch_of(1))
    assert not getattr(plain, name)
    assert getattr(plain._replace(attributes=bit), name)


def test_the_delete_horizon_bit_is_known():
    assert parse_header(batch_of(1))._replace(attributes=64).has_delete_horizon


def test_sequences_go_on_at_zero_after_the_largest():
    header = parse_header(FULL)._replace(base_sequence=2**31 - 1)
    assert header.last_sequence == 1
    assert parse_header(batch_of(2)).last_sequence == -1


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_corrupt_only_when_it_is_asked_for(number):
    header = parse_header(batch_of(1))._replace(attributes=number)
    with pytest.raises(CorruptRecords, match="no codec"):
        _ = header.codec


@pytest.mark.parametrize("size", [0, 12, 17, 60])
def test_a_header_that_is_cut_is_corrupt(size):
    with pytest.raises(CorruptRecords, match="61 bytes"):
        parse_header(FULL[:size])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_smaller_than_a_header_is_corrupt(length):
    bad = FULL[:8] + length.to_bytes(4, "big", signed=True) + FULL[12:]
    with pytest.raises(CorruptRecords):
        parse_header(bad)
    with pytest.raises(CorruptRecords):
        peek(bad)
    with pytest.raises(CorruptRecords):
        list(iter_batches(bad, allow_cut=True))


@pytest.mark.parametrize("magic", [0, 1, 3, 0xFF])
def test_another_magic_is_no_batch(magic):
    with pytest.raises(CorruptRecords, match="magic"):
        parse_header(FULL[:16] + bytes((magic,)) + FULL[17:])


@pytest.mark.parametrize("magic", [3, 0xFF])
def test_a_walk_stops_at_a_magic_nobody_knows(magic):
    with pytest.raises(CorruptRecords, match="magic"):
        list(iter_batches(FULL + FULL[:16] + bytes((magic,)) + FULL[17:], allow_cut=True))


def test_a_peek_needs_seventeen_bytes_only():
    assert peek(FULL[:17]) == (40, len(FULL), 2)
    assert peek(b"?" + OLD[:17], 1) == (5, len(OLD), 1)
    with pytest.raises(CorruptRecords):
        peek(FULL[:16])


def test_batches_and_old_messages_are_walked_together():
    assert list(iter_batches(FULL + OLD + FULL)) == [
        BatchSpan(0, len(FULL), 40, 2),
        BatchSpan(len(FULL), len(OLD), 5, 1),
        BatchSpan(len(FULL) + len(OLD), len(FULL), 40, 2),
    ]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("left", [1, 16, 17, 61, len(FULL) - 1])
def test_a_cut_last_batch_is_left_out_on_request_only(left):
    cut = memoryview(FULL + FULL[:left])
    assert [span.position for span in iter_batches(cut, allow_cut=True)] == [0]
    with pytest.raises(CorruptRecords):
        list(iter_batches(cut))


def test_the_checksum_covers_everything_behind_it_and_nothing_before():
    assert crc_ok(memoryview(b"?" + FULL + b"?"), 1, len(FULL))
    for position in range(len(FULL)):
        flipped = bytearray(FULL)
        flipped[position] ^= 1
        assert crc_ok(flipped, 0, len(flipped)) == (position < 17), position


def test_an_append_rewrites_the_prefix_alone():
    header = parse_header(FULL)
    stored = batch_prefix(2**40, len(FULL), 9) + FULL[16:]
    assert parse_header(stored) == header._replace(base_offset=2**40, leader_epoch=9)
    assert crc_ok(stored, 0, len(stored))


def test_append_time_is_put_into_the_header_without_copying_the_records():
    source = bytearray(FULL)
    header, parts = with_append_time(parse_header(source), source, 5_000)
    stored = b"".join(parts)
    assert parts[1].obj is source
    assert len(parts[0]) == HEADER_SIZE
    assert parse_header(stored) == header
    assert crc_ok(stored, 0, len(stored))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (1000, 5000)
    assert {record.timestamp for record in read_records(stored)} == {5_000}
    assert stored[HEADER_SIZE:] == FULL[HEADER_SIZE:]


def test_append_time_leaves_what_follows_the_batch_alone():
    _, parts = with_append_time(parse_header(FULL), FULL + OLD, 5_000)
    assert sum(map(len, parts)) == len(FULL)


def test_packing_computes_length_and_checksum():
    packed = pack_batch(parse_header(FULL)._replace(length=1, crc=2), FULL[HEADER_SIZE:])
    assert packed == FULL
