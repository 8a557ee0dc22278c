from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kits.log_kit import (
    FOLDER,
    KEY,
    NOW_MS,
    Broker,
    append,
    append_values,
    make_batch,
    marker,
    read_all,
    sized_batch,
)
from moldau.base.errors import CorruptRecords
from moldau.base.files import read_whole
from moldau.records.legacy import message_set
from moldau.records.record import Record
from moldau.sim.disk_faults import Operation
from moldau.storage.checkpoints import CLEANER_OFFSETS, write_offsets
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.recovery import finish_interrupted, segment_base
from moldau.storage.time_search import finish
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def broker() -> Broker:
    return Broker(config=CONFIG)


def path(base_offset: int, suffix: str) -> str:
    return f"{FOLDER}/{base_offset:020d}{suffix}"


def overwrite(broker: Broker, name: str, content: bytes) -> None:
    broker.disk.remove(name)
    broker.disk.open(name, create=True).append([content])


def fill(broker: Broker, count: int = 10, size: int = 400) -> None:
    for _ in range(count):
        append(broker.log(), sized_batch(size))


class TestAfterAnOrderlyStop:
    def test_nothing_is_checked_and_all_is_there(self, broker):
        fill(broker)
        before = read_all(broker.log())
        again = broker.stop()
        assert again.reports == {}
        assert read_all(again.log()) == before
        assert again.log().recovery_point == 10

    def test_only_the_end_of_the_last_segment_is_read(self, broker):
        fill(broker, 9)
        broker.manager.close({})
        disk = broker.sim().kill()
        for base_offset in (0, 2, 4, 6):
            disk.faults.fail(Operation.OPEN, path(base_offset, ""))
        again = Broker(disk, CONFIG)
        assert again.log().log_end_offset == 9

    def test_no_descriptor_stays_open_and_no_index_is_loaded(self, broker):
        fill(broker)
        log = broker.stop().log()
        assert [segment.tail for segment in log.segments] == [None] * 5
        assert [segment.file for segment in log.segments[:-1]] == [None] * 4

    def test_the_mark_is_gone_while_the_broker_runs(self, broker):
        fill(broker)
        again = broker.stop()
        assert not again.disk.exists("/data/.kafka_cleanshutdown")
        assert again.kill().reports[KEY].recovered_segments == 1

    def test_a_damaged_end_is_found_all_the_same(self, broker):
        fill(broker, 3)
        broker.manager.close({})
        disk = broker.sim().kill()
        disk.open(path(2, ".log")).truncate(399)
        again = Broker(disk, CONFIG)
        assert again.log().log_end_offset == 2
        assert again.reports[KEY].cut_bytes == 399

    def test_a_bogus_index_does_not_hide_the_end(self, broker):
        fill(broker, 2, size=300)
        broker.manager.close({})
        disk = broker.sim().kill()
        disk.remove(path(0, ".index"))
        disk.open(path(0, ".index"), create=True).append([bytes([0, 0, 0, 1, 0, 0, 0, 7])])
        again = Broker(disk, CONFIG)
        assert again.log().log_end_offset == 2
        assert len(read_all(again.log())) == 2


class TestTornTails:
    @pytest.mark.parametrize("kept", [1, 16, 60, 61, 200, 399])
    def test_a_half_written_batch_is_cut(self, broker, kept):
        fill(broker, 2)
        broker.disk.open(path(0, ".log")).append([sized_batch(400)[:kept]])
        again = broker.kill()
        assert again.log().log_end_offset == 2
        assert again.log().size == 800
        assert again.reports[KEY].cut_bytes == kept
        assert "cut" in str(again.reports[KEY])

    def test_zeros_at_the_end_are_cut(self, broker):
        fill(broker, 2)
        broker.disk.open(path(0, ".log")).append([bytes(4096)])
        again = broker.kill()
        assert (again.log().log_end_offset, again.log().size) == (2, 800)

    def test_a_wrong_crc_cuts_there_and_removes_what_follows(self, broker):
        fill(broker, 10)
        broker.sim().flip_bit(path(4, ".log"), 700)
        again = broker.kill()
        assert again.log().log_end_offset == 5
        assert [segment.base_offset for segment in again.log().segments] == [0, 2, 4]
        report = again.reports[KEY]
        assert report.removed_segments == 2
        assert report.cut_bytes == 400 + 1600

    def test_an_offset_that_goes_back_is_cut(self, broker):
        fill(broker, 2)
        broker.disk.open(path(0, ".log")).append([make_batch(base_offset=1)])
        assert broker.kill().log().log_end_offset == 2

    def test_a_batch_missing_at_the_end_of_a_segment_cuts_the_later_ones(self, broker):
        fill(broker, 6)
        broker.disk.open(path(2, ".log")).truncate(400)
        again = broker.kill()
        assert again.log().log_end_offset == 3
        assert again.log().active.base_offset == 2

    def test_a_compacted_log_may_have_such_gaps(self):
        broker = Broker(config=LogConfig(segment_bytes=1000, cleanup_policy=frozenset({"compact"})))
        fill(broker, 6)
        broker.disk.open(path(2, ".log")).truncate(400)
        again = broker.kill()
        assert again.log().log_end_offset == 6
        assert [record.offset for record in read_all(again.log())] == [0, 1, 2, 4, 5]

    @pytest.mark.parametrize("left", [0, 200], ids=["empty", "zeros"])
    def test_a_gap_before_the_end_of_a_compacted_log_is_a_loss(self, left):
        broker = Broker(config=LogConfig(segment_bytes=1000, cleanup_policy=frozenset({"compact"})))
        fill(broker, 5)
        broker.disk.open(path(2, ".log")).truncate(400)
        last = broker.disk.open(path(4, ".log"))
        last.truncate(0)
        last.append([bytes(left)])
        again = broker.kill()
        # Nobody could ever fetch up to 4, and without followers nothing may be appended there.
        assert again.log().log_end_offset == 3
        assert again.log().active.base_offset == 2

    @pytest.mark.parametrize(("compacted_below", "end"), [(4, 6), (3, 3)])
    def test_one_that_was_compacted_may_have_them_up_to_there(self, broker, compacted_below, end):
        fill(broker, 6)
        broker.disk.open(path(2, ".log")).truncate(400)
        write_offsets(broker.disk, f"/data/{CLEANER_OFFSETS}", {KEY: compacted_below})
        again = broker.kill()
        assert again.log().log_end_offset == end

    def test_a_follower_leaves_no_gap_between_segments(self, broker):
        batches = [make_batch([b"x" * 500], base_offset=offset) for offset in (0, 7, 20, 100)]
        broker.log().append_as_follower(b"".join(batches))
        assert len(broker.log().segments) == 4
        log = broker.kill().log()
        assert [record.offset for record in read_all(log)] == [0, 7, 20, 100]

    def test_what_was_appended_after_the_cut_is_found_the_next_time(self, broker):
        fill(broker, 2)
        broker.disk.open(path(0, ".log")).append([b"garbage"])
        again = broker.kill()
        append_values(again.log(), b"new")
        assert read_all(again.kill().log())[-1].value == b"new"


def test_rot_below_the_recovery_point_does_not_keep_the_log_from_opening(broker):
    fill(broker, 6)
    broker.flush(broker.log())
    broker.checkpoint()
    for base_offset in (2, 4):
        broker.disk.remove(path(base_offset, ".snapshot"))
    overwrite(broker, path(2, ".log"), bytes(800))
    log = broker.kill().log()
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert append_values(log, b"a").base_offset == 6
    with pytest.raises(CorruptRecords):
        log.read(3, 1 << 20, 7)


class TestRecoveryPoint:
    def test_segments_below_it_are_not_read(self, broker):
        fill(broker, 10)
        broker.flush(broker.log())
        broker.checkpoint()
        disk = broker.sim().kill()
        disk.faults.fail(Operation.OPEN, path(0, ""))
        assert Broker(disk, CONFIG).log().log_end_offset == 10

    def test_within_its_segment_no_crc_below_it_is_checked(self, broker):
        fill(broker, 1)
        broker.flush(broker.log())
        broker.checkpoint()
        fill(broker, 1)
        broker.sim().flip_bit(path(0, ".log"), 300)
        assert broker.kill().log().log_end_offset == 2

    def test_one_behind_the_end_is_lowered(self, broker):
        fill(broker, 4)
        broker.flush(broker.log())
        broker.checkpoint()
        broker.disk.open(path(2, ".log")).truncate(0)
        assert broker.kill().log().recovery_point == 2

    def test_missing_checkpoints_mean_that_all_is_checked(self, broker):
        fill(broker, 6)
        assert broker.kill().reports[KEY].recovered_segments == 3


class TestIndexes:
    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    @pytest.mark.parametrize("content", [None, b"", b"\x00" * 800, b"\xff" * 7, b"\x7f" * 48])
    def test_are_made_anew_after_a_crash(self, broker, suffix, content):
        fill(broker, 5)
        broker.disk.remove(path(0, suffix))
        if content is not None:
            overwrite(broker, path(0, suffix), content)
        again = broker.kill()
        assert len(read_all(again.log())) == 5
        again.manager.close({})
        assert verify_partition(again.disk, FOLDER) == []

    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    @pytest.mark.parametrize("content", [None, b"", b"\x00" * 48, b"\xff" * 7, b"\x7f" * 48])
    def test_of_closed_segments_are_made_anew_when_they_are_needed(self, broker, suffix, content):
        fill(broker, 5)
        broker.manager.close({})
        disk = broker.sim().kill()
        disk.remove(path(0, suffix))
        if content is not None:
            disk.open(path(0, suffix), create=True).append([content])
        log = Broker(disk, CONFIG).log()
        assert finish(log.search(0)).offset == 0
        assert len(read_all(log)) == 5
        assert verify_partition(disk, FOLDER) == []

    def test_without_a_log_are_removed(self, broker):
        fill(broker, 1)
        overwrite(broker, path(77, ".index"), b"\0" * 8)
        overwrite(broker, path(77, ".txnindex"), b"\0" * 34)
        again = broker.kill()
        assert not [name for name in again.disk.names(FOLDER) if "77" in name]


class TestProducers:
    def test_sequences_are_known_after_a_crash(self, broker):
        for sequence in range(8):
            append(broker.log(), make_batch([b"x" * 300], producer=(9, 0, sequence)))
        log = broker.kill().log()
        assert append(log, make_batch([b"x" * 300], producer=(9, 0, 7))).duplicate
        assert append(log, make_batch([b"x"], producer=(9, 0, 8))).base_offset == 8

    @pytest.mark.parametrize("content", [b"", b"\0\1garbage", None])
    @pytest.mark.parametrize("stop", ["kill", "stop"])
    def test_a_damaged_snapshot_costs_time_not_state(self, broker, content, stop):
        for sequence in range(8):
            append(broker.log(), make_batch([b"x" * 300], producer=(9, 0, sequence)))
        if stop == "stop":
            broker.manager.close({})
        disk = broker.sim().kill()
        snapshots = [name for name in disk.names(FOLDER) if name.endswith(".snapshot")]
        newest = f"{FOLDER}/{snapshots[-1]}"
        disk.remove(newest)
        if content is not None:
            disk.open(newest, create=True).append([content])
        log = Broker(disk, CONFIG).log()
        assert log.producers.get(9).last_sequence == 7

    def test_stray_snapshots_are_removed_except_the_newest(self, broker):
        fill(broker, 5)
        content = read_whole(broker.disk, path(2, ".snapshot"))
        broker.manager.close({})
        disk = broker.sim().kill()
        disk.open(path(3, ".snapshot"), create=True).append([content])
        again = Broker(disk, CONFIG)
        names = [name for name in again.disk.names(FOLDER) if name.endswith(".snapshot")]
        assert [int(name[:20]) for name in names] == [2, 4, 5]

    def test_a_snapshot_from_behind_the_end_is_removed(self, broker):
        fill(broker, 3)
        content = read_whole(broker.disk, path(2, ".snapshot"))
        broker.disk.open(path(99, ".snapshot"), create=True).append([content])
        assert not broker.kill().disk.exists(path(99, ".snapshot"))

    def test_aborted_transactions_are_listed_again(self, broker):
        log = broker.log()
        append(log, make_batch(producer=(9, 0, 0), transactional=True))
        log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        append(log, make_batch(producer=(9, 0, 1), transactional=True))
        overwrite(broker, path(0, ".txnindex"), b"garbage")
        log = broker.kill().log()
        expected = (AbortedTransaction(9, 0, 1, 2),)
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 3)) == expected
        log.producers.high_watermark_moved(3)
        assert log.first_unstable_offset == 2

    def test_an_abort_in_a_later_segment_than_its_first_record(self, broker):
        log = broker.log()
        append(log, make_batch([b"x" * 800], producer=(9, 0, 0), transactional=True))
        append(log, make_batch([b"x" * 800]))
        log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        log = broker.kill().log()
        expected = (AbortedTransaction(9, 0, 2, 3),)
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 3)) == expected


class TestEpochs:
    def test_are_read_from_the_batches(self, broker):
        for epoch in (0, 0, 3, 3, 7):
            append(broker.log(), sized_batch(400), epoch)
        assert broker.kill().log().epochs.entries == ((0, 0), (3, 2), (7, 4))

    def test_of_batches_that_were_cut_are_gone(self, broker):
        for epoch in (0, 3):
            append(broker.log(), sized_batch(400), epoch)
        broker.flush(broker.log())
        broker.disk.open(path(0, ".log")).truncate(400)
        assert broker.kill().log().epochs.entries == ((0, 0),)

    def test_of_another_history_are_gone(self, broker):
        """Epoch 5 was cut off and batches of epoch 4 took its place; then the process died."""
        log = broker.log()
        append_values(log, b"a", epoch=3)
        append_values(log, b"b", epoch=5)
        broker.flush(log)
        log.truncate_to(1)
        log.append_as_follower(make_batch(base_offset=1, leader_epoch=4))
        assert broker.kill().log().epochs.entries == ((3, 0), (4, 1))


class TestLogStart:
    def test_is_taken_from_the_checkpoint(self, broker):
        fill(broker, 4)
        broker.log().delete_records_before(3)
        broker.checkpoint()
        assert broker.kill().log().log_start_offset == 3

    def test_a_log_that_ends_before_its_start_begins_anew_there(self, broker):
        fill(broker, 4)
        broker.log().delete_records_before(4)
        broker.checkpoint()
        broker.disk.open(path(2, ".log")).truncate(0)
        log = broker.kill().log()
        assert (log.log_start_offset, log.log_end_offset) == (4, 4)
        assert append_values(log, b"a").base_offset == 4

    def test_an_empty_folder_is_an_empty_log(self, broker):
        broker.disk.make_folder("/data/other-3")
        again = broker.kill()
        assert [str(key) for key, _ in again.manager] == ["other-3"]


class TestInterruptedWork:
    def names(self, broker: Broker) -> list[str]:
        return [name for name in broker.disk.names(FOLDER) if segment_base(name) is not None]

    def test_deleted_and_cleaned_files_go(self, broker):
        fill(broker, 1)
        for suffix in (".log.deleted", ".index.deleted", ".log.cleaned", ".snapshot.tmp"):
            overwrite(broker, path(5, suffix), b"x")
        again = broker.kill()
        assert not [name for name in again.disk.names(FOLDER) if name.startswith(f"{5:020d}")]

    def test_a_finished_swap_takes_the_place_of_what_it_replaces(self, broker):
        fill(broker, 6)
        merged = b"".join(
            read_whole(broker.disk, path(base_offset, ".log")) for base_offset in (0, 2)
        )
        overwrite(broker, path(0, ".log.swap"), merged)
        overwrite(broker, path(0, ".index.swap"), b"")
        finish_interrupted(broker.disk, FOLDER)
        assert self.names(broker) == [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000004.index",
            "00000000000000000004.log",
            "00000000000000000004.timeindex",
        ]
        assert [record.offset for record in read_all(broker.kill().log())] == list(range(6))

    def test_a_swap_of_an_unfinished_split_goes(self, broker):
        fill(broker, 6)
        before = self.names(broker)
        overwrite(broker, path(0, ".log.swap"), b"half of it")
        overwrite(broker, path(0, ".log.cleaned"), b"half of it")
        finish_interrupted(broker.disk, FOLDER)
        assert self.names(broker) == before

    def test_a_swap_below_every_cleaned_file_is_finished(self, broker):
        fill(broker, 6)
        overwrite(broker, path(0, ".log.swap"), read_whole(broker.disk, path(0, ".log")))
        overwrite(broker, path(4, ".log.cleaned"), b"half of it")
        finish_interrupted(broker.disk, FOLDER)
        assert f"{0:020d}.log" in self.names(broker)
        assert len(read_all(broker.kill().log())) == 6


def test_messages_of_the_old_formats_are_recovered_too(broker):
    fill(broker, 1)
    old = message_set([Record(offset, NOW_MS + offset, b"k", b"v") for offset in (1, 2)], 1)
    broker.disk.open(path(0, ".log")).append([old])
    log = broker.kill().log()
    assert log.log_end_offset == 3
    assert finish(log.search(NOW_MS + 2)) == (NOW_MS + 2, 2, -1)
    assert append_values(log, b"new").base_offset == 3


def test_indexes_that_were_stored_after_the_last_flush_are_made_anew(broker):
    """A segment was flushed to its end and closed by the next append: its indexes are not synced.

    After a power cut a file may have its size and zeros. We rebuild such an index when it is read
    first, but Kafka, which may take the folder over, would not.
    """
    fill(broker, 2)
    broker.flush(broker.log())
    broker.checkpoint()
    fill(broker, 1)
    assert broker.log().recovery_point == broker.log().active.base_offset
    disk = broker.sim().kill()
    disk.remove(path(0, ".timeindex"))
    disk.open(path(0, ".timeindex"), create=True).append([bytes(12)])
    again = Broker(disk, CONFIG, boot_id="boot-2")
    assert len(again.log().segments) == 2
    again.manager.close({})
    assert verify_partition(disk, FOLDER) == []


@pytest.mark.parametrize(("flush_messages", "kept"), [(1, 3), (3, 3), (4, 0)])
def test_what_recovery_found_is_synced_where_flush_messages_asks_for_it(flush_messages, kept):
    broker = Broker(config=replace(CONFIG, flush_messages=flush_messages))
    append_values(broker.log(), b"a", b"b", b"c")
    killed = broker.kill()
    assert killed.log().log_end_offset == 3
    assert killed.log().recovery_point == kept
    assert killed.cut_power().log().log_end_offset == kept


def test_a_full_disk_does_not_keep_what_was_found_from_being_synced_and_opened():
    broker = Broker(config=replace(CONFIG, flush_messages=1))
    append_values(broker.log(), b"a", epoch=3)
    disk = broker.sim().kill()
    disk.faults.fail(Operation.CREATE, f"{FOLDER}/leader-epoch-checkpoint", code=errno.ENOSPC)
    again = Broker(disk, broker.config)
    assert again.log().log_end_offset == 1
    assert again.cut_power().log().log_end_offset == 1
