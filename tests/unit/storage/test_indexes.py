from __future__ import annotations

from struct import pack

import pytest

from moldau.base.errors import CorruptRecords
from moldau.storage.indexes import (
    AbortedIndex,
    AbortedTransaction,
    IndexCache,
    IndexPair,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    decode_aborted,
    encode_aborted,
)

LOG_SIZE = 1 << 30


def offset_index(*entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(base)
    for entry in entries:
        index.append(*entry)
    return index


def time_index(*entries: tuple[int, int], base: int = 100) -> TimeIndex:
    index = TimeIndex(base)
    for entry in entries:
        index.append_if_larger(*entry)
    return index


class TestOffsetIndex:
    def test_entries_are_eight_bytes_of_relative_offset_and_position(self):
        index = offset_index((103, 348), (108, 1325))
        assert index.encode() == pack(">iiii", 3, 348, 8, 1325)
        assert index.encode(1) == pack(">ii", 8, 1325)
        assert index.size == 16

    def test_decoding_gives_the_same_entries_back(self):
        index = offset_index((103, 348), (108, 1325))
        again = OffsetIndex.decode(100, index.encode(), LOG_SIZE)
        assert [again[0], again[1]] == [OffsetEntry(103, 348), OffsetEntry(108, 1325)]

    @pytest.mark.parametrize(
        ("offset", "entry"),
        [
            (100, (100, 0)),
            (102, (100, 0)),
            (103, (103, 348)),
            (107, (103, 348)),
            (108, (108, 1325)),
            (99, (100, 0)),
            (10**12, (108, 1325)),
        ],
    )
    def test_floor_is_the_last_entry_not_above_the_offset(self, offset, entry):
        assert offset_index((103, 348), (108, 1325)).floor(offset) == entry

    def test_floor_of_an_empty_index_is_the_segments_start(self):
        assert offset_index().floor(500) == (100, 0)

    def test_truncating_drops_entries_at_or_above_the_offset(self):
        index = offset_index((103, 348), (108, 1325), (110, 2000))
        index.truncate_to(108)
        assert len(index) == 1
        assert index.last_position == 348

    def test_ceiling_names_an_offset_behind_a_position(self):
        index = offset_index((103, 348), (108, 1325))
        assert [index.ceiling(p) for p in (0, 348, 349, 1326)] == [103, 103, 108, None]

    def test_the_largest_relative_offset_and_position_fit(self):
        index = offset_index((2**31 - 1, 2**31 - 2), base=0)
        again = OffsetIndex.decode(0, index.encode(), 2**31 - 1)
        assert again[0] == (2**31 - 1, 2**31 - 2)

    @pytest.mark.parametrize(
        "content",
        [
            b"\0" * 7,
            pack(">ii", 5, LOG_SIZE),
            pack(">ii", -1, 0),
            pack(">iiii", 5, 100, 0, 0),
            pack(">iiii", 5, 100, 6, 100),
            pack(">iiii", 5, 100, 5, 200),
        ],
        ids=[
            "half entry",
            "behind the log",
            "negative",
            "zero tail",
            "same position",
            "same offset",
        ],
    )
    def test_what_cannot_be_an_index_is_refused(self, content):
        with pytest.raises(CorruptRecords):
            OffsetIndex.decode(100, content, LOG_SIZE)


class TestTimeIndex:
    def test_entries_are_twelve_bytes_of_timestamp_and_relative_offset(self):
        assert time_index((1000, 103), (2000, 108)).encode() == pack(">qiqi", 1000, 3, 2000, 8)

    def test_only_a_larger_timestamp_makes_an_entry(self):
        index = time_index((1000, 103), (1000, 104), (900, 105), (1001, 106))
        assert [index[0], index[1]] == [TimeEntry(1000, 103), TimeEntry(1001, 106)]
        assert len(index) == 2

    def test_no_timestamp_makes_no_entry(self):
        assert len(time_index((-1, 103))) == 0

    @pytest.mark.parametrize(
        ("timestamp", "entry"),
        [(999, (-1, 100)), (1000, (1000, 103)), (1500, (1000, 103)), (9999, (2000, 108))],
    )
    def test_floor_is_the_last_entry_not_above_the_timestamp(self, timestamp, entry):
        assert time_index((1000, 103), (2000, 108)).floor(timestamp) == entry

    def test_truncating_drops_entries_at_or_above_the_offset_and_finds_the_last_again(self):
        index = time_index((1000, 103), (2000, 108))
        index.truncate_to(108)
        assert index.last == (1000, 103)
        index.truncate_to(0)
        assert index.last == (-1, 100)

    @pytest.mark.parametrize(
        "content",
        [b"\0" * 13, pack(">qi", -5, 3), pack(">qi", 5, -3), pack(">qiqi", 5, 3, 0, 0)],
        ids=["half entry", "negative time", "negative offset", "zero tail"],
    )
    def test_what_cannot_be_an_index_is_refused(self, content):
        with pytest.raises(CorruptRecords):
            TimeIndex.decode(100, content)


class TestAborted:
    ENTRIES = (AbortedTransaction(7, 10, 20, 21), AbortedTransaction(8, 15, 30, 31))

    def test_entries_are_34_bytes_and_come_back(self):
        content = encode_aborted(self.ENTRIES)
        assert content[:34] == pack(">hqqqq", 0, 7, 10, 20, 21)
        assert tuple(decode_aborted(content)) == self.ENTRIES

    @pytest.mark.parametrize("content", [b"\0" * 33, pack(">hqqqq", 1, 0, 0, 0, 0)])
    def test_what_cannot_be_entries_is_refused(self, content):
        with pytest.raises(CorruptRecords):
            decode_aborted(content)

    def test_an_index_gives_out_what_ends_from_an_offset_on(self):
        index = AbortedIndex.decode(encode_aborted(self.ENTRIES))
        found = {offset: len(list(index.ending_from(offset))) for offset in (0, 20, 21, 30, 31)}
        assert found == {0: 2, 20: 2, 21: 1, 30: 1, 31: 0}
        index.append(AbortedTransaction(9, 31, 40, 41))
        assert [entry.producer_id for entry in index] == [7, 8, 9]

    def test_cutting_takes_what_ends_at_or_behind_the_offset(self):
        index = AbortedIndex.decode(encode_aborted(self.ENTRIES))
        index.truncate_to(31)
        assert len(index) == 2
        index.truncate_to(30)
        assert tuple(index) == self.ENTRIES[:1]
        assert index.encode() == encode_aborted(self.ENTRIES[:1])


class TestIndexCache:
    @staticmethod
    def pair(count: int) -> IndexPair:
        return IndexPair(offset_index(*((n + 101, n) for n in range(count))), TimeIndex(100))

    def test_the_least_recently_used_go_first(self):
        cache = IndexCache(24)
        for name in ("a", "b", "c"):
            cache.put(name, self.pair(1))
        cache.get("a")
        cache.put("d", self.pair(1))
        assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
        assert cache.size == 24

    def test_one_too_large_for_all_is_not_kept(self):
        cache = IndexCache(24)
        cache.put("a", self.pair(1))
        cache.put("huge", self.pair(4))
        assert cache.get("huge") is None
        assert cache.get("a") is not None

    def test_dropping_gives_the_room_back(self):
        cache = IndexCache(24)
        cache.put("a", self.pair(2))
        cache.drop("a")
        assert cache.get("a") is None
        assert cache.size == 0
