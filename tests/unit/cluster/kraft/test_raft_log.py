"""The log of a voter: what it claims after a disk has refused, and what a mark says."""

import random

import pytest

from moldau.base.errors import StorageError
from moldau.cluster.journal import Journal
from moldau.cluster.sync_mark import FILE_NAME, SyncMark
from moldau.records.builder import BatchBuilder
from moldau.sim.disk import SimDisk

FOLDER = "/data/__cluster_metadata-0"


@pytest.fixture
def disk():
    disk = SimDisk(random.Random(1))
    disk.make_folder("/data")
    disk.make_folder(FOLDER)
    return disk


def batch(offset, epoch, count=1):
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    for _ in range(count):
        builder.append(1, None, b"value")
    return builder.build()


def opened(disk):
    journal = Journal(disk, FOLDER)
    journal.keep_mark(SyncMark(disk, FOLDER))
    list(journal.load(0))
    journal.resume(0)
    return journal


def test_an_epoch_in_which_nothing_was_written_is_not_claimed(disk):
    journal = opened(disk)
    journal.begin_epoch(6)
    journal.append(batch(0, 6), 1)
    end = journal.end
    journal.begin_epoch(7)
    journal.take_back(end)
    assert journal.last_epoch == 6
    journal.begin_epoch(7)
    journal.append(batch(1, 7), 2)
    assert journal.last_epoch == 7


def test_what_was_synced_and_is_gone_is_missed(disk):
    journal = opened(disk)
    journal.begin_epoch(1)
    journal.append(batch(0, 1), 1)
    journal.append(batch(1, 1), 2)
    journal.sync()
    SyncMark(disk, FOLDER).note(2)
    journal.close()
    path = f"{FOLDER}/{0:020d}.log"
    file = disk.open(path)
    file.truncate(file.size() - 5)
    with pytest.raises(StorageError, match=r"00000000\.log.* before offset 2"):
        opened(disk)


def test_what_was_not_synced_may_have_gaps(disk):
    journal = opened(disk)
    journal.begin_epoch(1)
    journal.append(batch(0, 1), 1)
    SyncMark(disk, FOLDER).note(1)
    broken = bytearray(batch(1, 1))
    broken[-1] ^= 1
    journal.append(bytes(broken), 2)
    journal.append(batch(2, 1), 3)
    journal.close()
    assert opened(disk).next_offset == 1


def test_a_log_that_ends_before_its_mark_is_refused(disk):
    opened(disk).close()
    SyncMark(disk, FOLDER).note(5)
    with pytest.raises(StorageError, match=f"synced up to 5.*remove {FILE_NAME}"):
        opened(disk)


def test_a_mark_is_read_up_to_its_last_whole_entry(disk):
    mark = SyncMark(disk, FOLDER)
    for offset in (3, 8, 9):
        mark.note(offset)
    assert SyncMark(disk, FOLDER).offset == 9
    file = disk.open(f"{FOLDER}/{FILE_NAME}")
    file.truncate(file.size() - 1)
    assert SyncMark(disk, FOLDER).offset == 8


def test_a_mark_is_lowered_and_not_raised_by_a_cut(disk):
    mark = SyncMark(disk, FOLDER)
    assert mark.offset is None
    mark.note(9)
    mark.lower(12)
    assert SyncMark(disk, FOLDER).offset == 9
    mark.lower(4)
    assert SyncMark(disk, FOLDER).offset == 4
    mark.note(6)
    assert SyncMark(disk, FOLDER).offset == 6
    mark.remove()
    assert SyncMark(disk, FOLDER).offset is None
