"""A full disk refuses appends and nothing else; with room again the log goes on."""

from __future__ import annotations

import errno
import logging

import pytest

from kits.log_kit import (
    FOLDER,
    KEY,
    NOW_MS,
    TOPIC_ID,
    Broker,
    append,
    append_values,
    make_batch,
    marker,
    read_all,
    sized_batch,
)
from moldau.base.errors import DiskFull, StorageError
from moldau.base.ids import PartitionKey
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.sim.disk_faults import Operation
from moldau.storage.time_search import finish
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, retention_ms=10_000)


@pytest.fixture
def broker() -> Broker:
    return Broker(config=CONFIG)


def fill(broker: Broker, count: int, size: int = 400) -> None:
    for _ in range(count):
        append(broker.log(), sized_batch(size))


def refuse(broker: Broker, batch: bytes) -> None:
    """Append to a full disk, and tell the manager as the broker does."""
    with pytest.raises(DiskFull) as caught:
        append(broker.log(), batch)
    broker.manager.directory_failed(caught.value)


def make_room(broker: Broker) -> None:
    broker.sim().faults.heal()
    (directory,) = broker.manager.full_directories
    assert directory.has_room()
    directory.set_full(False)


def check_files(broker: Broker) -> None:
    broker.manager.close({})
    assert not verify_partition(broker.disk, FOLDER)


@pytest.mark.parametrize("room", [0, 1, 100, 399])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_refused_batch_leaves_nothing_and_the_log_goes_on(broker, room, count):
    """Also where the batch begins a segment, with all that belongs to it."""
    fill(broker, count)
    before = read_all(broker.log())
    broker.sim().faults.fill_up(room)
    refuse(broker, sized_batch(400))
    assert (broker.log().log_end_offset, broker.log().offline) == (count, False)
    assert read_all(broker.log()) == before
    make_room(broker)
    fill(broker, 5)
    assert len(read_all(broker.log())) == count + 5
    assert len(read_all(broker.kill().log())) == count + 5


def test_files_are_right_after_refusals_and_a_kill_on_the_full_disk(broker):
    fill(broker, 2)
    broker.sim().faults.fill_up(30)
    refuse(broker, sized_batch(400))
    make_room(broker)
    # One that still fits behind the old ones: what the refused roll began must be gone.
    append(broker.log(), make_batch([b"small"]))
    fill(broker, 3)
    again = broker.kill()
    assert len(read_all(again.log())) == 6
    check_files(again)


def test_appends_are_refused_at_the_door_until_there_is_room(broker):
    fill(broker, 1)
    append_values(broker.log(), b"small")
    broker.sim().faults.fill_up(10)
    refuse(broker, sized_batch(400))
    # There is room for this one, but a trickle of small ones must not keep the disk full.
    broker.sim().faults.heal()
    with pytest.raises(DiskFull, match="the disk is full"):
        append_values(broker.log(), b"small")
    assert len(read_all(broker.log())) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_quota_is_a_full_disk_too_and_shows_only_in_a_write(broker, code):
    fill(broker, 1)
    broker.sim().faults.fail(Operation.APPEND, "/data", code=code)
    refuse(broker, sized_batch(400))
    (directory,) = broker.manager.full_directories
    assert not directory.has_room()
    make_room(broker)
    fill(broker, 1)
    assert not broker.disk.exists("/data/.moldau_room")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_sync_that_fails_takes_the_directory_offline_whatever_it_says(broker, code):
    fill(broker, 1)
    broker.sim().faults.fail(Operation.SYNC, f"{FOLDER}/", code=code)
    flush = broker.log().prepare_flush()
    with pytest.raises(StorageError) as caught:
        flush.run()
    assert not isinstance(caught.value, DiskFull)
    assert broker.manager.directory_failed(caught.value).offline


def test_another_write_error_takes_the_directory_offline_as_before(broker):
    fill(broker, 1)
    broker.sim().faults.fail(Operation.APPEND, "/data", code=errno.EIO)
    with pytest.raises(StorageError) as caught:
        append(broker.log(), sized_batch(400))
    assert not isinstance(caught.value, DiskFull)
    assert broker.manager.directory_failed(caught.value).offline


@pytest.mark.parametrize("size", [100, 400])
def test_a_file_that_may_not_grow_is_followed_by_the_next_segment(broker, size):
    """Also on the fast path of small batches."""
    append(broker.log(), sized_batch(100))
    append(broker.log(), sized_batch(100))
    broker.sim().faults.fail(Operation.APPEND, f"{FOLDER}/{0:020d}.log", code=errno.EFBIG)
    assert append(broker.log(), sized_batch(size)).base_offset == 2
    assert [one.base_offset for one in broker.log().segments] == [0, 2]
    fill(broker, 2)
    assert (broker.log().offline, broker.log().full) == (False, False)
    again = broker.kill()
    assert len(read_all(again.log())) == 5
    check_files(again)


def test_a_batch_larger_than_a_file_may_be_is_refused_alone(broker):
    fill(broker, 1)
    for base_offset in (0, 1):
        path = f"{FOLDER}/{base_offset:020d}.log"
        broker.sim().faults.fail(Operation.APPEND, path, code=errno.EFBIG)
    for _ in range(2):
        with pytest.raises(ApiError, match="File too large") as caught:
            append(broker.log(), sized_batch(400))
        assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert len(read_all(broker.log())) == 1
    broker.sim().faults.heal()
    fill(broker, 2)
    assert len(read_all(broker.log())) == 3
    check_files(broker)


def test_torn_bytes_that_cannot_be_cut_back_take_the_log_offline(broker):
    fill(broker, 1)
    broker.sim().faults.fill_up(10)
    broker.sim().faults.fail(Operation.TRUNCATE, FOLDER)
    with pytest.raises(StorageError) as caught:
        append(broker.log(), sized_batch(400))
    assert not isinstance(caught.value, DiskFull)
    assert broker.log().offline


def test_retention_works_on_a_full_disk(broker):
    fill(broker, 9)
    broker.sim().faults.fill_up(0)
    refuse(broker, sized_batch(400))
    # The last segment stays: a new one in its place needs room.
    removed = broker.manager.retain(NOW_MS + 10_001, lambda key: 9)
    assert removed == 4
    assert broker.log().log_start_offset == 8
    assert not broker.manager.directories[0].offline
    make_room(broker)
    assert broker.manager.retain(NOW_MS + 10_001, lambda key: 9) == 1
    fill(broker, 1)
    assert [record.offset for record in read_all(broker.log())] == [9]


def test_a_checkpoint_without_room_is_written_later(broker):
    fill(broker, 2)
    broker.checkpoint()
    fill(broker, 2)
    broker.flush(broker.log())
    broker.sim().faults.fill_up(0)
    with pytest.raises(DiskFull) as caught:
        broker.checkpoint()
    assert broker.manager.directory_failed(caught.value) is broker.manager.directories[0]
    assert broker.manager.directory_failed(caught.value) is None  # said once
    make_room(broker)
    broker.checkpoint()
    again = broker.kill()
    assert again.log().recovery_point == 4


def test_an_abort_that_cannot_be_noted_takes_its_marker_back(broker):
    log = broker.log()
    append(log, make_batch([b"x"], producer=(7, 0, 0), transactional=True))
    batch, header = marker(7, 1, aborted=True)
    end = log.log_end_offset
    broker.sim().faults.fail(Operation.APPEND, f"{FOLDER}/{0:020d}.txnindex", code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        log.append_marker(batch, header, 0)
    assert (log.log_end_offset, log.first_unstable_offset) == (end, 0)
    broker.sim().faults.heal()
    log.append_marker(batch, header, 0)
    log.producers.high_watermark_moved(log.log_end_offset)
    assert log.first_unstable_offset is None
    (aborted,) = log.aborted_transactions(0, log.read(0, 1 << 20, log.log_end_offset))
    assert aborted.producer_id == 7
    check_files(broker)


def test_new_logs_go_where_there_is_room():
    broker = Broker(directories=("/one", "/two"))
    broker.manager.directories[0].set_full(True)
    for index in range(3):
        log = broker.manager.open_or_create(PartitionKey("t", index), TOPIC_ID, LogConfig())
        assert log.folder.startswith("/two/")
    broker.manager.directories[1].set_full(True)
    assert not broker.manager.can_make_logs
    with pytest.raises(DiskFull, match="no log directory has room for t-3"):
        broker.manager.open_or_create(PartitionKey("t", 3), TOPIC_ID, LogConfig())


@pytest.mark.parametrize("skip", range(6))
def test_a_log_that_could_not_be_made_leaves_nothing(broker, skip):
    broker.sim().faults.fail(
        Operation.CREATE, "/data/orders-0", code=errno.ENOSPC, skip=skip, times=1
    )
    try:
        broker.log()
    except DiskFull:
        assert not broker.disk.exists(FOLDER)
    try:
        append(broker.log(), sized_batch(400))
    except DiskFull:
        assert broker.log().size == 0
        append(broker.log(), sized_batch(400))
    assert len(read_all(broker.kill().log())) == 1


def test_a_folder_that_could_not_be_removed_is_not_used_again(broker):
    fill(broker, 5)
    broker.sim().faults.fail(Operation.RENAME, FOLDER, code=errno.ENOSPC, times=1)
    with pytest.raises(DiskFull):
        broker.manager.delete(KEY)
    fill(broker, 1)
    assert len(read_all(broker.log())) == 1
    assert len(read_all(broker.kill().log())) == 1


def test_a_stop_on_a_full_disk_syncs_batches_and_leaves_no_clean_mark(broker):
    fill(broker, 3)
    before = read_all(broker.log())
    broker.sim().faults.fill_up(0)
    broker.manager.close({})
    assert not broker.disk.exists("/data/.kafka_cleanshutdown")
    broker.sim().faults.heal()
    again = broker.cut_power()
    assert read_all(again.log()) == before


def start_full(broker: Broker, room: int = 0) -> Broker:
    """Start again on the same disk, with so little room."""
    disk = broker.sim().kill()
    disk.faults.fill_up(room)
    return Broker(disk, CONFIG, clock=broker.clock, boot_id="boot-2")


@pytest.mark.parametrize(
    ("clean", "room"), [(True, 0), (True, 10), (False, 0), (False, 30), (False, 60)]
)
def test_a_start_on_a_full_disk_reads_and_takes_writes_once_there_is_room(
    broker, caplog, clean, room
):
    fill(broker, 7)
    before = read_all(broker.log())
    if clean:
        broker.manager.close({})
    again = start_full(broker, room)
    (directory,) = again.manager.directories
    assert (directory.offline, directory.full) == (False, True)
    assert read_all(again.log()) == before
    with pytest.raises(DiskFull):
        append_values(again.log(), b"small")
    assert [one.getMessage() for one in caplog.records if "is full" in one.getMessage()] == [
        "log directory /data is full, writes are refused until there is room"
    ]
    make_room(again)
    fill(again, 3)
    assert len(read_all(again.log())) == 10
    check_files(again)


def test_the_boot_of_a_start_on_a_full_disk_is_written_when_there_is_room(broker):
    fill(broker, 1)
    again = start_full(start_full(broker))
    # Nobody could write that it is the second start of this boot.
    assert again.manager.directories[0].last_use.power_lost
    make_room(again)
    disk = again.sim().kill()
    last_use = Broker(disk, CONFIG, boot_id="boot-2").manager.directories[0].last_use
    assert (last_use.power_lost, last_use.broker_epoch) == (False, 1)


def test_entries_of_indexes_that_found_no_room_are_not_taken_for_all(broker):
    """The first segments are recovered with room for some entries of their indexes alone."""
    for number in range(9):
        append(broker.log(), sized_batch(400, timestamp=NOW_MS + number))
    for room in range(0, 400, 11):
        again = start_full(broker, room)
        log = again.log()
        for number in range(9):
            found = finish(log.search(NOW_MS + number))
            assert found is not None
            assert found.offset == number
        again.sim().faults.heal()
        broker = again


def test_without_room_for_what_was_aborted_a_log_stays_offline_until_a_start_with_room(
    broker, caplog
):
    other = PartitionKey("other", 0)
    append_values(broker.log(other), b"read on")
    log = broker.log()
    append(log, make_batch([b"x"], producer=(7, 0, 0), transactional=True))
    log.append_marker(*marker(7, 1, aborted=True), 0)
    again = start_full(broker)
    assert len(read_all(again.log(other))) == 1
    with pytest.raises(StorageError, match="No space left"):
        again.log()
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert line.startswith("orders-0 cannot be opened and stays offline")
    make_room(again)
    # An orderly stop does not make up for the recovery that was broken off.
    again = again.stop()
    log = again.log()
    (aborted,) = log.aborted_transactions(0, log.read(0, 1 << 20, log.log_end_offset))
    assert (aborted.producer_id, aborted.last_offset) == (7, 1)


def test_indexes_that_are_made_anew_for_a_reader_need_no_room(broker):
    fill(broker, 5)
    broker.manager.close({})
    disk = broker.sim().kill()
    disk.remove(f"{FOLDER}/{0:020d}.index")
    again = Broker(disk, CONFIG)
    again.log()
    disk.faults.fill_up(0)
    assert len(read_all(again.log())) == 5
