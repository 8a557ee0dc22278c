import pickle
import struct

import pytest

from kits.record_oracles import AIOKAFKA, BATCH_CASES, MESSAGE_CASES
from moldau.base.errors import CorruptRecords
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import TimestampType, crc_ok, parse_header, with_append_time
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.records.conversion import down_convert, recompress, up_convert
from moldau.records.legacy import iter_messages, message_set, unwrapped
from moldau.records.record import Record, read_records

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_005, None, b""),
    Record(2, 1_699_999_000_000, b"", None),
    Record(3, 1_700_000_100_000, b"k" * 300, b"v" * 100_000),
]
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def timeless(records):
    return [record._replace(timestamp=-1) for record in records]


def batch_of(records, codec=Codec.NONE, **options):
    builder = BatchBuilder(codec, base_offset=records[0].offset, **options)
    for record in records:
        builder.append(
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            offset_delta=record.offset - records[0].offset,
        )
    return builder.build()


def shifted(records, base):
    return [record._replace(offset=base + record.offset * 3) for record in records]


@pytest.mark.parametrize(("oracle", "magic", "codec"), MESSAGE_CASES)
def test_old_messages_become_one_batch_with_their_codec(oracle, magic, codec):
    batch = up_convert(oracle.build_messages(RECORDS, magic, codec))
    header = parse_header(batch)
    assert crc_ok(batch, 0, len(batch))
    assert header.codec is codec
    assert header.size == len(batch)
    assert header.producer_id == -1
    assert list(read_records(batch)) == (RECORDS if magic else timeless(RECORDS))


def test_several_messages_and_wrappers_become_one_batch_numbered_from_0():
    messages = (
        message_set(RECORDS[:1], 1)
        + message_set(shifted(RECORDS, 500), 1, Codec.GZIP)
        + message_set(shifted(RECORDS, 5), 0)
    )
    batch = up_convert(memoryview(messages))
    assert parse_header(batch).codec is Codec.GZIP
    assert [record.offset for record in read_records(batch)] == list(range(9))
    assert [r.value for r in read_records(batch)][1:5] == [r.value for r in RECORDS]


def test_conversion_can_compress_as_the_topic_asks():
    batch = up_convert(message_set(RECORDS, 1, Codec.GZIP), Codec.ZSTD, 1)
    assert parse_header(batch).codec is Codec.ZSTD
    assert list(read_records(batch)) == RECORDS


def test_messages_without_time_make_a_batch_without_time():
    header = parse_header(up_convert(message_set(RECORDS, 0)))
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


@pytest.mark.parametrize("bad", [b"", b"?" * 40, batch_of(RECORDS), message_set(RECORDS, 1)[:-1]])
def test_what_is_no_message_set_is_not_converted(bad):
    with pytest.raises(CorruptRecords):
        up_convert(bad)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_batches_become_messages_that_old_readers_read(magic, codec):
    first = shifted(RECORDS, 100)
    second = [record._replace(headers=(("h", b"1"),)) for record in shifted(RECORDS, 200)]
    converted = down_convert(batch_of(first, codec) + batch_of(second, codec), magic).messages
    expected = [record._replace(headers=()) for record in first + second]
    if magic == 0:
        expected = timeless(expected)
    messages = list(iter_messages(converted))
    assert {each.magic for each in messages} == {magic}
    assert len(messages) == (8 if codec is Codec.NONE else 2)
    assert [record for each in messages for record in unwrapped(each)] == expected
    if not (magic == 0 and codec is Codec.LZ4):  # aiokafka does not know that checksum
        assert AIOKAFKA.read(converted) == expected


def test_append_time_stays_append_time():
    batch = batch_of(RECORDS, Codec.GZIP)
    stamped = b"".join(with_append_time(parse_header(batch), batch, 5_000)[1])
    (wrapper,) = iter_messages(down_convert(stamped, 1).messages)
    assert wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in unwrapped(wrapper)} == {5_000}
    (wrapper,) = iter_messages(down_convert(stamped, 0).messages)
    assert wrapper.attributes == Codec.GZIP


def test_control_batches_emptied_batches_and_a_cut_end_are_left_out():
    marker = end_transaction_batch(EndTransactionMarker(False, 1), 1, 1, 1)
    data = marker + batch_of(RECORDS) + BatchBuilder(base_offset=9).build() + marker[:-1]
    assert down_convert(data, 1).messages == message_set(RECORDS, 1)


def test_what_is_old_already_is_kept_and_magic_1_becomes_0_where_asked():
    old = message_set(RECORDS, 1, Codec.GZIP)
    older = message_set(RECORDS, 0)
    assert down_convert(old + older, 1).messages == old + older
    (wrapper, *rest) = iter_messages(down_convert(old + older, 0).messages)
    assert wrapper.codec is Codec.GZIP
    assert unwrapped(wrapper) == timeless(RECORDS)
    assert {each.magic for each in (wrapper, *rest)} == {0}


def test_conversion_stops_at_its_limit_and_says_how_far_it_came():
    first, second = batch_of(RECORDS, Codec.GZIP), batch_of(shifted(RECORDS, 9), Codec.GZIP)
    converted = down_convert(first + second, 1, limit=1)
    assert converted.messages == message_set(RECORDS, 1, Codec.GZIP)
    assert converted.consumed == len(first)
    assert converted.inflated > 100_000
    assert down_convert(first + second, 1).consumed == len(first + second)


def test_conversion_says_how_much_it_needs_of_a_first_batch_that_is_cut():
    batch = batch_of(RECORDS)
    assert down_convert(batch[:-1], 1) == (b"", 0, 0, len(batch))
    assert down_convert(batch[:16], 1) == (b"", 0, 0, 0)
    assert down_convert(batch + batch[:-1], 1)[1:] == (len(batch), len(batch), 0)


def test_conversion_stops_before_what_it_cannot_convert():
    batch = batch_of(RECORDS)
    for bad in (batch_of(RECORDS, Codec.ZSTD), bytes(100)):
        assert down_convert(batch + bad, 1).consumed == len(batch)


def test_zstd_has_no_old_form_and_the_client_is_told():
    with pytest.raises(ApiError) as caught:
        down_convert(batch_of(RECORDS, Codec.ZSTD), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_that_rotted_on_disk_is_not_given_a_fresh_checksum():
    rotten = bytearray(batch_of(RECORDS))
    rotten[-2] ^= 1
    with pytest.raises(CorruptRecords, match="checksum"):
        down_convert(rotten, 1)


@pytest.mark.parametrize(("oracle", "source"), BATCH_CASES)
@pytest.mark.parametrize("target", Codec)
def test_recompression_changes_the_codec_and_nothing_else(oracle, source, target):
    records = [record._replace(headers=(("h", None),)) for record in RECORDS]
    before = oracle.build(records, source, transactional=True)
    after = recompress(memoryview(before), target)
    old, new = parse_header(before), parse_header(after)
    assert crc_ok(after, 0, len(after))
    assert new.codec is target
    assert list(read_records(after)) == records
    assert new._replace(length=0, crc=0, attributes=0) == old._replace(
        length=0, crc=0, attributes=0
    )
    assert new.transactional


def test_recompression_keeps_append_time_and_gaps():
    batch = batch_of(shifted(RECORDS, 40), Codec.LZ4)
    stamped = b"".join(with_append_time(parse_header(batch), batch, 5_000)[1])
    again = recompress(stamped, Codec.ZSTD, 5)
    assert list(read_records(again)) == list(read_records(stamped))
    assert parse_header(again).append_time


def test_recompression_refuses_records_that_lie():
    batch = bytearray(batch_of(RECORDS))
    struct.pack_into(">i", batch, 57, 3)
    with pytest.raises(CorruptRecords):
        recompress(batch, Codec.GZIP)


def test_the_work_can_be_sent_to_another_process():
    for work in (recompress, up_convert, down_convert):
        assert pickle.loads(pickle.dumps(work)) is work
