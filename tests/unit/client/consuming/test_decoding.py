"""Fetch answers become records: those that were asked for, each once, and no others."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

from kits.consumer_kit import PARTITION, batch, fetched, marker, ready, take_all
from moldau.base.errors import CorruptRecords
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.errors import CorruptAnswer, SerializationFailed
from moldau.client.records import Record, TimestampType
from moldau.client.serdes import deserialize_with
from moldau.engine.arrow_batches import ArrowForm
from moldau.engine.fetched_batches import split
from moldau.records.batch import TimestampType as StoredTimestampType
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import message_set
from moldau.records.record import Record as StoredRecord

COMMITTED = DecodingRules(committed_only=True)


def values(records):
    return [record.value for record in records]


def test_a_record_has_everything_the_batch_tells_of_it():
    builder = BatchBuilder(base_offset=7, leader_epoch=3)
    builder.append(1234, b"key", b"value", [("h", b"1"), ("h", None)])
    (record,) = take_all(fetched(builder.build(), 7))
    headers = (("h", b"1"), ("h", None))
    expected = Record(
        "t", 0, 7, 1234, TimestampType.CREATE_TIME, b"key", b"value", headers, leader_epoch=3
    )
    assert record == expected


def test_the_leaders_time_is_named_as_such():
    content = batch(0, [b"a"], timestamp_type=StoredTimestampType.LOG_APPEND_TIME)
    (record,) = take_all(fetched(content))
    assert record.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_records_below_the_position_are_left_out():
    answer = fetched(batch(10, [b"a", b"b", b"c", b"d"]), 12)
    assert [record.offset for record in take_all(answer)] == [12, 13]
    assert answer.next_offset == 14


def test_a_batch_below_the_position_moves_nothing_back():
    answer = fetched(batch(0, [b"a"]) + batch(1, [b"b"]), 1)
    assert values(take_all(answer)) == [b"b"]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 100])
def test_any_number_may_be_taken_at_a_time(count):
    content = batch(0, [b"%d" % i for i in range(5)]) + batch(5, [b"%d" % i for i in range(5, 9)])
    assert values(take_all(fetched(content), count)) == [b"%d" % i for i in range(9)]


def test_positions_follow_what_was_taken():
    answer = fetched(batch(0, [b"a", b"b", b"c"]))
    assert answer.take(2).next_offset == 2
    assert answer.take(2).next_offset == 3
    assert answer.take(2) is None


def test_a_position_passes_what_compaction_took_from_the_end_of_a_batch():
    builder = BatchBuilder(base_offset=0, leader_epoch=0)
    builder.append(0, b"k", b"v", offset_delta=2)
    holed = bytearray(builder.build())
    holed[23:27] = (9).to_bytes(4, "big")  # the last offset delta a compacted batch keeps
    answer = fetched(bytes(holed), rules=DecodingRules(check_crcs=False))
    assert answer.take(10).next_offset == 10


def test_an_emptied_batch_is_passed_over():
    empty = bytearray(BatchBuilder(base_offset=0).build())
    empty[23:27] = (4).to_bytes(4, "big")
    unchecked = DecodingRules(check_crcs=False)
    assert fetched(bytes(empty), rules=unchecked).take(10)[:2] == ([], 5)
    (record,) = take_all(fetched(bytes(empty) + batch(5, [b"a"]), rules=unchecked))
    assert record.offset == 5


def test_a_cut_batch_is_left_for_the_next_fetch():
    content = batch(0, [b"a"]) + batch(1, [b"b"])[:-1]
    found = split(memoryview(content), 0)
    assert (found.next_offset, found.size) == (1, len(batch(0, [b"a"])))


def test_nothing_whole_is_no_progress():
    assert split(memoryview(batch(3, [b"abc"])[:40]), 3).next_offset == 3


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec):
    assert values(take_all(fetched(batch(0, [b"a" * 100, None], codec=codec)))) == [
        b"a" * 100,
        None,
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_of_old_formats_are_read(magic, codec):
    stored = [StoredRecord(offset, 9, b"k", b"v%d" % offset) for offset in (4, 5, 6)]
    answer = fetched(message_set(stored, magic, codec), 5)
    taken = take_all(answer)
    assert [(record.offset, record.value) for record in taken] == [(5, b"v5"), (6, b"v6")]
    expected = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP
    assert {record.timestamp_type for record in taken} == {expected}
    assert {record.leader_epoch for record in taken} == {None}
    assert answer.next_offset == 7


def test_control_batches_are_hidden_whatever_is_read():
    content = batch(0, [b"a"]) + marker(1, 9, aborted=False) + batch(2, [b"b"])
    for rules in (DecodingRules(), COMMITTED):
        assert values(take_all(fetched(content, rules=rules))) == [b"a", b"b"]


def test_aborted_transactions_are_hidden_from_who_reads_committed():
    def of(producer_id, offset, value):
        return batch(offset, [value], producer_id=producer_id, transactional=True)

    content = b"".join(
        [
            of(1, 0, b"aborted"),
            of(2, 1, b"kept"),
            batch(2, [b"plain"], producer_id=1),
            of(1, 3, b"aborted too"),
            marker(4, 1, aborted=True),
            of(1, 5, b"kept again"),
            marker(6, 2, aborted=False),
            of(1, 7, b"aborted again"),
            marker(8, 1, aborted=True),
        ]
    )
    aborted = [(1, 7), (1, 0)]  # in any order
    read = take_all(fetched(content, aborted=aborted, rules=COMMITTED))
    assert values(read) == [b"kept", b"plain", b"kept again"]
    assert len(take_all(fetched(content, aborted=aborted))) == 6


def test_a_fetch_that_begins_inside_an_aborted_transaction_hides_its_rest():
    content = batch(5, [b"x", b"y"], producer_id=1, transactional=True)
    assert take_all(fetched(content, 6, aborted=[(1, 0)], rules=COMMITTED)) == []


def test_a_broken_checksum_is_raised_after_the_good_records_and_again():
    broken = bytearray(batch(1, [b"b"]))
    broken[-2] ^= 1
    answer = fetched(batch(0, [b"a"]) + bytes(broken))
    assert answer.take(10)[0:2] == ([ANY], 1)
    for _ in range(2):
        with pytest.raises(CorruptAnswer, match=r"t-0 cannot be read at offset 1.*checksum.*Seek"):
            answer.take(10)


def test_checksums_may_be_left_unchecked():
    broken = bytearray(batch(0, [b"b"]))
    broken[-2] ^= 1
    assert len(take_all(fetched(bytes(broken), rules=DecodingRules(check_crcs=False)))) == 1


def test_good_records_before_bad_bytes_in_one_batch_are_handed_out():
    content = bytearray(batch(0, [b"a", b"b", b"c"]))
    content[-3] = 0xFF  # the last record's value length, or near it
    answer = fetched(bytes(content), rules=DecodingRules(check_crcs=False))
    assert values(answer.take(10).records) == [b"a", b"b"]
    with pytest.raises(CorruptAnswer, match="offset 2"):
        answer.take(10)


@pytest.mark.parametrize("delta", [-1, -(2**31)])
def test_a_batch_that_ends_before_it_begins_is_corrupt(delta):
    content = bytearray(batch(0, [b"a"]))
    content[23:27] = delta.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecords):
        split(memoryview(content), 0)


def test_keys_and_values_are_deserialized():
    rules = DecodingRules(key=deserialize_with(bytes.decode), value=deserialize_with("string"))
    (record, tombstone) = take_all(fetched(batch(0, [b"v", None]), rules=rules))
    assert (record.key, record.value, tombstone.value) == ("k0", "v", None)


def test_what_cannot_be_deserialized_is_raised_after_the_records_before_it():
    rules = DecodingRules(value=deserialize_with(int))
    answer = fetched(batch(3, [b"1", b"2", b"x", b"4"]), 3, rules=rules)
    taken = answer.take(10)
    assert (values(taken.records), taken.next_offset) == ([1, 2], 5)
    for _ in range(2):
        with pytest.raises(SerializationFailed, match=r"t-0 offset 5.*offset 6"):
            answer.take(10)


def test_records_and_record_batches_may_be_taken_in_turn():
    answer = fetched(b"".join(batch(3 * number, [b"%d" % number] * 3) for number in range(4)))
    assert len(answer.take(4).records) == 4
    columns = answer.take_columns(ArrowForm())
    assert columns.batch["offset"].to_pylist() == list(range(4, 12))
    assert answer.next_offset == columns.next_offset == 12
    assert answer.take_columns(ArrowForm()) is None
    assert answer.take(1) is None


def test_records_come_behind_record_batches():
    content = batch(0, [b"a"]) + message_set([StoredRecord(1, 9, b"k", b"v")], 1)
    answer = fetched(content)
    assert answer.take_columns(ArrowForm()).next_offset == 1  # formats are not mixed in one
    assert values(take_all(answer)) == [b"v"]


def test_records_put_back_come_again_first():
    answer = fetched(batch(0, [b"a", b"b", b"c"]) + batch(3, [b"d"]))
    taken = answer.take(3)
    answer.put_back(taken._replace(records=taken.records[1:]))
    assert answer.next_offset == 1
    assert values(answer.take(1).records) == [b"b"]
    assert values(take_all(answer)) == [b"c", b"d"]


def test_records_put_back_twice_keep_their_order():
    answer = fetched(batch(0, [b"a", b"b", b"c"]))
    answer.put_back(answer.take(3))
    answer.put_back(answer.take(1))
    assert values(take_all(answer)) == [b"a", b"b", b"c"]
    assert answer.next_offset == 3


def test_records_put_back_keep_the_epoch_of_their_own_leader():
    answer = fetched(batch(0, [b"a", b"b"], epoch=3) + batch(2, [b"c"], epoch=4))
    answer.put_back(answer.take(3))
    assert answer.take(1)[1:] == (1, 3)
    assert answer.take(2)[1:] == (3, 4)


def test_an_answer_is_stale_once_its_partition_has_moved():
    state = ready()
    answer = fetched(batch(0, [b"a"]), state=state)
    assert not answer.stale
    state.seek(0)
    assert answer.stale
    assert answer.partition == PARTITION
