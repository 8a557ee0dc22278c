from __future__ import annotations

import pytest

from kits.log_kit import (
    FOLDER,
    NOW_MS,
    Broker,
    append,
    append_values,
    make_batch,
    marker,
    read_all,
    region_bytes,
    sized_batch,
    stored_batches,
)
from moldau.base.errors import CorruptRecords, StorageError
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.records.record import read_records
from moldau.sim.disk_faults import Operation
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.time_search import finish
from moldau.storage.topic_config import LogConfig


@pytest.fixture
def broker() -> Broker:
    return Broker(config=LogConfig(segment_bytes=1000, index_interval_bytes=200))


@pytest.fixture
def log(broker):
    return broker.log()


def names(broker: Broker, suffix: str) -> list[int]:
    found = [name for name in broker.disk.names(FOLDER) if name.endswith(suffix)]
    return [int(name.removesuffix(suffix)) for name in found]


class TestAppending:
    def test_offsets_are_given_out_in_order_and_the_bytes_stay_the_producers(self, log):
        batch = make_batch([b"a", b"b", b"c"])
        first = append(log, batch, leader_epoch=7)
        second = append(log, batch, leader_epoch=7)
        assert (first.base_offset, first.last_offset) == (0, 2)
        assert (second.base_offset, second.last_offset) == (3, 5)
        stored = region_bytes(log.read(3, 1 << 20, 6))
        assert stored[16:] == batch[16:]
        header = parse_header(stored)
        assert (header.base_offset, header.leader_epoch) == (3, 7)

    def test_a_segment_begins_when_the_next_batch_would_pass_its_size(self, broker, log):
        for _ in range(5):
            append(log, sized_batch(400))
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
        assert [segment.size for segment in log.segments] == [800, 800, 400]

    def test_a_batch_larger_than_a_segment_is_refused_and_changes_nothing(self, log):
        with pytest.raises(ApiError) as refused:
            append(log, sized_batch(1001))
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert log.log_end_offset == log.size == 0

    def test_leader_epochs_are_noted_where_they_begin(self, log):
        append_values(log, b"a", b"b", epoch=3)
        append_values(log, b"c", epoch=5)
        assert log.epochs.entries == ((3, 0), (5, 2))

    def test_a_full_disk_leaves_the_log_as_it_was(self, broker, log):
        append_values(log, b"good")
        broker.sim().faults.fill_up(after_size=30)
        with pytest.raises(StorageError):
            append_values(log, b"bad")
        assert log.log_end_offset == 1
        assert not log.offline
        broker.sim().faults.heal()
        append_values(log, b"good again")
        assert [record.value for record in read_all(log)] == [b"good", b"good again"]

    def test_a_write_that_cannot_be_taken_back_takes_the_log_offline(self, broker, log):
        broker.sim().faults.fail(Operation.APPEND, "/data", times=1)
        broker.sim().faults.fail(Operation.TRUNCATE, "/data", times=1)
        for _ in range(2):
            with pytest.raises(StorageError):
                append_values(log, b"bad")
        assert log.offline

    def test_a_failed_roll_can_be_tried_again(self, broker, log):
        append(log, sized_batch(900))
        broker.sim().faults.fail(Operation.CREATE, FOLDER, times=1)
        with pytest.raises(StorageError):
            append(log, sized_batch(900))
        append(log, sized_batch(900))
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        assert len(read_all(log)) == 2


class TestProducers:
    def test_a_batch_sent_twice_is_answered_with_its_first_offset(self, log):
        batch = make_batch([b"a", b"b"], producer=(9, 0, 0))
        append_values(log, b"other")
        first = append(log, batch)
        again = append(log, batch)
        assert (again.base_offset, again.last_offset, again.duplicate) == (1, 2, True)
        assert not first.duplicate
        assert log.log_end_offset == 3

    def test_a_gap_is_refused_and_nothing_is_written(self, log):
        append(log, make_batch(producer=(9, 0, 0)))
        with pytest.raises(ApiError) as refused:
            append(log, make_batch(producer=(9, 0, 5)))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert log.log_end_offset == 1

    def test_a_failed_write_leaves_no_trace_in_producer_state(self, broker, log):
        broker.sim().faults.fail(Operation.APPEND, "/data", times=1)
        batch = make_batch(producer=(9, 0, 0))
        with pytest.raises(StorageError):
            append(log, batch)
        assert not append(log, batch).duplicate

    def test_a_snapshot_lies_at_every_segments_start(self, broker, log):
        for _ in range(5):
            append(log, sized_batch(600))
        assert names(broker, ".snapshot") == [1, 2, 3, 4]

    def test_an_open_transaction_holds_the_stable_offset_back(self, log):
        append_values(log, b"before")
        append(log, make_batch(producer=(9, 0, 0), transactional=True))
        assert log.first_unstable_offset == 1
        log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        log.producers.high_watermark_moved(log.log_end_offset)
        assert log.first_unstable_offset is None

    def test_aborted_transactions_are_found_for_what_was_read(self, broker, log):
        append(log, make_batch(producer=(9, 0, 0), transactional=True))
        append_values(log, b"between")
        log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        append_values(log, b"after")
        expected = (AbortedTransaction(9, 0, 2, 3),)
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 4)) == expected
        assert log.aborted_transactions(3, log.read(3, 1 << 20, 4)) == ()
        assert names(broker, ".txnindex") == [0]

    def test_a_committed_transaction_is_not_listed(self, broker, log):
        append(log, make_batch(producer=(9, 0, 0), transactional=True))
        log.append_marker(*marker(9, 0, aborted=False), 0, transaction_version=1)
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 2)) == ()
        assert names(broker, ".txnindex") == []


class TestFollowing:
    def test_a_leaders_bytes_become_ours(self, log):
        leader = b"".join(
            make_batch([b"a", b"b"], base_offset=offset, leader_epoch=4) for offset in (0, 2, 4)
        )
        assert log.append_as_follower(leader) == len(leader)
        assert region_bytes(log.read(0, 1 << 20, 6)) == leader
        assert log.log_end_offset == 6
        assert log.epochs.entries == ((4, 0),)

    def test_a_cut_batch_at_the_end_is_left_out(self, log):
        batch = make_batch(base_offset=0, leader_epoch=0)
        assert log.append_as_follower(batch + batch[:50]) == len(batch)
        assert log.log_end_offset == 1

    def test_many_batches_are_spread_over_segments(self, log):
        batches = []
        for offset in range(7):
            batch = sized_batch(400)
            batches.append(offset.to_bytes(8, "big") + batch[8:])
        log.append_as_follower(b"".join(batches))
        assert [segment.size for segment in log.segments] == [800, 800, 800, 400]
        assert [record.offset for record in read_all(log)] == list(range(7))

    @pytest.mark.parametrize("kind", ["crc", "order"])
    def test_one_bad_batch_refuses_all(self, log, kind):
        good = make_batch(base_offset=0)
        bad = bytearray(make_batch(base_offset=1))
        if kind == "crc":
            bad[-1] ^= 1
        else:
            bad[:8] = bytes(8)
        with pytest.raises(CorruptRecords):
            log.append_as_follower(good + bytes(bad))
        assert log.log_end_offset == log.size == 0

    @pytest.mark.parametrize(("known", "sent"), [([], [4, 3]), ([4], [3]), ([4], [4, 5, 4])])
    def test_leader_epochs_never_go_down(self, log, known, sent):
        for epoch in known:
            append_values(log, b"a", epoch=epoch)
        end, size = log.log_end_offset, log.size
        batches = [
            make_batch(base_offset=offset, leader_epoch=epoch)
            for offset, epoch in enumerate(sent, end)
        ]
        with pytest.raises(CorruptRecords, match=f"leader epoch {sent[-1]} at offset"):
            log.append_as_follower(b"".join(batches))
        assert (log.log_end_offset, log.size) == (end, size)
        assert log.epochs.latest == max(known, default=-1)

    def test_a_gap_in_the_leaders_log_is_kept(self, log):
        log.append_as_follower(make_batch(base_offset=50))
        assert log.log_end_offset == 51
        assert [record.offset for record in read_all(log, 10)] == [50]

    def test_an_offset_far_ahead_begins_a_segment_there(self, broker, log):
        log.append_as_follower(make_batch(base_offset=5_000_000_000))
        assert [segment.base_offset for segment in log.segments] == [5_000_000_000]
        assert names(broker, ".log") == [5_000_000_000]

    def test_markers_reach_producer_state(self, log):
        batch, _ = marker(9, 0, aborted=True)
        opened = make_batch(producer=(9, 0, 0), transactional=True)
        log.append_as_follower(opened + (1).to_bytes(8, "big") + batch[8:])
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 2)) == (
            AbortedTransaction(9, 0, 1, 2),
        )


class TestReading:
    def test_a_region_starts_at_the_batch_that_holds_the_offset(self, log):
        for start in range(0, 9, 3):
            append_values(log, *(b"%d" % n for n in range(start, start + 3)))
        content = region_bytes(log.read(4, 1 << 20, 9))
        assert parse_header(content).base_offset == 3

    @pytest.mark.parametrize("end_offset", range(0, 10, 2))
    def test_nothing_at_or_above_the_end_is_served(self, log, end_offset):
        for _ in range(5):
            append_values(log, b"a", b"b")
        content = region_bytes(log.read(0, 1 << 20, end_offset))
        offsets = []
        while content:
            offsets += [record.offset for record in read_records(content)]
            content = content[parse_header(content).size :]
        assert offsets == list(range(end_offset))

    def test_an_end_inside_a_batch_leaves_that_batch_out(self, log):
        append_values(log, b"a", b"b")
        append_values(log, b"c", b"d")
        assert parse_header(region_bytes(log.read(0, 1 << 20, 3))).next_offset == 2
        assert log.read(0, 1 << 20, 3).size == log.read(0, 1 << 20, 2).size

    def test_the_first_batch_comes_whole_however_small_the_limit(self, log):
        append(log, sized_batch(300))
        append(log, sized_batch(300))
        result = log.read(0, 10, 2)
        assert (result.size, result.first_batch_cut) == (300, False)

    def test_behind_the_first_batch_limits_are_bytes(self, log):
        append(log, sized_batch(300))
        append(log, sized_batch(300))
        assert log.read(0, 450, 2).size == 450

    def test_without_that_wish_a_cut_first_batch_is_told(self, log):
        append(log, sized_batch(300))
        assert log.read(0, 10, 1, at_least_one=False)[1:3] == (10, True)
        assert log.read(0, 300, 1, at_least_one=False)[1:3] == (300, False)

    def test_a_read_ends_with_its_segment(self, log):
        for _ in range(4):
            append(log, sized_batch(500))
        assert log.read(0, 1 << 20, 4).size == 1000
        assert parse_header(region_bytes(log.read(2, 1 << 20, 4))).base_offset == 2

    def test_at_the_end_there_is_nothing(self, log):
        append_values(log, b"a")
        assert log.read(1, 1 << 20, 1).regions == ()

    @pytest.mark.parametrize("offset", [-1, 2])
    def test_an_offset_outside_is_out_of_range(self, log, offset):
        append_values(log, b"a")
        with pytest.raises(ApiError) as refused:
            log.read(offset, 1 << 20, 1)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_every_offset_can_be_read_in_a_log_of_many_segments(self, log):
        for number in range(100):
            append_values(log, *[b"%d" % number] * 3)
        for offset in range(300):
            content = region_bytes(log.read(offset, 1, 300))
            found = {record.offset: record.value for record in read_records(content)}
            assert found[offset] == b"%d" % (offset // 3)

    def test_a_failing_disk_is_a_storage_error(self, broker, log):
        append_values(log, b"a")
        append_values(log, b"b")
        broker.sim().faults.fail(Operation.READ, "/data")
        with pytest.raises(StorageError):
            log.read(0, 1, 2)


class TestLookingUpByTime:
    def test_the_first_record_not_older_is_found(self, log):
        append(log, make_batch([b"a", b"b"], timestamps=[100, 300]), 2)
        append(log, make_batch([b"c", b"d"], timestamps=[200, 400]), 3)
        found = {time: finish(log.search(time)) for time in (0, 100, 101, 300, 301, 400, 401)}
        assert found == {
            0: (100, 0, 2),
            100: (100, 0, 2),
            101: (300, 1, 2),
            300: (300, 1, 2),
            301: (400, 3, 3),
            400: (400, 3, 3),
            401: None,
        }

    def test_times_out_of_order_over_many_segments(self, log):
        stamps = [(number * 37) % 101 for number in range(200)]
        for stamp in stamps:
            append(log, make_batch(timestamps=stamp))
        for time in range(102):
            expected = next((n for n, stamp in enumerate(stamps) if stamp >= time), None)
            found = finish(log.search(time))
            assert (found and found.offset) == expected

    def test_records_before_the_logs_start_are_not_found(self, log):
        for stamp in (100, 200, 300):
            append(log, make_batch(timestamps=stamp))
        log.delete_records_before(1)
        assert finish(log.search(50)) == (200, 1, 0)

    def test_the_largest_timestamp_is_found_at_its_first_record(self, log):
        for stamp in (100, 500, 200, 500):
            append(log, make_batch([b"a", b"b"], timestamps=[50, stamp]))
        assert finish(log.search(None)) == (500, 3, 0)

    def test_an_empty_log_has_no_largest_timestamp(self, log):
        assert finish(log.search(None)) is None
        assert finish(log.search(0)) is None

    def test_segment_starts_by_age(self, log):
        for stamp in (100, 200, 300):
            append(log, sized_batch(900, timestamp=stamp))
        assert log.segment_starts(-1) == [0, 1, 2]
        assert log.segment_starts(200) == [0, 1]


class TestTruncating:
    def test_everything_above_goes(self, broker, log):
        for number in range(10):
            append(log, sized_batch(400), leader_epoch=number // 4)
        assert log.truncate_to(5)
        assert log.log_end_offset == 5
        assert [record.offset for record in read_all(log)] == list(range(5))
        assert log.epochs.entries == ((0, 0), (1, 4))
        assert names(broker, ".log") == [0, 2, 4]

    def test_to_a_segments_start(self, log):
        for _ in range(4):
            append(log, sized_batch(600))
        log.truncate_to(2)
        append(log, sized_batch(100))
        assert [record.offset for record in read_all(log)] == [0, 1, 2]

    def test_nothing_at_or_behind_the_end(self, log):
        append_values(log, b"a")
        assert not log.truncate_to(1)
        assert not log.truncate_to(9)

    def test_the_recovery_point_is_lowered_on_disk_before_the_bytes_go(self, broker, log):
        for _ in range(4):
            append(log, sized_batch(600))
        broker.flush(log)
        broker.checkpoint()
        log.truncate_to(1)
        assert log.recovery_point == 1
        points = broker.disk.open("/data/recovery-point-offset-checkpoint").read(0, 100)
        assert points == b"0\n1\norders 0 1\n"

    def test_the_recovery_point_is_lowered_to_the_start_of_a_batch_that_is_cut_whole(
        self, broker, log
    ):
        append_values(log, b"a", b"b", b"c", b"d")
        broker.flush(log)
        broker.checkpoint()
        log.truncate_to(3)
        assert log.recovery_point == log.log_end_offset == 0
        points = broker.disk.open("/data/recovery-point-offset-checkpoint").read(0, 100)
        assert points == b"0\n1\norders 0 0\n"

    def test_producer_state_goes_back_with_the_log(self, log):
        for sequence in range(6):
            append(log, make_batch([b"x" * 400], producer=(9, 0, sequence)))
        log.truncate_to(3)
        assert log.producers.get(9).last_sequence == 2
        assert not append(log, make_batch([b"y"], producer=(9, 0, 3))).duplicate

    def test_an_abort_that_was_cut_is_not_listed_any_more(self, log):
        append(log, make_batch(producer=(9, 0, 0), transactional=True))
        log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        log.truncate_to(1)
        assert log.first_unstable_offset == 0
        assert log.aborted_transactions(0, log.read(0, 1 << 20, 1)) == ()

    def test_a_flush_begun_before_proves_nothing(self, log):
        for _ in range(4):
            append_values(log, b"a")
        flush = log.prepare_flush()
        log.truncate_to(2)
        append_values(log, b"b")
        flush.run()
        log.flushed(flush)
        assert log.recovery_point == 0

    def test_fully_begins_anew_at_any_offset(self, broker, log):
        for _ in range(4):
            append(log, sized_batch(600))
        log.truncate_fully_and_start_at(1000)
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert names(broker, ".log") == [1000]
        assert log.epochs.entries == ()
        append_values(log, b"a")
        assert [record.offset for record in read_all(log)] == [1000]

    def test_below_the_first_segment_begins_anew_there(self, log):
        log.truncate_fully_and_start_at(1000)
        append_values(log, b"a")
        assert log.truncate_to(500)
        assert (log.log_start_offset, log.log_end_offset) == (500, 500)


class TestDeletingRecords:
    def test_the_start_moves_and_what_is_below_is_out_of_range(self, log):
        for _ in range(3):
            append_values(log, b"a")
        assert log.delete_records_before(2)
        assert log.log_start_offset == 2
        with pytest.raises(ApiError):
            log.read(1, 1 << 20, 3)
        assert log.epochs.entries == ((0, 2),)

    def test_it_never_moves_back(self, log):
        append_values(log, b"a")
        log.delete_records_before(1)
        assert not log.delete_records_before(0)
        assert log.log_start_offset == 1


class TestDurability:
    def test_a_flush_covers_what_was_there_when_it_was_prepared(self, log):
        append_values(log, b"a")
        flush = log.prepare_flush()
        append_values(log, b"b")
        flush.run()
        log.flushed(flush)
        assert (log.recovery_point, log.unflushed_count) == (1, 1)

    def test_nothing_new_needs_no_flush(self, broker, log):
        append_values(log, b"a")
        broker.flush(log)
        assert log.prepare_flush() is None

    def test_closing_leaves_every_file_kafka_expects(self, broker, log):
        append_values(log, b"a")
        broker.manager.close({})
        assert broker.disk.names(FOLDER) == [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "00000000000000000001.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]

    def test_an_unused_log_is_closed_without_touching_the_disk(self, broker, log):
        append_values(log, b"a")
        again = broker.stop()
        assert again.log().prepare_close() is None


def test_configs_take_effect_with_the_next_append(log):
    append(log, sized_batch(400))
    log.update_config(LogConfig(segment_bytes=500))
    append(log, sized_batch(400))
    assert len(log.segments) == 2
    assert all(batch.max_timestamp == NOW_MS for batch in stored_batches(log))
