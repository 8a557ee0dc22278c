import pytest

from kits.record_oracles import AIOKAFKA, BATCH_CASES, KAFKA_PYTHON
from moldau.records.batch import TimestampType, crc_ok, parse_header
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.records.compression import Codec
from moldau.records.record import Record, read_records

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_005, None, b""),
    Record(2, 1_699_999_000_000, b"", None, (("header", b"1"), ("null", None))),
    Record(3, 1_700_000_100_000, b"k" * 300, b"v" * 100_000),
    *(Record(offset, 1_700_000_000_000, None, b"x" * 100) for offset in range(4, 100)),
]


def built(codec: Codec = Codec.NONE, **options) -> bytes:
    builder = BatchBuilder(codec, **options)
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


@pytest.mark.parametrize(("oracle", "codec"), BATCH_CASES)
def test_other_readers_read_our_batches(oracle, codec):
    assert oracle.read(built(codec)) == RECORDS


@pytest.mark.parametrize("oracle", [AIOKAFKA, KAFKA_PYTHON])
def test_uncompressed_batches_are_those_of_other_writers_byte_for_byte(oracle):
    theirs = oracle.build(RECORDS, transactional=True)
    ours = built(producer_id=7, producer_epoch=3, base_sequence=11, transactional=True)
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]
    assert parse_header(ours).leader_epoch == -1


def test_the_header_tells_what_the_builder_was_told():
    builder = BatchBuilder(
        Codec.ZSTD,
        7,
        base_offset=12,
        leader_epoch=4,
        transactional=True,
        control=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    builder.set_producer(77, 1, 2**31 - 1)
    builder.append(50, b"k", b"v")
    builder.append(40, b"k", b"v", offset_delta=9)
    header = parse_header(builder.build())
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (12, 21, 4)
    assert (header.base_timestamp, header.max_timestamp, header.count) == (50, 50, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 1, 2**31 - 1)
    assert header.codec is Codec.ZSTD
    assert header.transactional
    assert header.control
    assert header.append_time


def test_a_batch_of_nothing_is_61_bytes():
    batch = BatchBuilder(base_offset=5).build()
    header = parse_header(batch)
    assert len(batch) == 61
    assert crc_ok(batch, 0, 61)
    assert (header.count, header.base_timestamp, header.max_timestamp) == (0, -1, -1)


def test_the_size_is_exact_without_a_codec_and_the_bound_holds():
    builder = BatchBuilder()
    for record in RECORDS:
        before = builder.size
        builder.append(record.timestamp, record.key, record.value, record.headers)
        taken = builder.size - before
        assert taken <= record_size_bound(record.key, record.value, record.headers)
        assert len(builder.build()) == builder.size
    assert builder.count == len(RECORDS)


def test_the_bound_holds_for_the_largest_deltas():
    builder = BatchBuilder()
    builder.append(-(2**62), None, None)
    before = builder.size
    headers = [("\u017e" * 50, b"x" * 9000), ("", None)]
    builder.append(2**62 - 1, b"k", b"v", headers, offset_delta=2**31 - 1)
    assert builder.size - before <= record_size_bound(b"k", b"v", headers)
    assert [record.timestamp for record in read_records(builder.build())] == [-(2**62), 2**62 - 1]


@pytest.mark.parametrize("delta", [-1, 0, 4])
def test_offsets_must_rise(delta):
    builder = BatchBuilder()
    builder.append(0, None, b"v", offset_delta=4)
    with pytest.raises(ValueError, match="offset delta"):
        builder.append(0, None, b"v", offset_delta=delta)


def test_building_twice_gives_the_same_and_goes_on():
    builder = BatchBuilder(Codec.GZIP)
    builder.append(1, None, b"first")
    assert builder.build() == builder.build()
    builder.append(2, None, b"second")
    assert [record.value for record in read_records(builder.build())] == [b"first", b"second"]


def test_a_record_past_the_limit_is_not_added_unless_it_is_the_first():
    builder = BatchBuilder()
    assert builder.append(5, None, b"x" * 100, limit=80)
    before = builder.build()
    assert not builder.append(9, None, b"y" * 100, limit=200)
    assert (builder.build(), builder.count) == (before, 1)
    assert builder.append(9, None, b"y", limit=200)
