"""Whole cleanings of logs on a simulated disk: what is left, and what calls them off."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kits.compaction_kit import (
    COMPACTED,
    clean,
    finish_cleaning,
    keyed_batch,
    pairs,
    records,
    roll_and_clean,
    start_cleaning,
    write,
)
from kits.log_kit import FOLDER, KEY, NOW_MS, Broker, append, marker, read_all, stored_batches
from moldau.base.errors import CorruptRecords, InvariantViolated
from moldau.base.files import read_whole
from moldau.records.batch import iter_batches
from moldau.records.compression import Codec
from moldau.records.legacy import message_set, read_message, unwrapped
from moldau.records.record import Record
from moldau.sim.disk_faults import Operation
from moldau.storage.compaction.keys import ENTRY_OVERHEAD
from moldau.storage.compaction.swap import CalledOff, Limits
from moldau.storage.compaction.work import (
    UNDER_WAY_MAX,
    CleaningLost,
    begin,
    give_up,
    go_on,
)
from moldau.storage.tail import Tail
from moldau.storage.verify import verify_partition


@pytest.fixture
def broker() -> Broker:
    return Broker(config=COMPACTED)


def newest(log) -> dict[bytes, bytes]:
    """What a reader who starts at the beginning ends with."""
    return {key: value for _, key, value in pairs(log) if value is not None}


def check_files(broker: Broker) -> None:
    """The folder is sound, and every index is what a rebuild would make."""
    log = broker.log()
    assert verify_partition(broker.disk, log.folder, compacted=True) == []
    for segment in log.segments[:-1]:
        tail = Tail.empty(segment.base_offset)
        for batch in segment.batches():
            tail.note(batch.position, *batch[2:5], log.config.index_interval_bytes)
        tail.close_times()
        assert read_whole(broker.disk, segment.stem + ".index") == tail.offsets.encode()
        assert read_whole(broker.disk, segment.stem + ".timeindex") == tail.times.encode()


class TestResult:
    def test_only_the_newest_of_every_key_is_left_at_its_offset(self, broker):
        log = broker.log()
        for number in range(40):
            write(log, (b"k%d" % (number % 4), b"v%d" % number), (b"once-%d" % number, b"o"))
        before = newest(log)
        outcome = roll_and_clean(broker)
        last_round = [(2 * n, b"k%d" % (n % 4), b"v%d" % n) for n in range(36, 40)]
        once = [(2 * n + 1, b"once-%d" % n, b"o") for n in range(40)]
        assert pairs(log) == sorted(last_round + once)
        assert newest(log) == before
        assert outcome.end_offset == log.active.base_offset == 80
        assert (outcome.read_records, outcome.written_records) == (80, 44)
        check_files(broker)

    def test_headers_and_timestamps_stay(self, broker):
        log = broker.log()
        stamps = [NOW_MS + 5, NOW_MS - 9, NOW_MS + 1]
        append(log, keyed_batch([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], timestamps=stamps))
        write(log, (b"a", b"4"))
        before = {record.offset: record for record in records(log)}
        roll_and_clean(broker)
        assert records(log) == [before[offset] for offset in (1, 2, 3)]

    def test_the_segment_being_written_is_never_touched(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        log.roll()
        write(log, (b"a", b"2"))
        write(log, (b"a", b"3"))
        clean(broker)
        assert [offset for offset, _, _ in pairs(log)] == [0, 1, 2]

    def test_small_segments_become_one(self, broker):
        log = broker.log()
        for number in range(30):
            write(log, (b"k%d" % (number % 3), b"v" * 40))
        assert len(log.segments) > 4
        roll_and_clean(broker)
        assert len(log.segments) > 2
        write(log, (b"new", b"v"))
        roll_and_clean(broker)
        assert [segment.base_offset for segment in log.segments] == [0, 31]
        names = broker.disk.names(FOLDER)
        assert [name for name in names if name.endswith(".log")] == [
            "00000000000000000000.log",
            "00000000000000000031.log",
        ]
        check_files(broker)

    def test_nothing_at_all_may_be_left_but_the_end(self, broker):
        log = broker.log()
        for _ in range(30):
            write(log, (b"k", b"v" * 40))
        log.roll()
        clean(broker, stable=log.log_end_offset)
        assert [offset for offset, _, _ in pairs(log)] == [29]
        assert log.log_end_offset == 30
        check_files(broker)

    def test_where_the_cleaned_part_ends_is_kept_though_its_last_batch_is_empty(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        write(log, (None, b"keyless"))
        roll_and_clean(broker)
        assert pairs(log) == [(0, b"a", b"1")]
        assert [batch.last_offset for batch in stored_batches(log)] == [0, 1]

    @pytest.mark.parametrize("codec", list(Codec))
    def test_any_codec_stays_what_it_was(self, broker, codec):
        log = broker.log()
        for number in range(10):
            write(log, (b"same", b"%d" % number), (b"k%d" % number, b"v" * 50), codec=codec)
        before = newest(log)
        roll_and_clean(broker)
        assert newest(log) == before
        assert {batch.header.codec for batch in stored_batches(log)} == {codec}
        assert len(records(log)) == 11

    def test_a_batch_larger_than_what_is_read_at_a_time_is_cleaned_too(self):
        broker = Broker(config=replace(COMPACTED, segment_bytes=100_000))
        log = broker.log()
        write(log, (b"a", b"1"), *[(b"k%d" % n, b"v" * 1000) for n in range(20)])
        write(log, (b"a", b"2"))
        roll_and_clean(broker, limits=Limits(1 << 20, 100))
        assert [offset for offset, _, _ in pairs(log)] == list(range(1, 22))
        check_files(broker)

    def test_readers_find_what_is_left_from_every_offset(self, broker):
        log = broker.log()
        for number in range(60):
            write(log, (b"k%d" % (number % 7), b"v" * 40))
        roll_and_clean(broker)
        left = [record.offset for record in records(log)]
        write(log, (b"end", b"v"))
        for offset in range(60):
            expected = [one for one in [*left, 60] if one >= offset]
            assert [record.offset for record in read_all(log, offset)] == expected

    def test_a_reader_in_the_middle_of_an_old_segment_goes_on(self, broker):
        log = broker.log()
        for number in range(30):
            write(log, (b"k%d" % (number % 3), b"v" * 40))
        region = log.read(0, 1 << 20, 30).regions[0]
        before = region.file.read(region.position, region.size)
        roll_and_clean(broker)
        assert region.file.read(region.position, region.size) == before

    def test_the_old_files_go_after_a_while(self, broker):
        log = broker.log()
        for _ in range(30):
            write(log, (b"k", b"v" * 40))
        roll_and_clean(broker)
        assert any(name.endswith(".deleted") for name in broker.disk.names(FOLDER))
        broker.clock.now_ms += 1000
        broker.remove_expired(broker.clock.now_ms)
        names = broker.disk.names(FOLDER)
        assert not [name for name in names if name.endswith((".deleted", ".swap", ".cleaned"))]
        assert len(read_all(log)) == 1

    def test_snapshots_of_segments_that_are_gone_go(self, broker):
        log = broker.log()
        for _ in range(30):
            write(log, (b"k", b"v" * 40))
        roll_and_clean(broker)
        write(log, (b"k", b"v"))
        roll_and_clean(broker)
        names = [name for name in broker.disk.names(FOLDER) if name.endswith(".snapshot")]
        bases = {f"{segment.base_offset:020d}.snapshot" for segment in log.segments}
        assert set(names) <= bases

    def test_a_cleaned_log_opens_again_as_it_was(self, broker):
        log = broker.log()
        for number in range(40):
            write(log, (b"k%d" % (number % 4), b"v%d" % number))
        roll_and_clean(broker)
        left = pairs(log)
        for end in (Broker.kill, Broker.cut_power, Broker.stop):
            broker = end(broker)
            assert pairs(broker.log()) == left
            assert broker.log().log_end_offset == 40

    def test_messages_of_old_formats_are_cleaned_in_their_form(self, broker):
        log = broker.log()
        old = [message_set([Record(n, NOW_MS, b"a", b"%d" % n)], 1) for n in range(2)]
        wrapped = [Record(2, NOW_MS, b"b", b"2"), Record(3, NOW_MS + 4, b"a", b"3")]
        old.append(message_set([*wrapped, Record(4, NOW_MS, b"c", None)], 1, Codec.GZIP))
        write(log, *[(b"x%d" % n, b"") for n in range(5)])
        write(log, (b"b", b"new"))
        log.roll()
        broker = broker.stop()
        broker.disk.open(f"{FOLDER}/{0:020d}.log").truncate(0)
        new = keyed_batch([(b"b", b"new")])
        moved = (5).to_bytes(8, "big") + new[8:]
        broker.disk.open(f"{FOLDER}/{0:020d}.log").append([*old, moved])
        broker = broker.kill()
        clean(broker)
        log = broker.log()
        assert _old_records(log) == [
            Record(3, NOW_MS + 4, b"a", b"3"),
            Record(4, NOW_MS, b"c", None),
        ]
        assert pairs(log) == [(5, b"b", b"new")]


def _old_records(log) -> list[Record]:
    found = []
    for segment in log.segments:
        content = segment.handle().read(0, segment.size)
        for span in iter_batches(content):
            if span.magic < 2:
                found += unwrapped(read_message(content, span))
    return found


class TestRounds:
    def test_a_cleaning_ends_where_there_is_no_more_room_for_keys(self, broker):
        log = broker.log()
        for number in range(40):
            write(log, (b"%02d" % (number % 20), b"v" * 40))
        log.roll()
        limits = Limits((ENTRY_OVERHEAD + 2) * 10, 256)
        outcome = clean(broker, limits=limits)
        assert (outcome.end_offset, outcome.key_count) == (10, 10)
        assert len(pairs(log)) == 40
        rounds = 1
        while broker.manager.dirt(KEY, 40).dirty_bytes:
            end = clean(broker, limits=limits).end_offset
            rounds += 1
        assert end == 40
        assert rounds == 4
        assert [offset for offset, _, _ in pairs(log)] == list(range(20, 40))

    def test_one_batch_that_fills_the_map_alone_is_passed(self, broker):
        log = broker.log()
        write(log, *[(b"%02d" % n, b"v") for n in range(20)])
        write(log, *[(b"%02d" % n, b"v") for n in range(20)])
        log.roll()
        limits = Limits(1, 256)
        assert clean(broker, limits=limits).end_offset == 20
        assert clean(broker, limits=limits).end_offset == 40
        assert [offset for offset, _, _ in pairs(log)] == list(range(20, 40))

    def test_where_it_ended_survives_a_restart(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        roll_and_clean(broker)
        checkpoint = read_whole(broker.disk, "/data/cleaner-offset-checkpoint")
        assert checkpoint == b"0\n1\norders 0 1\n"
        for end in (Broker.kill, Broker.stop):
            broker = end(broker)
            assert broker.manager.dirt(KEY, 1).first_dirty_offset == 1

    def test_a_deleted_log_leaves_no_trace_for_the_next_of_its_name(self, broker):
        write(broker.log(), (b"a", b"1"))
        roll_and_clean(broker)
        broker.manager.delete(KEY)
        log = broker.log()
        for _ in range(3):
            write(log, (b"a", b"1"))
        assert broker.manager.dirt(KEY, 3).first_dirty_offset == 0
        again = broker.kill()
        again.log()
        assert again.manager.dirt(KEY, 3).first_dirty_offset == 0

    def test_a_log_that_was_cut_is_dirty_from_there(self, broker):
        log = broker.log()
        for number in range(20):
            write(log, (b"k%d" % number, b"v" * 40))
        roll_and_clean(broker)
        log.truncate_to(7)
        for _ in range(20):
            write(log, (b"new", b"v" * 40))
        assert broker.manager.dirt(KEY, 27).first_dirty_offset == 7
        again = broker.kill()
        again.log()
        assert again.manager.dirt(KEY, 27).first_dirty_offset == 7

    def test_a_log_that_lost_its_end_is_all_dirty(self, broker):
        log = broker.log()
        for number in range(20):
            write(log, (b"k%d" % number, b"v" * 40))
        roll_and_clean(broker)
        broker.manager.close({})
        disk = broker.sim().kill()
        for name in disk.names(FOLDER):
            if name > "00000000000000000005":
                disk.remove(f"{FOLDER}/{name}")
        again = Broker(disk, COMPACTED, clock=broker.clock)
        end = again.log().log_end_offset
        assert end < 20
        assert again.manager.dirt(KEY, end).first_dirty_offset == 0


class TestTombstones:
    def test_a_deleted_key_is_gone_when_everybody_could_have_heard_of_it(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        write(log, (b"a", None))
        roll_and_clean(broker)
        assert pairs(log) == [(1, b"a", None)]
        write(log, (b"b", b"1"))
        broker.clock.now_ms += COMPACTED.delete_retention_ms - 1
        roll_and_clean(broker)
        assert pairs(log) == [(1, b"a", None), (2, b"b", b"1")]
        broker.clock.now_ms += 1
        write(log, (b"c", b"1"))
        roll_and_clean(broker)
        assert pairs(log) == [(2, b"b", b"1"), (3, b"c", b"1")]
        check_files(broker)

    def test_one_that_was_not_reached_keeps_its_form(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        write(log, (b"b", None))
        log.roll()
        clean(broker, limits=Limits(1, 256))
        assert [batch.header.has_delete_horizon for batch in stored_batches(log)] == [False] * 2


class TestProducers:
    def test_the_last_batch_of_each_stays_without_its_records(self, broker):
        log = broker.log()
        for sequence in range(3):
            append(log, keyed_batch([(b"a", b"1")], producer=(7, 0, sequence)))
        append(log, keyed_batch([(b"a", b"2"), (b"b", b"3")], producer=(8, 0, 0)))
        for number in range(5):
            write(log, (b"a", b"%d" % number), (b"b", b"%d" % number))
        roll_and_clean(broker)
        kept = [b for b in stored_batches(log) if b.header.producer_id >= 0]
        assert [(b.header.producer_id, b.base_offset, b.header.count) for b in kept] == [
            (7, 2, 0),
            (8, 3, 0),
        ]
        for end in (Broker.kill, Broker.stop):
            broker = end(broker)
            producers = broker.log().producers
            assert producers.get(7).last_sequence == 2
            assert producers.get(8).last_sequence == 1

    def test_a_producer_goes_on_where_it_was_after_a_cleaning_and_a_crash(self, broker):
        log = broker.log()
        append(log, keyed_batch([(b"a", b"1")], producer=(7, 0, 0)))
        write(log, (b"a", b"2"))
        roll_and_clean(broker)
        for name in broker.disk.names(FOLDER):
            if name.endswith(".snapshot"):
                broker.disk.remove(f"{FOLDER}/{name}")
        again = broker.kill()
        batch = keyed_batch([(b"a", b"1")], producer=(7, 0, 0))
        assert append(again.log(), batch).duplicate


class TestTransactions:
    def write(self, log, producer_id: int, sequence: int, *pairs_) -> None:
        batch = keyed_batch(pairs_, producer=(producer_id, 0, sequence), transactional=True)
        append(log, batch)

    def end(self, log, producer_id: int, *, aborted: bool) -> None:
        batch, header = marker(producer_id, 0, aborted=aborted)
        log.append_marker(batch, header, 0, transaction_version=1)
        log.producers.high_watermark_moved(log.log_end_offset)

    def controls(self, log) -> list[int]:
        return [b.base_offset for b in stored_batches(log) if b.header.control]

    def test_what_was_aborted_replaces_nothing_and_goes(self, broker):
        log = broker.log()
        write(log, (b"a", b"committed"))
        self.write(log, 7, 0, (b"a", b"aborted"), (b"b", b"aborted"))
        self.end(log, 7, aborted=True)
        roll_and_clean(broker)
        assert pairs(log) == [(0, b"a", b"committed")]
        check_files(broker)

    def test_the_marker_goes_only_after_its_records_and_its_time(self, broker):
        log = broker.log()
        self.write(log, 7, 0, (b"a", b"aborted"))
        self.end(log, 7, aborted=True)
        self.write(log, 7, 1, (b"a", b"committed"))
        self.end(log, 7, aborted=False)
        write(log, (b"z", b"end"))
        roll_and_clean(broker)
        assert self.controls(log) == [1, 3]
        write(log, (b"a", b"new"))
        roll_and_clean(broker)
        assert self.controls(log) == [1, 3]
        assert [b.header.count for b in stored_batches(log) if b.base_offset == 2] == [0]
        broker.clock.now_ms += COMPACTED.delete_retention_ms
        write(log, (b"b", b"new"))
        roll_and_clean(broker)
        # The empty batch of its producer's last sequence keeps its marker.
        assert self.controls(log) == [3]
        check_files(broker)

    def test_the_index_of_aborted_ones_follows_their_markers(self, broker):
        log = broker.log()
        self.write(log, 7, 0, (b"a", b"aborted"))
        self.write(log, 8, 0, (b"b", b"aborted"))
        log.roll()
        self.end(log, 7, aborted=True)
        self.end(log, 8, aborted=True)
        write(log, (b"z", b"end"))
        log.roll()
        clean(broker)
        entries = [one for segment in log.segments for one in segment.aborted()]
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in entries] == [
            (7, 0, 2),
            (8, 1, 3),
        ]
        check_files(broker)
        write(log, (b"a", b"new"))
        broker.clock.now_ms += 10
        roll_and_clean(broker)
        # Both producers' last batches are still there, empty, and so are their transactions.
        assert len([one for segment in log.segments for one in segment.aborted()]) == 2
        log.producers.remove_expired(broker.clock.now_ms + 10, 1)
        write(log, (b"a", b"newer"))
        roll_and_clean(broker)
        write(log, (b"a", b"newest"))
        roll_and_clean(broker)
        assert [one for segment in log.segments for one in segment.aborted()] == []

    def test_one_that_ends_behind_what_is_cleaned_is_known_as_aborted(self, broker):
        log = broker.log()
        write(log, (b"a", b"committed"))
        self.write(log, 7, 0, (b"a", b"aborted"))
        log.roll()
        self.end(log, 7, aborted=True)
        clean(broker)
        assert pairs(log) == [(0, b"a", b"committed")]

    def test_a_transaction_that_goes_on_keeps_everything_from_its_segment_on(self, broker):
        log = broker.log()
        write(log, (b"a", b"1"))
        write(log, (b"a", b"2"))
        log.roll()
        self.write(log, 7, 0, (b"a", b"undecided"))
        log.roll()
        clean(broker, stable=log.first_unstable_offset)
        assert [offset for offset, _, _ in pairs(log)] == [1, 2]


class TestCallingOff:
    def started(self, broker: Broker):
        log = broker.log()
        for number in range(40):
            write(log, (b"k%d" % (number % 4), b"v" * 40))
        log.roll()
        cleaning = start_cleaning(broker)
        step = begin(cleaning.plan, 1)
        while step.group is None:
            step = go_on(cleaning.plan.token, 1)
        return cleaning, step.group

    @pytest.mark.parametrize(
        "change",
        [
            lambda log: log.truncate_to(30),
            lambda log: log.truncate_fully_and_start_at(100),
            lambda log: (log.delete_records_before(20), log.retain(NOW_MS, 40)),
            lambda log: log.update_config(replace(COMPACTED, delete_retention_ms=7)),
            lambda log: log.let_go(),
        ],
        ids=["cut", "begun anew", "start deleted", "other configs", "deleted"],
    )
    def test_a_log_that_changed_is_not_swapped(self, broker, change):
        cleaning, group = self.started(broker)
        log = broker.log()
        change(log)
        before = list(log.segments)
        with pytest.raises(CalledOff):
            cleaning.swap_in(group)
        assert list(log.segments) == before
        cleaning.clear_away()
        assert not [n for n in broker.disk.names(FOLDER) if n.endswith(".cleaned")]

    def test_a_truncation_after_the_last_swap_calls_off_too(self, broker):
        cleaning, group = self.started(broker)
        step = None
        while step is None or step.outcome is None:
            if group is not None:
                cleaning.swap_in(group)
            step = go_on(cleaning.plan.token, 1)
            group = step.group
        cleaning.require_unchanged()
        log = broker.log()
        log.truncate_to(10)
        while log.log_end_offset < 50:
            write(log, (b"k0", b"dirty"))
        with pytest.raises(CalledOff):
            cleaning.require_unchanged()

    def test_a_group_of_other_segments_is_not_swapped(self, broker):
        cleaning, group = self.started(broker)
        before = list(broker.log().segments)
        other = group._replace(base_offsets=(group.base_offsets[0] + 1, *group.base_offsets[1:]))
        with pytest.raises(InvariantViolated, match="not the next segments"):
            cleaning.swap_in(other)
        assert list(broker.log().segments) == before
        assert not [n for n in broker.disk.names(FOLDER) if n.endswith((".swap", ".deleted"))]

    def test_appending_and_rolling_is_no_change(self, broker):
        cleaning, group = self.started(broker)
        for _ in range(20):
            write(broker.log(), (b"k0", b"v" * 40))
        cleaning.swap_in(group)
        check_files(broker)

    def test_appends_between_all_steps_are_kept(self, broker):
        log = broker.log()
        for number in range(40):
            write(log, (b"k%d" % (number % 4), b"v" * 40))
        log.roll()
        cleaning = start_cleaning(broker)
        finish_cleaning(broker, cleaning, between=lambda: write(log, (b"more", b"v")))
        assert [offset for offset, _, _ in pairs(log)] == list(range(36, log.log_end_offset))

    def test_a_worker_that_was_lost_has_forgotten(self, broker):
        cleaning, _ = self.started(broker)
        give_up(cleaning.plan.token)
        with pytest.raises(CleaningLost):
            go_on(cleaning.plan.token, 1)

    def test_those_that_were_never_given_up_are_forgotten_in_the_end(self, broker):
        cleaning, _ = self.started(broker)
        for number in range(UNDER_WAY_MAX):
            begin(replace(cleaning.plan, token=f"other {number}"), 1)
        with pytest.raises(CleaningLost):
            go_on(cleaning.plan.token, 1)

    def test_a_plan_pickles_with_its_disk(self, broker):
        cleaning, _ = self.started(broker)
        copy = pickle.loads(pickle.dumps(cleaning.plan))
        assert copy == cleaning.plan
        assert copy.files is broker.disk


class TestFaults:
    def test_a_wrong_checksum_is_noticed_before_anything_changes(self, broker):
        log = broker.log()
        write(log, (b"a", b"1" * 20))
        write(log, (b"a", b"2"))
        log.roll()
        broker.sim().flip_bit(log.segments[0].path, log.segments[0].size - 20)
        with pytest.raises(CorruptRecords, match="CRC"):
            clean(broker)
        assert log.segments[0].size

    def test_a_file_that_ends_in_half_a_batch_is_noticed(self, broker):
        log = broker.log()
        write(log, (b"a", b"1" * 20))
        log.roll()
        cleaning = start_cleaning(broker)
        broker.disk.open(log.segments[0].path).truncate(80)
        with pytest.raises(CorruptRecords, match="no whole batch"):
            finish_cleaning(broker, cleaning)

    @pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SYNC, Operation.CREATE])
    def test_a_disk_that_fails_while_writing_leaves_the_log_as_it_was(self, broker, operation):
        log = broker.log()
        for number in range(10):
            write(log, (b"k%d" % (number % 2), b"v" * 40))
        log.roll()
        cleaning = start_cleaning(broker)
        broker.sim().faults.fail(operation, FOLDER, times=1)
        with pytest.raises(OSError, match=r".+"):
            finish_cleaning(broker, cleaning)
        assert len(pairs(log)) == 10
        assert len(pairs(broker.kill().log())) == 10
