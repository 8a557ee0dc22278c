"""Which log is dirty, how much, and which segments go together."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kits.compaction_kit import COMPACTED, clean, write
from kits.log_kit import FOLDER, KEY, NOW_MS, Broker
from moldau.base.errors import CorruptRecords
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.storage.compaction.choice import GROUP_COUNT_MAX, Dirt, group_segments
from moldau.storage.compaction.source import SegmentFiles


def filled(config=COMPACTED, *, batches: int = 12, stamps: range | None = None) -> Broker:
    """A log of one batch a segment, all on the disk, and one that is being written."""
    broker = Broker(config=config)
    log = broker.log()
    for number in range(batches):
        stamp = NOW_MS if stamps is None else stamps[number]
        write(log, (b"k%d" % (number % 3), b"v" * 100), timestamp=stamp)
        log.roll()
    broker.flush(log)
    return broker


def dirt_of(broker: Broker, stable: int | None = None) -> Dirt:
    log = broker.log()
    return broker.manager.dirt(KEY, log.log_end_offset if stable is None else stable)


def test_all_but_the_segment_being_written_is_dirty_at_first():
    broker = filled()
    dirt = dirt_of(broker)
    log = broker.log()
    assert dirt == Dirt(0, 12, 0, log.size, overdue=False)
    assert dirt.ratio == 1.0


def test_what_was_cleaned_is_clean_until_more_is_written():
    broker = filled()
    clean(broker)
    log = broker.log()
    dirt = dirt_of(broker)
    assert (dirt.first_dirty_offset, dirt.end_offset, dirt.dirty_bytes) == (12, 12, 0)
    assert not dirt.worth_cleaning(0.0)
    clean_bytes = log.size
    write(log, (b"new", b"v"))
    log.roll()
    broker.flush(log)
    dirt = dirt_of(broker)
    assert (dirt.first_dirty_offset, dirt.end_offset) == (12, 13)
    assert (dirt.clean_bytes, dirt.dirty_bytes) == (clean_bytes, log.size - clean_bytes)
    assert dirt.worth_cleaning(dirt.ratio - 0.01)
    assert not dirt.worth_cleaning(dirt.ratio)


@pytest.mark.parametrize(("stable", "end"), [(0, 0), (4, 4), (12, 12), (99, 12)])
def test_nothing_undecided_or_uncommitted_is_touched(stable, end):
    assert dirt_of(filled(), stable).end_offset == end


def test_a_segment_with_something_undecided_is_not_touched_at_all():
    broker = Broker(config=COMPACTED)
    log = broker.log()
    for _ in range(2):
        write(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
        log.roll()
    broker.flush(log)
    assert dirt_of(broker, 5).end_offset == 3


def test_nothing_is_cleaned_that_is_not_on_the_disk():
    broker = filled()
    log = broker.log()
    write(log, (b"k", b"v"))
    log.roll()
    assert dirt_of(broker).end_offset == 12
    broker.flush(log)
    assert dirt_of(broker).end_offset == 13


def test_what_is_younger_than_the_lag_waits():
    config = replace(COMPACTED, min_compaction_lag_ms=50)
    stamps = range(NOW_MS - 120, NOW_MS, 10)
    broker = filled(config, stamps=stamps)
    assert dirt_of(broker).end_offset == 8
    broker.clock.now_ms += 10
    assert dirt_of(broker).end_offset == 9


def test_what_waits_for_too_long_is_cleaned_whatever_the_ratio():
    config = replace(COMPACTED, max_compaction_lag_ms=100)
    broker = filled(config)
    assert not dirt_of(broker).worth_cleaning(1.0)
    broker.clock.now_ms += 101
    assert dirt_of(broker).worth_cleaning(1.0)
    clean(broker)
    assert not dirt_of(broker).worth_cleaning(1.0)


def test_how_old_a_segment_is_is_read_once():
    broker = filled(replace(COMPACTED, max_compaction_lag_ms=100)).stop()
    assert not dirt_of(broker).overdue
    broker.sim().faults.fail(Operation.READ, FOLDER)
    broker.clock.now_ms += 101
    assert dirt_of(broker).overdue


def test_a_log_whose_age_cannot_be_read_is_corrupt():
    broker = filled(replace(COMPACTED, max_compaction_lag_ms=100)).stop()
    broker.sim().flip_bit(broker.log().segments[1].path, 16)
    with pytest.raises(CorruptRecords):
        dirt_of(broker)


def test_a_start_behind_the_cleaned_part_makes_the_rest_dirty():
    broker = filled()
    clean(broker)
    log = broker.log()
    write(log, (b"k", b"v"))
    log.delete_records_before(13)
    assert dirt_of(broker).first_dirty_offset == 13


class TestGroups:
    def segments(self, *sizes: int, step: int = 10) -> list[SegmentFiles]:
        return [SegmentFiles(FOLDER, number * step, size) for number, size in enumerate(sizes)]

    def grouped(self, segments, *, segment_bytes=100, index_bytes=100, disk=None):
        groups = group_segments(
            disk or SimDisk(random.Random(1)),
            segments,
            segments[-1].base_offset + 10,
            segment_bytes=segment_bytes,
            index_bytes=index_bytes,
        )
        return [[one.size for one in group] for group in groups]

    def test_neighbours_are_put_together_up_to_the_size_of_a_segment(self):
        assert self.grouped(self.segments(40, 60, 1, 99, 101, 0, 5)) == [
            [40, 60],
            [1, 99],
            [101],
            [0, 5],
        ]

    def test_offsets_must_fit_the_index(self):
        segments = self.segments(10, 10, 10, step=2**30)
        assert self.grouped(segments) == [[10, 10], [10]]
        empty = self.segments(10, 10, 0, step=2**30)
        assert self.grouped(empty) == [[10, 10, 0]]

    def test_indexes_must_fit_too(self):
        broker = Broker()
        broker.disk.make_folder(FOLDER)
        segments = self.segments(10, 10, 10)
        for segment, suffix in zip(segments[1:], (".index", ".timeindex"), strict=True):
            broker.disk.open(segment.stem + suffix, create=True).append([b"x" * 60])
        kept = {"segment_bytes": 100, "disk": broker.disk}
        assert self.grouped(segments, index_bytes=60, **kept) == [[10, 10, 10]]
        assert self.grouped(segments, index_bytes=59, **kept) == [[10], [10], [10]]

    def test_no_group_takes_long_to_swap(self):
        groups = self.grouped(self.segments(*[1] * (GROUP_COUNT_MAX + 1)))
        assert [len(group) for group in groups] == [GROUP_COUNT_MAX, 1]
