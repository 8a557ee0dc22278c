"""Reading a log that may be damaged, cut off, or written to at this moment."""

from __future__ import annotations

import pytest

from moldau.base.files import read_whole
from moldau.cli.metadata.batches import DamagedMetadata, LogWalk, snapshot_batches
from moldau.cli.metadata.source import OpenSegment
from moldau.cluster.changes import TopicCreated
from moldau.cluster.record_codec import encode_change
from moldau.cluster.snapshots import SnapshotWriter
from moldau.records.builder import BatchBuilder


def batch(offset: int) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=1)
    builder.append(0, None, encode_change(TopicCreated("t" * 20, bytes(16)), 30))
    return builder.build()


def segment(files, base: int, *contents: bytes) -> OpenSegment:
    files.make_folder("/log")
    file = files.open(f"/log/{base:020d}.log", create=True)
    file.append(contents or [b""])
    return OpenSegment(base, file)


def offsets(walk: LogWalk) -> list[int]:
    return [placed.batch.header.base_offset for placed in walk.batches()]


@pytest.fixture
def size():
    return len(batch(0))


def test_segments_are_read_one_after_the_other(disk):
    walk = LogWalk([segment(disk, 0, batch(0), batch(1)), segment(disk, 2, batch(2))], 0)
    assert offsets(walk) == [0, 1, 2]
    assert walk.next_offset == 3
    assert walk.notes == []


def test_a_last_batch_that_is_not_whole_is_left_out_with_a_note(disk, size):
    walk = LogWalk([segment(disk, 0, batch(0), batch(1)[:-1])], 0)
    assert offsets(walk) == [0]
    assert walk.next_offset == 1
    [note] = walk.notes
    assert f"/log/{0:020d}.log: no whole batch at position {size}" in note
    assert "ignored" in note


def test_a_damaged_batch_with_a_whole_one_behind_it_is_named_with_its_position(disk, size):
    damaged = batch(1)[:-1] + b"!"
    walk = LogWalk([segment(disk, 0, batch(0), damaged, batch(2))], 0)
    with pytest.raises(DamagedMetadata, match=f"0.log: no whole batch at position {size}: "):
        offsets(walk)


def test_a_segment_with_another_behind_it_has_to_be_whole(disk, size):
    walk = LogWalk([segment(disk, 0, batch(0), b"torn"), segment(disk, 1, batch(1))], 0)
    with pytest.raises(DamagedMetadata, match=f"at position {size}.*and more follows it"):
        offsets(walk)


def test_a_batch_with_a_wrong_offset_is_named_with_its_position(disk, size):
    walk = LogWalk([segment(disk, 0, batch(0), batch(7))], 0)
    with pytest.raises(DamagedMetadata, match=f"offset 7 at position {size} where 1 belongs"):
        offsets(walk)


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        (5, "begins at offset 5, but the log before ends at 0"),
        (0, "begins at offset 0, but the log goes on after 0"),
    ],
)
def test_segments_have_to_follow_each_other(disk, base, problem):
    first = segment(disk, 0, batch(0))
    walk = LogWalk([first, first if base == 0 else segment(disk, base, batch(base))], 0)
    with pytest.raises(DamagedMetadata, match=problem):
        offsets(walk)


def test_what_a_snapshot_covers_may_be_missing(disk):
    walk = LogWalk([segment(disk, 0, batch(0)), segment(disk, 5, batch(5))], snapshot_end=5)
    assert offsets(walk) == [0, 5]
    assert "offsets 1 to 4 before it are missing; a snapshot covers them" in walk.notes[0]


# What a voter of several has noted


def test_behind_what_was_synced_damage_ends_the_log(disk):
    damaged = batch(1)[:-1] + b"!"
    walk = LogWalk([segment(disk, 0, batch(0), damaged, batch(2))], 0, synced=1)
    assert offsets(walk) == [0]
    assert "ignored" in walk.notes[0]
    gap = LogWalk([segment(disk, 10, batch(10)), segment(disk, 15, batch(15))], 0, synced=11)
    assert offsets(gap) == [10]


def test_before_it_even_a_torn_tail_is_damage(disk, size):
    walk = LogWalk([segment(disk, 0, batch(0), batch(1)[:-1])], 0, synced=2)
    with pytest.raises(DamagedMetadata, match=f"no whole batch at position {size}"):
        offsets(walk)


def test_a_log_that_ends_before_it_is_noted(disk):
    walk = LogWalk([segment(disk, 0, batch(0))], 0, synced=2)
    assert offsets(walk) == [0]
    assert "ends at offset 1, but was synced up to 2" in walk.notes[0]
    assert offsets(LogWalk([segment(disk, 5, batch(5))], snapshot_end=6, synced=6)) == [5]


# Snapshots


@pytest.fixture
def snapshot(disk):
    disk.make_folder("/log")
    path = f"/log/{9:020d}-{1:010d}.checkpoint"
    writer = SnapshotWriter(disk, path, 0, 0)
    writer.append([encode_change(TopicCreated("a", bytes(16)), 30)])
    writer.finish()
    return path


def test_a_snapshot_is_read_to_its_footer(disk, snapshot):
    kinds = [placed.batch.header.control for placed in snapshot_batches(disk, snapshot)]
    assert kinds == [True, False, True]


def test_a_snapshot_without_its_footer_is_cut_off(disk, snapshot):
    placed = list(snapshot_batches(disk, snapshot))
    disk.open(snapshot).truncate(placed[-1].batch.position)
    with pytest.raises(DamagedMetadata, match="is truncated"):
        list(snapshot_batches(disk, snapshot))
    disk.open(snapshot).truncate(0)
    with pytest.raises(DamagedMetadata, match="is truncated"):
        list(snapshot_batches(disk, snapshot))


def test_a_damaged_snapshot_is_named_with_the_position(disk, snapshot):
    last = list(snapshot_batches(disk, snapshot))[-1].batch.position
    size = len(read_whole(disk, snapshot))
    disk.open(snapshot).truncate(size - 1)
    with pytest.raises(DamagedMetadata, match=f"{snapshot}: is damaged: .*position {last}"):
        list(snapshot_batches(disk, snapshot))
