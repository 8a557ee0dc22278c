"""The journal as others read it and as a copy of a leader's: regions, cuts, damage."""

from __future__ import annotations

import pytest

from moldau.base.errors import InvariantViolated, StorageError
from moldau.cluster.journal import Journal
from moldau.records.batch import iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.world import World
from moldau.storage.epochs import load_epochs

FOLDER = "/data/__cluster_metadata-0"


@pytest.fixture
def disk():
    with World(3) as world:
        yield SimDisk(world.random("disk"))


def batch(base_offset, count=2, epoch=1):
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for number in range(count):
        builder.append(1_000, None, b"value %04d" % (base_offset + number))
    return builder.build()


def opened(disk, *, is_copy=False, start_offset=0):
    journal = Journal(disk, FOLDER, is_copy=is_copy)
    loaded = list(journal.load(start_offset))
    journal.resume(start_offset)
    return journal, loaded


def fill(journal, batches=6, epoch=1, count=2):
    for _ in range(batches):
        data = batch(journal.next_offset, count, epoch)
        journal.append_copies(data, [parse_header(data)])


def offsets(region):
    data = region.file.read(region.position, region.size)
    return [span.base_offset for span in iter_batches(data)]


def test_a_region_has_whole_batches_within_its_limits(disk):
    journal, _ = opened(disk)
    fill(journal)
    size = len(batch(0))
    assert offsets(journal.region(0, 12, 10_000)) == [0, 2, 4, 6, 8, 10]
    assert offsets(journal.region(4, 12, 3 * size)) == [4, 6, 8]
    assert offsets(journal.region(4, 12, 3 * size - 1)) == [4, 6]
    assert offsets(journal.region(6, 12, 3 * size)) == [6, 8, 10]
    assert offsets(journal.region(6, 12, 3 * size - 1)) == [6, 8]
    assert offsets(journal.region(4, 8, 10_000)) == [4, 6]


@pytest.mark.parametrize("max_bytes", [1, 0, -5])
def test_a_region_has_one_batch_however_large(disk, max_bytes):
    journal, _ = opened(disk)
    fill(journal)
    assert offsets(journal.region(4, 12, max_bytes)) == [4]
    assert offsets(journal.region(5, 12, max_bytes)) == [4]
    assert offsets(journal.region(10, 12, max_bytes)) == [10]


def test_there_is_no_region_outside_of_the_log_or_what_is_committed(disk):
    journal, _ = opened(disk)
    fill(journal, 2)
    assert journal.region(4, 4, 100) is None
    assert journal.region(4, 9, 100) is None
    assert journal.region(2, 2, 100) is None
    assert journal.region(-1, 4, 100) is None


def test_a_region_stays_readable_when_its_segment_is_dropped_and_removed(disk):
    journal, _ = opened(disk)
    fill(journal, 3)
    region = journal.region(0, 6, 10_000)
    journal.roll()
    fill(journal, 1)
    gone = journal.drop_before(6)
    assert gone == [0]
    assert (journal.start_offset, journal.region(0, 8, 100)) == (6, None)
    journal.remove(gone)
    assert offsets(region) == [0, 2, 4]
    assert offsets(journal.region(6, 8, 100)) == [6]
    assert load_epochs(disk, FOLDER).entries == ((1, 6),)


def test_regions_of_several_segments_end_with_theirs(disk):
    journal, _ = opened(disk)
    fill(journal, 2)
    journal.roll()
    fill(journal, 2)
    assert offsets(journal.region(2, 8, 10_000)) == [2]
    assert offsets(journal.region(4, 8, 10_000)) == [4, 6]
    again, _ = opened(disk)
    assert offsets(again.region(2, 8, 10_000)) == [2]
    assert offsets(again.region(4, 8, 10_000)) == [4, 6]


@pytest.mark.parametrize(("wanted", "end"), [(0, 0), (3, 2), (4, 4), (5, 4), (8, 8), (9, 9)])
def test_truncating_ends_at_a_batch(disk, wanted, end):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 2)
    journal.roll()
    fill(journal, 2)
    fill(journal, 1, epoch=2, count=1)
    journal.truncate(wanted)
    assert journal.next_offset == end
    assert journal.last_epoch == (-1 if end == 0 else 2 if end == 9 else 1)
    data = batch(end, epoch=3)
    journal.append_copies(data, [parse_header(data)])
    again, loaded = opened(disk, is_copy=True)
    assert again.next_offset == end + 2
    assert [one.header.base_offset for one in loaded][-1] == end
    assert load_epochs(disk, FOLDER).entries[-1] == (3, end)


def test_restarting_leaves_nothing_of_the_old_log(disk):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 2)
    journal.roll()
    fill(journal, 2)
    journal.restart_at(100)
    assert (journal.start_offset, journal.next_offset, journal.last_epoch) == (100, 100, -1)
    fill(journal, 1, epoch=5)
    again, loaded = opened(disk, is_copy=True, start_offset=100)
    assert [one.header.base_offset for one in loaded] == [100]
    assert (again.start_offset, again.next_offset, again.last_epoch) == (100, 102, 5)


def test_a_log_that_ends_before_its_snapshot_goes_with_its_epochs(disk):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 2, epoch=7)
    again, loaded = opened(disk, is_copy=True, start_offset=50)
    assert loaded == []
    assert (again.start_offset, again.next_offset, again.last_epoch) == (50, 50, -1)
    assert load_epochs(disk, FOLDER).entries == ()
    assert [name for name in disk.names(FOLDER) if name.endswith(".log")] == [f"{50:020d}.log"]


@pytest.mark.parametrize("damaged", [0, 2, 4])
def test_a_copy_ends_where_it_is_damaged_and_a_voters_journal_is_refused(disk, damaged):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 4)
    journal.roll()
    fill(journal, 2)
    disk.flip_bit(f"{FOLDER}/{0:020d}.log", damaged // 2 * len(batch(0)) + 30)
    with pytest.raises(StorageError, match="more follows"):
        opened(disk)
    again, loaded = opened(disk, is_copy=True)
    assert again.next_offset == damaged
    assert len(loaded) == damaged // 2
    fill(again, 1)
    assert opened(disk, is_copy=True)[0].next_offset == damaged + 2


def test_a_copy_ends_where_a_segment_is_missing(disk):
    journal, _ = opened(disk, is_copy=True)
    for _ in range(3):
        fill(journal, 1)
        journal.roll()
    disk.remove(f"{FOLDER}/{2:020d}.log")
    with pytest.raises(StorageError, match="offsets from 2 are missing"):
        opened(disk)
    assert opened(disk, is_copy=True)[0].next_offset == 2
    assert [name for name in disk.names(FOLDER) if name.endswith(".log")] == [f"{0:020d}.log"]


def test_a_copy_without_its_beginning_starts_over(disk):
    journal, _ = opened(disk, is_copy=True)
    journal.restart_at(50)
    fill(journal, 1)
    with pytest.raises(StorageError, match="starts at offset 50"):
        opened(disk)
    again, loaded = opened(disk, is_copy=True)
    assert (again.start_offset, again.next_offset, loaded) == (0, 0, [])
    fill(again, 1)


def test_a_write_that_the_disk_refuses_leaves_the_copy_as_it_was(disk):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 2)
    disk.faults.fill_up(30)
    with pytest.raises(StorageError, match="cannot be appended"):
        fill(journal, 1)
    assert journal.writable
    disk.faults.heal()
    fill(journal, 1)
    assert opened(disk, is_copy=True)[0].next_offset == 6


def test_a_copy_that_was_half_truncated_takes_nothing_more(disk):
    journal, _ = opened(disk, is_copy=True)
    fill(journal, 2)
    disk.faults.fail(Operation.TRUNCATE, FOLDER)
    with pytest.raises(OSError):
        journal.truncate(2)
    assert not journal.writable
    with pytest.raises(StorageError, match="failed"):
        fill(journal, 1)


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_epoch_is_not_used_twice(disk, epoch):
    journal, _ = opened(disk)
    journal.begin_epoch(5)
    with pytest.raises(InvariantViolated, match=f"leader epoch {epoch} after 5"):
        journal.begin_epoch(epoch)
    journal.begin_epoch(6)
    assert journal.last_epoch == 6


def test_every_batch_has_offsets_of_its_own(disk):
    journal, _ = opened(disk)
    journal.append(batch(0, count=1), 1)
    before = journal.end
    for next_offset in (0, 1):
        with pytest.raises(InvariantViolated, match=f"a batch from 1 ends at {next_offset}"):
            journal.append(batch(0, count=1), next_offset)
    assert journal.end == before
