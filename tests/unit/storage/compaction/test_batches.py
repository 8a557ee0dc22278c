"""What stays of one batch, byte for byte where nothing had to change."""

from __future__ import annotations

import pytest

from kits.compaction_kit import keyed_batch
from kits.log_kit import NOW_MS, marker
from moldau.base.errors import CorruptRecords
from moldau.records.batch import APPEND_TIME_BIT, crc_ok, parse_header, with_append_time
from moldau.records.compression import Codec
from moldau.records.record import read_records
from moldau.storage.compaction.batches import Source, clean_control, clean_data, emptied

RETENTION_MS = 5000
PAIRS = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]
CODECS = list(Codec)


def source_of(batch: bytes, before: bytes = b"") -> Source:
    return Source(before + batch, len(before), parse_header(batch))


def cleaned(batch: bytes, newest: dict[bytes, int], now_ms: int = NOW_MS):
    kept = clean_data(source_of(batch, b"others"), newest, now_ms, RETENTION_MS)
    if kept is not None:
        assert kept.header == parse_header(kept.content)
        assert crc_ok(kept.content, 0, len(kept.content))
    return kept


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_which_nothing_goes_stays_byte_for_byte(codec):
    batch = keyed_batch(PAIRS, codec=codec)
    assert cleaned(batch, {}).content == batch
    assert cleaned(batch, {b"b": 1, b"c": 3}).content == batch


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_stay_are_what_they_were(codec):
    stamps = [NOW_MS + 500, NOW_MS - 3, NOW_MS + 7, NOW_MS]
    batch = keyed_batch(PAIRS, codec=codec, timestamps=stamps, producer=(4, 1, 77))
    kept = cleaned(batch, {b"a": 2, b"c": 9})
    before = list(read_records(batch))
    assert list(read_records(kept.content)) == [before[1], before[2]]
    old, new = parse_header(batch), kept.header
    assert new.count == kept.record_count == 2
    assert new.max_timestamp == NOW_MS + 7
    assert new.codec is codec
    same = ("base_offset", "last_offset_delta", "base_timestamp", "producer_id", "base_sequence")
    assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]


def test_nothing_stays_of_a_batch_whose_keys_were_all_written_again():
    assert cleaned(keyed_batch(PAIRS), {b"a": 7, b"b": 8, b"c": 9}) is None


def test_a_record_without_a_key_goes():
    kept = cleaned(keyed_batch([(None, b"1"), (b"b", b"2")]), {})
    assert [record.key for record in read_records(kept.content)] == [b"b"]
    assert cleaned(keyed_batch([(None, b"1")]), {}) is None


def test_the_time_of_appending_stays_when_records_go():
    batch = keyed_batch(PAIRS)
    _, parts = with_append_time(parse_header(batch), batch, NOW_MS + 9)
    kept = cleaned(b"".join(parts), {b"a": 2, b"c": 9})
    assert kept.header.max_timestamp == NOW_MS + 9
    assert kept.header.attributes & APPEND_TIME_BIT
    assert {record.timestamp for record in read_records(kept.content)} == {NOW_MS + 9}


class TestTombstones:
    BATCH = keyed_batch(
        [(b"a", b"1"), (b"b", None), (b"c", b"2")],
        timestamps=[NOW_MS + 5, NOW_MS - 100, NOW_MS + 1],
    )

    @pytest.mark.parametrize("codec", CODECS)
    def test_the_first_cleaning_sets_how_long_they_stay(self, codec):
        batch = keyed_batch([(b"a", b"1"), (b"b", None)], codec=codec, timestamps=[NOW_MS, 3])
        kept = cleaned(batch, {})
        assert kept.header.has_delete_horizon
        assert kept.header.base_timestamp == NOW_MS + RETENTION_MS
        assert list(read_records(kept.content)) == list(read_records(batch))
        assert kept.header.max_timestamp == NOW_MS

    def test_the_horizon_is_set_once(self):
        once = cleaned(self.BATCH, {}).content
        assert cleaned(once, {}, NOW_MS + RETENTION_MS - 1).content == once

    def test_they_go_when_it_has_passed(self):
        once = cleaned(self.BATCH, {}).content
        kept = cleaned(once, {}, NOW_MS + RETENTION_MS)
        assert [r.key for r in read_records(kept.content)] == [b"a", b"c"]
        assert kept.header.base_timestamp == NOW_MS + RETENTION_MS

    def test_one_that_was_written_again_goes_at_once(self):
        kept = cleaned(self.BATCH, {b"b": 10})
        assert [r.key for r in read_records(kept.content)] == [b"a", b"c"]
        assert not kept.header.has_delete_horizon


class TestMarkers:
    BATCH = marker(7, 3, aborted=False)[0]

    def clean(self, batch: bytes, now_ms: int = NOW_MS, *, discardable: bool):
        return clean_control(source_of(batch), now_ms, RETENTION_MS, discardable=discardable)

    def test_one_whose_records_are_there_stays_as_it_is(self):
        assert self.clean(self.BATCH, discardable=False).content == self.BATCH

    def test_one_whose_records_are_gone_gets_a_horizon_and_goes_then(self):
        kept = self.clean(self.BATCH, discardable=True)
        assert kept.header.base_timestamp == NOW_MS + RETENTION_MS
        assert list(read_records(kept.content)) == list(read_records(self.BATCH))
        again = self.clean(kept.content, NOW_MS + RETENTION_MS - 1, discardable=True)
        assert again.content == kept.content
        assert self.clean(kept.content, NOW_MS + RETENTION_MS, discardable=True) is None

    def test_an_empty_one_goes(self):
        empty = emptied(source_of(self.BATCH)).content
        assert self.clean(empty, discardable=True) is None


@pytest.mark.parametrize("codec", CODECS)
def test_an_emptied_batch_keeps_what_producers_and_offsets_need(codec):
    batch = keyed_batch(PAIRS, codec=codec, producer=(4, 1, 77), transactional=True)
    kept = emptied(source_of(batch, b"others"))
    old, new = parse_header(batch), parse_header(kept.content)
    assert kept.header == new
    assert crc_ok(kept.content, 0, len(kept.content))
    assert list(read_records(kept.content)) == []
    assert (new.count, new.codec, new.base_timestamp) == (0, Codec.NONE, -1)
    assert (new.last_offset, new.last_sequence) == (old.last_offset, old.last_sequence)
    assert (new.producer_epoch, new.transactional) == (1, True)
    assert new.max_timestamp == old.max_timestamp


def test_a_wrong_checksum_is_not_made_right():
    batch = bytearray(keyed_batch(PAIRS))
    batch[-2] ^= 1
    with pytest.raises(CorruptRecords, match="CRC"):
        cleaned(bytes(batch), {b"a": 2})


def test_records_that_end_too_soon_are_corrupt():
    batch = keyed_batch(PAIRS)
    header = parse_header(batch)._replace(count=5)
    with pytest.raises(CorruptRecords, match="are cut"):
        clean_data(Source(batch, 0, header), {}, NOW_MS, RETENTION_MS)
