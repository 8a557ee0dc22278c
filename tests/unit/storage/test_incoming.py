"""What a leader takes, what it refuses and with which error, and what it changes first."""

import dataclasses
import pickle

import pytest
from crc32c import crc32c

from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records import conversion, record
from moldau.records.batch import BatchHeader, crc_ok, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.records.legacy import message_set
from moldau.records.record import Record, read_records
from moldau.storage.incoming import RECORDS_LOOKED_AT_HERE, Incoming, Rework, examine, rework
from moldau.storage.record_checks import NAMED_MAX, RecordsRefused
from moldau.storage.topic_config import LogConfig

NOW = 1_700_000_000_000
PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")


def batch(codec=Codec.NONE, keys=(b"k1", b"k2"), time=NOW, **settings):
    builder = BatchBuilder(codec, **settings)
    for number, key in enumerate(keys):
        builder.append(time + number, key, b"value" * 20)
    return builder.build()


def changed(content, **fields):
    """Return the batch with other header fields, sealed again."""
    header = parse_header(content)._replace(**fields)
    return pack_batch(header, content[61:])


def refusal(content, config=PLAIN, version=9, now=NOW):
    with pytest.raises(ApiError) as caught:
        examine(content, config, now, version)
    return caught.value.code


def reworked(content, config, version=9):
    task = examine(memoryview(content), config, NOW, version)
    assert isinstance(task, Rework)
    return rework(bytes(content), pickle.loads(pickle.dumps(task)))


class TestInPlace:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_a_good_batch_is_taken_as_it_is(self, codec):
        view = memoryview(batch(codec))
        incoming = examine(view, PLAIN, NOW, 9)
        assert isinstance(incoming, Incoming)
        assert incoming.batch is view
        assert incoming.header == parse_header(view)

    @pytest.mark.parametrize("version", [3, 12])
    def test_an_idempotent_and_a_transactional_batch_are_taken(self, version):
        numbered = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        examine(batch(**numbered), PLAIN, NOW, version)
        examine(batch(**numbered, transactional=True), PLAIN, NOW, version)

    def test_a_batch_may_be_as_large_as_the_topic_allows(self):
        content = batch()
        config = LogConfig(max_message_bytes=len(content))
        assert examine(content, config, NOW, 9).batch is content

    def test_the_codec_the_topic_asks_for_stays(self):
        content = batch(Codec.LZ4)
        assert examine(content, LogConfig(compression_type="lz4"), NOW, 9).batch is content
        plain = batch()
        assert examine(plain, LogConfig(compression_type="uncompressed"), NOW, 9).batch is plain


class TestRefusals:
    @pytest.mark.parametrize("nothing", [None, b"", memoryview(b"")])
    @pytest.mark.parametrize("version", [2, 9])
    def test_no_records(self, nothing, version):
        assert refusal(nothing, version=version) is ErrorCode.INVALID_RECORD

    def test_two_batches(self):
        assert refusal(batch() + batch()) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, 100])
    def test_a_cut_batch_is_no_batch(self, cut):
        assert refusal(batch()[:cut]) is ErrorCode.INVALID_RECORD

    def test_a_batch_that_does_not_count_from_zero(self):
        assert refusal(changed(batch(), base_offset=7)) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("length", [-1, 0, 48])
    def test_an_impossible_length(self, length):
        content = bytearray(batch())
        content[8:12] = length.to_bytes(4, "big", signed=True)
        assert refusal(content) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("position", [17, 21, 40, 61, -1])
    def test_a_flipped_bit(self, position):
        content = bytearray(batch())
        content[position] ^= 1
        assert refusal(content) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("fields", [{"count": 0, "last_offset_delta": -1}, {"count": 3}])
    def test_a_count_that_is_none(self, fields):
        assert refusal(changed(batch(), **fields)) is ErrorCode.INVALID_RECORD

    def test_control_records_from_a_client(self):
        marker = end_transaction_batch(
            EndTransactionMarker(aborted=True, coordinator_epoch=0), 1, 0, NOW
        )
        assert refusal(marker) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize(
        "fields",
        [
            {"producer_id": 1, "producer_epoch": 0, "base_sequence": -1},
            {"producer_id": 1, "producer_epoch": -1, "base_sequence": 0},
            {"attributes": 0x10},
        ],
    )
    def test_a_producer_that_contradicts_itself(self, fields):
        assert refusal(changed(batch(), **fields)) is ErrorCode.INVALID_RECORD

    def test_more_bytes_than_the_topic_allows(self):
        config = LogConfig(max_message_bytes=len(batch()) - 1)
        assert refusal(batch(), config) is ErrorCode.MESSAGE_TOO_LARGE

    @pytest.mark.parametrize("codec", [5, 7])
    def test_a_codec_that_is_none(self, codec):
        content = changed(batch(), attributes=codec)
        assert refusal(content) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def test_zstd_from_a_client_too_old_for_it(self):
        content = batch(Codec.ZSTD)
        assert refusal(content, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert examine(content, PLAIN, NOW, 7).batch is content

    def test_the_leaders_time_set_by_a_client(self):
        assert refusal(changed(batch(), attributes=8)) is ErrorCode.INVALID_TIMESTAMP

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_messages_in_a_new_request(self, magic):
        messages = message_set([Record(0, NOW, b"k", b"v")], magic)
        assert refusal(messages, version=3) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("version", [2, 9])
    def test_a_magic_of_the_future(self, version):
        content = bytearray(batch())
        content[16] = 3
        assert refusal(content, version=version) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("version", [2, 9])
    def test_bytes_that_begin_nothing(self, version):
        assert refusal(bytes(80), version=version) is ErrorCode.CORRUPT_MESSAGE


class TestTimestamps:
    CONFIG = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=100)

    @pytest.mark.parametrize("time", [NOW - 1000, NOW, NOW + 100])
    def test_within_the_window(self, time):
        content = batch(time=time, keys=[b"k"])
        assert examine(content, self.CONFIG, NOW, 9).batch is content

    @pytest.mark.parametrize("time", [0, NOW - 1001, NOW + 101])
    def test_outside_of_the_window(self, time):
        assert refusal(batch(time=time, keys=[b"k"]), self.CONFIG) is ErrorCode.INVALID_TIMESTAMP

    def test_the_newest_record_counts_as_well_as_the_first(self):
        content = changed(batch(), max_timestamp=NOW + 101)
        assert refusal(content, self.CONFIG) is ErrorCode.INVALID_TIMESTAMP

    @pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
    @pytest.mark.parametrize("config", [CONFIG, COMPACTED])
    def test_the_ends_of_time_are_refused_as_times(self, time, config):
        content = changed(batch(keys=[b"k"]), base_timestamp=time, max_timestamp=time)
        assert refusal(content, config) is ErrorCode.INVALID_TIMESTAMP

    def test_an_hour_ahead_is_the_default_and_the_past_is_open(self):
        assert refusal(batch(time=NOW + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP
        examine(batch(time=0), PLAIN, NOW, 9)

    def test_no_timestamp_is_no_time_outside(self):
        content = batch(time=-1, keys=[b"k"])
        assert examine(content, self.CONFIG, NOW, 9).batch is content

    def test_the_leaders_time_knows_no_window(self):
        config = dataclasses.replace(self.CONFIG, message_timestamp_type="LogAppendTime")
        assert examine(batch(time=5), config, NOW, 9).header.max_timestamp == NOW


class TestNaming:
    """KIP-467: the records that make a leader refuse a batch are named."""

    WINDOW = TestTimestamps.CONFIG

    @pytest.mark.parametrize("codec", list(Codec))
    def test_records_without_a_key(self, codec):
        keys = [None if number % 10 == 0 else b"k" for number in range(100)]
        refused = self.refused(batch(codec, keys=keys), COMPACTED).in_partition("t-3")
        why = "Compacted topic cannot accept message without key in topic partition t-3"
        assert refused.code is ErrorCode.INVALID_RECORD
        assert refused.bad == tuple((number, why) for number in range(0, 100, 10))
        assert refused.message == (
            "One or more records have been rejected due to 10 record errors in total, and only"
            " showing the first three errors at most: "
            f"[RecordError(batchIndex=0, message='{why}'),"
            f" RecordError(batchIndex=10, message='{why}'),"
            f" RecordError(batchIndex=20, message='{why}')]"
        )

    def test_a_few_records_on_the_spot(self):
        with pytest.raises(RecordsRefused) as caught:
            examine(batch(keys=[b"k", None]), COMPACTED, NOW, 9)
        assert [one.batch_index for one in caught.value.bad] == [1]

    @pytest.mark.parametrize("count", [2, 50])
    def test_records_with_a_wrong_time(self, count):
        refused = self.refused(batch(time=NOW + 101 - (count - 2), keys=[b"k"] * count))
        assert refused.code is ErrorCode.INVALID_TIMESTAMP
        assert refused.message.endswith("rejected due to invalid timestamp")
        for number, (index, why) in enumerate(refused.bad, start=count - 2):
            assert index == number
            assert why == (
                f"Timestamp {NOW + 103 - count + number} of message with offset {number} is out of"
                f" range. The timestamp should be within [{NOW - 1000}, {NOW + 100}]"
            )
        assert len(refused.bad) == 2

    def test_a_wrong_time_decides_the_code(self):
        config = dataclasses.replace(COMPACTED, message_timestamp_after_max_ms=100)
        refused = self.refused(batch(time=NOW + 100, keys=[None, b"k"]), config)
        assert refused.code is ErrorCode.INVALID_TIMESTAMP
        assert len(refused.bad) == 2

    def test_a_record_in_between_is_found_in_a_compacted_topic(self):
        builder = BatchBuilder(Codec.NONE)
        for time in (NOW, NOW - 1001, NOW + 5):
            builder.append(time, b"k", b"v")
        config = dataclasses.replace(self.WINDOW, cleanup_policy=frozenset({"compact"}))
        assert [one.batch_index for one in self.refused(builder.build(), config).bad] == [1]

    def test_no_more_than_a_thousand_are_named_and_all_are_counted(self):
        refused = self.refused(batch(Codec.GZIP, keys=[None] * (NAMED_MAX + 1)), COMPACTED)
        assert (len(refused.bad), refused.count) == (NAMED_MAX, NAMED_MAX + 1)

    def refused(self, content, config=WINDOW):
        """Examine a batch here, or elsewhere where that is asked for."""
        with pytest.raises(RecordsRefused) as caught:
            rework(bytes(content), examine(content, config, NOW, 9))
        return pickle.loads(pickle.dumps(caught.value))


class TestAppendTime:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_only_the_header_changes(self, codec):
        content = batch(codec, time=NOW - 5000)
        header, stamped = examine(memoryview(content), APPEND_TIME, NOW, 9)
        assert stamped[61:] == content[61:]
        assert header == parse_header(stamped)
        assert header.append_time
        assert crc_ok(stamped, 0, len(stamped))
        assert [record.timestamp for record in read_records(stamped)] == [NOW, NOW]
        assert header == parse_header(content)._replace(
            attributes=header.attributes, max_timestamp=NOW, crc=crc32c(stamped[21:])
        )


class TestRework:
    @pytest.mark.parametrize("sent", list(Codec))
    @pytest.mark.parametrize("wanted", list(Codec))
    def test_the_topics_codec_is_put_in_place(self, sent, wanted):
        if sent is wanted:
            return
        name = "uncompressed" if wanted is Codec.NONE else wanted.label
        numbered = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 4}
        content = batch(sent, **numbered)
        incoming = reworked(content, LogConfig(compression_type=name))
        assert incoming.header == parse_header(incoming.batch)
        assert incoming.header.codec is wanted
        assert incoming.header[7:] == parse_header(content)[7:]
        assert list(read_records(incoming.batch)) == list(read_records(content))

    def test_many_keys_are_asked_for_elsewhere_in_a_compacted_topic(self):
        many = [b"k"] * (RECORDS_LOOKED_AT_HERE + 1)
        content = batch(keys=many)
        assert reworked(content, COMPACTED).batch == content
        with pytest.raises(ApiError) as caught:
            reworked(batch(keys=[*many, None]), COMPACTED)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_a_batch_with_too_many_records_to_work_on_is_too_large(self, monkeypatch):
        monkeypatch.setattr(record, "RECORDS_PER_BATCH", 1)
        two = [b"a", b"b"]
        examine(batch(Codec.GZIP, keys=two), PLAIN, NOW, 9)
        for config in (COMPACTED, LogConfig(compression_type="lz4")):
            assert refusal(batch(Codec.GZIP, keys=two), config) is ErrorCode.MESSAGE_TOO_LARGE

    @pytest.mark.parametrize("wrapper_count", [1, 2])
    def test_so_are_old_messages(self, monkeypatch, wrapper_count):
        monkeypatch.setattr(conversion, "RECORDS_PER_BATCH", 3)
        records = [Record(n, NOW, b"k", b"v") for n in range(4 // wrapper_count)]
        messages = message_set(records, 1, Codec.GZIP) * wrapper_count
        with pytest.raises(ApiError) as caught:
            reworked(messages, PLAIN, version=2)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_few_keys_are_asked_for_on_the_spot(self):
        content = batch(keys=[b"k"] * RECORDS_LOOKED_AT_HERE)
        examined = examine(content, COMPACTED, NOW, 9)
        assert isinstance(examined, Incoming)
        assert examined.batch == content
        for keys in ([None], [b"k", None]):
            assert refusal(batch(keys=keys), COMPACTED) is ErrorCode.INVALID_RECORD

    def test_few_keys_behind_a_codec_are_asked_for_elsewhere(self):
        content = batch(Codec.GZIP)
        assert reworked(content, COMPACTED).batch == content

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    def test_old_messages_become_one_batch(self, magic, codec):
        records = [Record(n, NOW + n if magic else -1, b"k%d" % n, b"v") for n in range(3)]
        messages = message_set(records, magic, codec)
        incoming = reworked(messages, PLAIN, version=2)
        assert incoming.header.codec is codec
        assert list(read_records(incoming.batch)) == records
        assert crc_ok(incoming.batch, 0, incoming.header.size)

    def test_converted_records_get_the_leaders_time_and_the_topics_codec(self):
        config = LogConfig(message_timestamp_type="LogAppendTime", compression_type="zstd")
        messages = message_set([Record(0, 5, b"k", b"v")], 1)
        incoming = reworked(messages, config, version=2)
        assert incoming.header.codec is Codec.ZSTD
        assert [record.timestamp for record in read_records(incoming.batch)] == [NOW]

    @pytest.mark.parametrize(
        ("messages", "config", "code"),
        [
            (message_set([Record(0, 5, b"k", b"v")], 1)[:-1], PLAIN, ErrorCode.CORRUPT_MESSAGE),
            (
                message_set([Record(0, NOW + 10**9, b"k", b"v")], 1),
                PLAIN,
                ErrorCode.INVALID_TIMESTAMP,
            ),
            (message_set([Record(0, NOW, None, b"v")], 1), COMPACTED, ErrorCode.INVALID_RECORD),
            (
                message_set([Record(0, NOW, None, b"v" * 20)], 0),
                LogConfig(max_message_bytes=64),
                ErrorCode.MESSAGE_TOO_LARGE,
            ),
        ],
    )
    def test_old_messages_are_refused_like_new_ones(self, messages, config, code):
        with pytest.raises(ApiError) as caught:
            reworked(messages, config, version=2)
        assert caught.value.code is code

    def test_a_payload_that_is_not_what_its_codec_says_is_the_producers_fault(self):
        """Its checksum was right, so sending it again, as CORRUPT_MESSAGE asks for, is no use."""
        content = changed(batch(), attributes=int(Codec.GZIP))
        with pytest.raises(ApiError) as caught:
            reworked(content, LogConfig(compression_type="zstd"))
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_a_batch_that_grows_beyond_the_limit_is_refused(self):
        content = batch(Codec.GZIP, keys=[b"k"] * 50)
        config = LogConfig(compression_type="uncompressed", max_message_bytes=len(content) + 10)
        with pytest.raises(ApiError) as caught:
            reworked(content, config)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_the_work_the_answer_and_the_refusal_cross_to_another_process(self):
        content = batch(Codec.GZIP)
        incoming = reworked(content, LogConfig(compression_type="lz4"))
        again = pickle.loads(pickle.dumps(incoming))
        assert again == incoming
        assert isinstance(again.header, BatchHeader)
        with pytest.raises(ApiError) as caught:
            rework(batch(keys=[None]), Rework(COMPACTED, NOW))
        refused = pickle.loads(pickle.dumps(caught.value))
        assert (refused.code, str(refused)) == (ErrorCode.INVALID_RECORD, str(caught.value))
