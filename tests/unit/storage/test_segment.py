from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from kits.log_kit import NOW_MS, HandClock, make_batch, sized_batch
from moldau.base.errors import StorageError
from moldau.records.batch import parse_header
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.storage import segment_files
from moldau.storage.resources import Resources
from moldau.storage.segment import HalfWritten, Segment
from moldau.storage.segment_files import SegmentCut
from moldau.storage.topic_config import LogConfig


class Bench:
    """One segment to write to, on a simulated disk."""

    def __init__(self, base_offset: int = 0, **config: int) -> None:
        self.disk = SimDisk(random.Random(1))
        self.disk.make_folder("/log")
        self.clock = HandClock()
        self.resources = Resources(
            self.disk, self.clock, random.Random(2), open_files=4, index_bytes=4096
        )
        self.config = LogConfig(**config)
        self.segment = Segment.create(self.resources, "/log", base_offset, self.config)
        self.next_offset = base_offset

    def add(self, count: int = 1, *, size: int = 100, timestamp: int = NOW_MS) -> None:
        batch = sized_batch(size, count=count, timestamp=timestamp)
        self.segment.write([self.next_offset.to_bytes(8, "big"), batch[8:]])
        last_offset = self.next_offset + count - 1
        self.segment.account(size, self.next_offset, last_offset, timestamp)
        self.next_offset = last_offset + 1

    def truncate_to(self, offset: int) -> int:
        """Cut the segment and its files; return where it ends."""
        cut = self.segment.truncate_to(offset)
        cut.run(self.disk.open_folder("/log"))
        assert self.segment.handle().size() == self.segment.size
        return cut.end_offset

    def closed(self) -> Segment:
        """The same segment as one finds it on disk."""
        self.segment.store_indexes()
        return Segment(
            self.resources, "/log", self.segment.base_offset, self.segment.size, self.config
        )


class TestIndexing:
    def test_an_entry_is_due_when_more_than_the_interval_lies_since_the_last(self):
        bench = Bench(index_interval_bytes=200)
        for _ in range(8):
            bench.add(2)
        offsets = bench.segment.indexes().offsets
        # 200 bytes are not more than 200: the fourth batch is the first with an entry.
        assert [offsets[n] for n in range(len(offsets))] == [(7, 300), (13, 600)]

    def test_the_entry_names_the_last_offset_of_the_batch_and_its_start(self):
        bench = Bench(base_offset=1000, index_interval_bytes=50)
        bench.add(5)
        bench.add(5)
        assert bench.segment.indexes().offsets[0] == (1009, 100)

    def test_the_time_index_gets_the_largest_so_far_beside_it(self):
        bench = Bench(index_interval_bytes=50)
        for timestamp in (500, 900, 700, 800, 1000):
            bench.add(timestamp=timestamp)
        times = bench.segment.indexes().times
        assert [times[n] for n in range(len(times))] == [(900, 1), (1000, 4)]

    def test_storing_adds_the_largest_timestamp_once(self):
        bench = Bench()
        bench.add(timestamp=500)
        bench.add(timestamp=400)
        bench.segment.store_indexes()
        bench.segment.store_indexes()
        assert bench.disk.size("/log/00000000000000000000.timeindex") == 12
        assert bench.closed().largest() == (500, 0)

    def test_storing_adds_only_what_is_new(self):
        bench = Bench(index_interval_bytes=50)
        for _ in range(3):
            bench.add()
        bench.segment.store_indexes()
        bench.add(timestamp=NOW_MS + 1)
        bench.segment.store_indexes()
        pair = bench.closed().indexes()
        assert len(pair.offsets) == 3
        assert len(pair.times) == 2

    def test_a_warmed_segment_goes_on_where_it_was(self):
        bench = Bench(index_interval_bytes=250)
        for number in range(5):
            bench.add(timestamp=NOW_MS + number)
        straight = Bench(index_interval_bytes=250)
        for number in range(9):
            straight.add(timestamp=NOW_MS + number)
        bench.segment = bench.closed()
        for number in range(5, 9):
            bench.add(timestamp=NOW_MS + number)
        assert (
            bench.segment.indexes().offsets.encode() == straight.segment.indexes().offsets.encode()
        )
        assert bench.segment.first_timestamp == NOW_MS
        assert bench.segment.largest() == (NOW_MS + 8, 8)


class TestDamagedIndexes:
    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    @pytest.mark.parametrize("damage", ["missing", "half", "empty", "zeros"])
    def test_are_rebuilt_from_the_log(self, suffix, damage):
        bench = Bench(index_interval_bytes=150)
        for number in range(10):
            bench.add(timestamp=NOW_MS + number)
        good = bench.closed().indexes()
        bench.resources.indexes.drop(bench.segment.stem)
        path = bench.segment.stem + suffix
        content = {"half": b"\1" * 5, "empty": b"", "zeros": bytes(48), "missing": None}[damage]
        bench.disk.remove(path)
        if content is not None:
            bench.disk.open(path, create=True).append([content])
        segment = Segment(bench.resources, "/log", 0, bench.segment.size, bench.config)
        assert segment.batch_holding(7).position == 700
        assert segment.indexes().offsets.encode() == good.offsets.encode()
        assert segment.largest() == (NOW_MS + 9, 9)
        assert bench.disk.size(path) > 0


class TestRolling:
    @pytest.mark.parametrize(("size", "rolls"), [(600, False), (601, True)])
    def test_a_segment_may_be_filled_exactly(self, size, rolls):
        bench = Bench(segment_bytes=1000)
        bench.add(size=400)
        assert bench.segment.should_roll(size, 1, NOW_MS) is rolls

    def test_an_empty_segment_takes_any_size(self):
        assert not Bench(segment_bytes=1000).segment.should_roll(5000, 0, NOW_MS)

    @pytest.mark.parametrize(("later_ms", "rolls"), [(1000, False), (1001, True)])
    def test_time_counts_from_the_first_batch_to_the_incoming_one(self, later_ms, rolls):
        bench = Bench(segment_ms=1000)
        bench.add(timestamp=NOW_MS)
        bench.add(timestamp=NOW_MS + 900)
        assert bench.segment.should_roll(100, 2, NOW_MS + later_ms) is rolls

    def test_without_timestamps_time_counts_from_the_segments_creation(self):
        bench = Bench(segment_ms=1000)
        bench.add(timestamp=-1)
        assert not bench.segment.should_roll(100, 1, -1)
        bench.clock.now_ms += 1001
        assert bench.segment.should_roll(100, 1, -1)

    def test_jitter_makes_it_earlier(self):
        bench = Bench(segment_ms=1000, segment_jitter_ms=1000)
        bench.add(timestamp=NOW_MS)
        assert bench.segment.should_roll(100, 1, NOW_MS + 999)

    def test_a_full_offset_index_rolls(self):
        bench = Bench(index_interval_bytes=50, segment_index_bytes=24)
        for _ in range(3):
            bench.add(timestamp=-1)
        assert not bench.segment.should_roll(100, 3, -1)
        bench.add(timestamp=-1)
        assert bench.segment.should_roll(100, 4, -1)

    def test_a_time_index_is_full_one_entry_early(self):
        bench = Bench(index_interval_bytes=50, segment_index_bytes=24)
        bench.add(timestamp=1)
        assert not bench.segment.should_roll(100, 1, 2)
        bench.add(timestamp=2)
        assert bench.segment.should_roll(100, 2, 3)

    def test_an_offset_beyond_31_bits_rolls_even_an_empty_segment(self):
        segment = Bench().segment
        assert not segment.should_roll(100, 2**31 - 1, NOW_MS)
        assert segment.should_roll(100, 2**31, NOW_MS)


class TestFailedWrites:
    def test_a_half_written_batch_is_cut_off_again(self):
        bench = Bench()
        bench.add()
        bench.disk.faults.fill_up(after_size=40)
        with pytest.raises(StorageError, match=r"00000000000000000000\.log.*space"):
            bench.add()
        assert bench.disk.size(bench.segment.path) == 100
        bench.disk.faults.heal()
        bench.next_offset = 1
        bench.add()
        assert [batch.base_offset for batch in bench.segment.batches()] == [0, 1]

    def test_one_that_cannot_be_cut_off_says_so(self):
        bench = Bench()
        bench.disk.faults.fail(Operation.APPEND, "/log")
        bench.disk.faults.fail(Operation.TRUNCATE, "/log")
        with pytest.raises(HalfWritten):
            bench.add()


class TestTruncating:
    def test_batches_go_whole(self):
        bench = Bench(index_interval_bytes=150)
        for number in range(6):
            bench.add(4, timestamp=NOW_MS + number)
        assert bench.truncate_to(14) == 12
        assert bench.segment.size == 300
        assert bench.segment.largest() == (NOW_MS + 2, 11)
        assert bench.segment.indexes().offsets.last_position == 200

    def test_nothing_behind_the_end_changes_anything(self):
        bench = Bench()
        bench.add(4)
        assert bench.truncate_to(4) == 4
        assert bench.segment.size == 100

    def test_an_emptied_segment_counts_time_anew(self):
        bench = Bench(segment_ms=1000)
        bench.add(timestamp=NOW_MS)
        bench.truncate_to(0)
        bench.next_offset = 0
        bench.add(timestamp=NOW_MS + 5000)
        assert not bench.segment.should_roll(100, 1, NOW_MS + 5500)

    def test_indexes_stored_before_are_cut_with_the_next_store(self):
        bench = Bench(index_interval_bytes=50)
        for number in range(6):
            bench.add(timestamp=NOW_MS + number)
        bench.segment.store_indexes()
        bench.truncate_to(3)
        segment = bench.closed()
        assert len(segment.indexes().offsets) == 2
        assert segment.largest() == (NOW_MS + 2, 2)

    def test_a_long_file_is_cut_some_at_a_time(self, monkeypatch):
        sizes = [450]
        file = SimpleNamespace(size=lambda: sizes[-1], truncate=sizes.append, sync=lambda: None)
        monkeypatch.setattr(segment_files, "CUT_STEP_BYTES", 100)
        SegmentCut(3, file, 120, "", None).run(None)
        SegmentCut(3, file, 120, "", None).run(None)
        assert sizes == [450, 350, 250, 150, 120]


class TestOpenFiles:
    def test_no_more_are_open_than_allowed_and_all_can_be_read(self):
        bench = Bench()
        segments = []
        for number in range(10):
            segment = Segment.create(bench.resources, "/log", number * 1000, bench.config)
            batch = make_batch(base_offset=number * 1000)
            segment.write([batch])
            segment.account(len(batch), number * 1000, number * 1000, NOW_MS)
            segments.append(segment)
        assert sum(segment.file is not None for segment in segments) <= 4
        for number, segment in enumerate(segments):
            assert segment.batch_holding(number * 1000).base_offset == number * 1000
        assert sum(segment.file is not None for segment in segments) <= 4

    def test_one_in_use_gets_a_second_chance(self):
        bench = Bench()
        hot = bench.segment
        for number in range(1, 20):
            hot.handle()
            Segment.create(bench.resources, "/log", number, bench.config)
        assert hot.file is not None

    def test_a_file_taken_away_can_still_be_read_by_who_holds_it(self):
        bench = Bench()
        bench.add()
        file = bench.segment.handle()
        bench.segment.let_go()
        assert parse_header(file.read(0, 100)).base_offset == 0
