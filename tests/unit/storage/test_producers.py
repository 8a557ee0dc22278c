"""Idempotence and open transactions of one log, as Kafka keeps them."""

import struct
from collections import OrderedDict

import pytest
from crc32c import crc32c

from moldau.base.errors import CorruptRecords
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.storage.disk import Disk
from moldau.storage.producer_snapshot import (
    format_snapshot,
    parse_entries,
    parse_snapshot,
    read_snapshot,
    snapshot_name,
)
from moldau.storage.producers import EXPECTED_MAX, Origin, ProducerStates

SEQUENCE_MAX = 2**31 - 1
COMMIT = EndTransactionMarker(aborted=False, coordinator_epoch=3)
ABORT = EndTransactionMarker(aborted=True, coordinator_epoch=3)


def batch(sequence, *, producer_id=7, epoch=0, count=1, transactional=False, offset=0, time=1000):
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        base_offset=offset,
    )
    for _ in range(count):
        builder.append(time, None, b"v")
    return builder.build()


def header(sequence, **settings):
    return parse_header(batch(sequence, **settings))


def marker_header(producer_id=7, epoch=0, marker=COMMIT, offset=0):
    content = end_transaction_batch(marker, producer_id, epoch, 2000, base_offset=offset)
    return parse_header(content)


class Log:
    """As much of a log as gives out offsets."""

    def __init__(self):
        self.states = ProducerStates()
        self.end = 0

    def send(self, sequence, **settings):
        """Return the first offset of the batch, given now or the first time."""
        sent = header(sequence, **settings)
        known = self.states.check(sent)
        if known is not None:
            return known.first_offset
        base_offset, self.end = self.end, self.end + sent.count
        self.states.apply(sent, base_offset)
        return base_offset

    def end_transaction(self, marker=COMMIT, **settings):
        ended = marker_header(marker=marker, **settings)
        self.states.check_marker(ended, marker, 0)
        offset, self.end = self.end, self.end + 1
        return self.states.apply_marker(ended, marker, offset)


class Watched(OrderedDict):
    """Counts how many of its keys are looked at."""

    seen_count = 0

    def __iter__(self):
        for key in super().__iter__():
            self.seen_count += 1
            yield key


@pytest.fixture
def log():
    return Log()


def refused(code):
    return pytest.raises(ApiError, check=lambda error: error.code is code)


class TestSequences:
    def test_batches_in_order_are_taken(self, log):
        assert [log.send(s, count=2) for s in (0, 2, 4)] == [0, 2, 4]

    def test_a_batch_without_producer_leaves_no_trace(self, log):
        log.send(-1, producer_id=-1, epoch=-1)
        assert len(log.states) == 0

    def test_a_batch_sent_again_is_answered_with_its_first_offsets(self, log):
        log.send(0, count=3)
        log.send(3, count=2, time=1234)
        log.send(5)
        duplicate = log.states.check(header(3, count=2))
        assert (duplicate.first_offset, duplicate.last_offset, duplicate.timestamp) == (3, 4, 1234)
        assert duplicate.first_sequence == 3

    def test_five_batches_are_remembered_and_the_sixth_is_not(self, log):
        for sequence in range(6):
            log.send(sequence)
        assert [log.send(s) for s in range(1, 6)] == [1, 2, 3, 4, 5]
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(0)

    def test_a_gap_is_refused_and_changes_nothing(self, log):
        log.send(0)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(2)
        assert log.send(1) == 1

    def test_the_same_start_with_another_length_is_not_a_duplicate(self, log):
        log.send(0, count=3)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(0, count=2)

    @pytest.mark.parametrize("sequence", [0, 5, SEQUENCE_MAX])
    def test_an_unknown_producer_may_begin_anywhere(self, log, sequence):
        assert log.send(sequence) == 0

    def test_producers_are_counted_apart(self, log):
        log.send(0, producer_id=1)
        assert log.send(0, producer_id=2) == 1

    def test_after_the_last_sequence_comes_0(self, log):
        log.send(SEQUENCE_MAX)
        assert log.send(0) == 1

    def test_a_batch_may_lie_across_the_wrap(self, log):
        log.send(SEQUENCE_MAX - 1, count=4)
        producer = log.states.get(7)
        assert producer.last_sequence == 1
        assert producer.batches[0].first_sequence == SEQUENCE_MAX - 1
        assert log.send(SEQUENCE_MAX - 1, count=4) == 0
        assert log.send(2) == 4

    def test_a_coordinator_writes_without_sequences(self, log):
        for offset in range(2):
            commit = header(-1, transactional=True)
            assert log.states.check(commit, Origin.COORDINATOR) is None
            log.states.apply(commit, offset)
        assert log.states.get(7).batches[-1].first_sequence == -1


class TestEpochs:
    def test_an_older_epoch_is_fenced(self, log):
        log.send(0, epoch=5)
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            log.send(1, epoch=4)
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            log.states.check(header(-1, epoch=4), Origin.COORDINATOR)

    def test_a_new_epoch_begins_at_0(self, log):
        log.send(8, epoch=0)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(9, epoch=1)
        assert log.send(0, epoch=1) == 1

    def test_a_new_epoch_forgets_the_batches_of_the_old(self, log):
        log.send(0, epoch=0)
        log.send(0, epoch=1)
        assert log.send(0, epoch=1) == 1
        assert len(log.states.get(7).batches) == 1

    def test_a_marker_of_a_higher_epoch_starts_the_sequences_anew(self, log):
        log.send(0, transactional=True)
        log.end_transaction(epoch=1)
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            log.send(1, epoch=0, transactional=True)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(1, epoch=1, transactional=True)
        assert log.send(0, epoch=1, transactional=True) == 2

    def test_a_marker_of_the_same_epoch_keeps_the_sequences(self, log):
        log.send(0, transactional=True)
        log.end_transaction()
        assert log.send(1, transactional=True) == 2


class TestTransactions:
    def test_all_is_stable_without_transactions(self, log):
        log.send(0)
        assert log.states.first_unstable_offset is None

    def test_the_first_record_of_the_first_open_transaction_is_unstable(self, log):
        log.send(0, producer_id=1)
        log.send(0, producer_id=2, transactional=True)
        log.send(0, producer_id=3, transactional=True)
        log.send(1, producer_id=2, transactional=True)
        assert log.states.first_unstable_offset == 1

    def test_a_closed_transaction_is_unstable_until_its_marker_is_replicated(self, log):
        log.send(0, transactional=True)
        log.end_transaction()
        assert log.states.first_unstable_offset == 0
        log.states.high_watermark_moved(1)
        assert log.states.first_unstable_offset == 0
        log.states.high_watermark_moved(2)
        assert log.states.first_unstable_offset is None

    def test_closed_in_any_order_the_first_that_began_counts(self, log):
        for producer_id in range(5):
            log.send(0, producer_id=producer_id, transactional=True)
        for producer_id in (3, 1, 4, 0, 2):
            log.end_transaction(producer_id=producer_id)
        firsts = []
        for high_watermark in range(5, 11):
            log.states.high_watermark_moved(high_watermark)
            firsts.append(log.states.first_unstable_offset)
        assert firsts == [0, 0, 0, 0, 2, None]

    def test_however_many_are_open_only_the_first_is_looked_at(self, log):
        for producer_id in range(1000):
            log.send(0, producer_id=producer_id, transactional=True)
        states = log.states
        states._ongoing = watched = Watched(states._ongoing)
        for sequence in range(10):
            log.send(sequence, producer_id=1000, transactional=True)
            log.end_transaction(producer_id=1000)
            states.high_watermark_moved(log.end)
        assert states.first_unstable_offset == 0
        assert watched.seen_count <= 2 * 10

    def test_a_marker_tells_what_it_closed(self, log):
        log.send(0, producer_id=1, transactional=True)
        log.send(0, producer_id=2, transactional=True)
        log.send(1, producer_id=1, transactional=True)
        assert log.end_transaction(ABORT, producer_id=1) == (1, 0, 3, 1, True)
        assert log.end_transaction(COMMIT, producer_id=2) == (2, 1, 4, 5, False)
        assert log.states.first_unstable_offset == 0

    def test_a_marker_without_records_closes_nothing(self, log):
        assert log.end_transaction(ABORT, producer_id=99) is None
        assert log.states.first_unstable_offset is None
        assert log.states.get(99).coordinator_epoch == 3

    def test_a_batch_outside_the_open_transaction_is_refused(self, log):
        log.send(0, transactional=True)
        with refused(ErrorCode.INVALID_TXN_STATE):
            log.send(1)

    def test_an_older_coordinator_is_fenced(self, log):
        log.send(0, transactional=True)
        log.end_transaction(EndTransactionMarker(aborted=True, coordinator_epoch=9))
        with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
            log.end_transaction(EndTransactionMarker(aborted=True, coordinator_epoch=8))

    def test_a_marker_of_an_older_epoch_is_fenced(self, log):
        log.send(0, epoch=2, transactional=True)
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            log.end_transaction(epoch=1)

    def test_version_2_refuses_a_late_marker_but_not_a_repeated_one(self, log):
        """KIP-890: each transaction ends under an epoch of its own."""
        log.send(0, epoch=4, transactional=True)
        late, repeated = marker_header(epoch=4), marker_header(epoch=5)
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            log.states.check_marker(late, COMMIT, 2)
        log.states.check_marker(late, COMMIT, 1)
        log.end_transaction(epoch=5)
        log.states.check_marker(repeated, COMMIT, 2)

    def test_markers_before_the_start_of_the_log_no_longer_matter(self, log):
        log.send(0, transactional=True)
        log.end_transaction()
        log.states.log_start_moved(2)
        assert log.states.first_unstable_offset is None
        assert log.states.get(7) is not None


class TestExpiry:
    def test_idle_producers_are_forgotten(self, log):
        log.send(0, producer_id=1, time=1000)
        log.send(0, producer_id=2, time=1500)
        assert log.states.remove_expired(now_ms=2000, expiration_ms=1000) == 1
        assert log.states.get(1) is None
        assert log.states.get(2) is not None
        assert log.send(17, producer_id=1) == 2

    def test_one_with_an_open_transaction_is_not(self, log):
        log.send(0, transactional=True, time=1000)
        assert log.states.remove_expired(now_ms=10**9, expiration_ms=1000) == 0


class TestReplay:
    def test_a_log_read_again_yields_the_same_state(self):
        content = [
            batch(0, count=2, offset=0, transactional=True),
            batch(3, producer_id=8, epoch=2, offset=2),
            batch(2, offset=3, transactional=True),
            end_transaction_batch(ABORT, 7, 0, 5, base_offset=4),
            batch(-1, producer_id=-1, epoch=-1, offset=5),
            batch(3, offset=6, transactional=True),
        ]
        states = ProducerStates()
        completed = [states.replay(parse_header(each), each) for each in content]
        assert completed == [None, None, None, (7, 0, 4, 5, True), None, None]
        assert states.first_unstable_offset == 0
        states.high_watermark_moved(5)
        assert states.first_unstable_offset == 6
        assert states.get(7).last_sequence == 3
        assert states.get(7).coordinator_epoch == 3
        assert [(b.first_sequence, b.first_offset) for b in states.get(7).batches] == [
            (0, 0),
            (2, 3),
            (3, 6),
        ]

    def test_a_control_batch_that_compaction_emptied_means_nothing(self):
        content = end_transaction_batch(ABORT, 7, 0, 5)
        emptied = parse_header(content)._replace(count=0)
        states = ProducerStates()
        assert states.replay(emptied, content) is None
        assert len(states) == 0

    def test_what_a_leader_once_took_is_not_judged_again(self):
        states = ProducerStates()
        states.replay(header(0, epoch=5), batch(0, epoch=5))
        older = batch(9, epoch=4, offset=1)
        states.replay(parse_header(older), older)
        assert states.get(7).epoch == 4


class TestSnapshot:
    def test_the_bytes_are_kafkas(self, log):
        log.send(2, count=3, epoch=1, time=1234, transactional=True)
        body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 4, 2, 2, 1234, -1, 0)
        expected = struct.pack(">hI", 1, crc32c(body)) + body
        assert format_snapshot(log.states) == expected

    def test_the_last_batch_of_each_producer_and_its_transaction_survive(self, log, tmp_path):
        for sequence in range(3):
            log.send(sequence, transactional=True)
        log.send(0, producer_id=8, time=50)
        log.end_transaction(ABORT, producer_id=9)
        path = tmp_path / snapshot_name(log.end)
        path.write_bytes(format_snapshot(log.states))
        again = ProducerStates(read_snapshot(Disk(), str(path)))
        assert again.first_unstable_offset == 0
        assert again.check(header(2, transactional=True)).first_offset == 2
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            again.check(header(1, transactional=True))
        assert again.get(9).coordinator_epoch == 3
        assert format_snapshot(again) == format_snapshot(log.states)

    def test_all_batches_that_may_be_repeated_survive_in_a_complete_one(self, log):
        for sequence in range(6):
            log.send(sequence, transactional=True)
        log.send(0, producer_id=8)
        content = format_snapshot(log.states, complete=True)
        again = ProducerStates(parse_snapshot(content))
        for sequence in range(1, 6):
            assert again.check(header(sequence, transactional=True)).first_offset == sequence
        assert again.first_unstable_offset == 0
        assert again.check(header(0, producer_id=8)).first_offset == 6
        assert format_snapshot(again, complete=True) == content

    def test_kafka_takes_the_last_entry_of_a_producer_which_is_its_own_form(self, log):
        for sequence in range(6):
            log.send(sequence, transactional=True)
        entries = parse_entries(format_snapshot(log.states, complete=True))
        assert [one.last_sequence for one in entries] == [1, 2, 3, 4, 5]
        assert [one.transaction_first_offset for one in entries] == [-1, -1, -1, -1, 0]
        assert entries[-1:] == parse_entries(format_snapshot(log.states))

    def test_the_name_is_the_offset_in_twenty_digits(self):
        assert snapshot_name(170410) == "00000000000000170410.snapshot"

    def test_open_transactions_are_in_order_after_loading(self, log):
        log.send(0, producer_id=9, transactional=True)
        log.send(0, producer_id=1, transactional=True)
        again = ProducerStates(parse_snapshot(format_snapshot(reversed(list(log.states)))))
        assert again.first_unstable_offset == 0
        completed = again.apply_marker(marker_header(producer_id=9), COMMIT, 2)
        assert completed.last_stable_offset == 1

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda c: b"", "too short"),
            (lambda c: b"\0\2" + c[2:], "version 2 is not known"),
            (lambda c: c[:-1], "CRC"),
            (lambda c: c[:20] + bytes([c[20] ^ 1]) + c[21:], "CRC"),
            (lambda c: sealed(struct.pack(">i", 2) + c[10:]), "2 entries in 46 bytes"),
            (lambda c: sealed(struct.pack(">i", -1) + c[10:]), "-1 entries"),
        ],
    )
    def test_damage_is_found(self, log, tmp_path, damage, message):
        log.send(0)
        path = tmp_path / "00000000000000000001.snapshot"
        path.write_bytes(damage(format_snapshot(log.states)))
        with pytest.raises(CorruptRecords, match=message) as caught:
            read_snapshot(Disk(), str(path))
        assert str(path) in str(caught.value)


def sealed(body):
    return struct.pack(">hI", 1, crc32c(body)) + body


class TestTurnedAway:
    """The first batch of a producer that was told to come back, and those behind it (KIP-890)."""

    def test_what_was_sent_behind_it_waits_for_it(self, log):
        log.states.expect(header(0, transactional=True))
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(1, transactional=True)
        assert log.send(0, transactional=True) == 0
        assert log.send(1, transactional=True) == 1

    def test_the_earliest_of_several_comes_first(self, log):
        for sequence in (3, 1, 2):
            log.states.expect(header(sequence))
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(2)
        assert log.send(1) == 0

    def test_a_new_epoch_waits_for_nothing_of_the_one_before(self, log):
        log.states.expect(header(0, epoch=1))
        log.states.expect(header(5, epoch=0))
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(3, epoch=1)
        assert log.send(7, epoch=2) == 0

    def test_a_known_producer_is_held_to_its_sequences_as_ever(self, log):
        log.send(0)
        log.states.expect(header(5))
        assert log.send(1) == 1

    def test_others_do_not_wait(self, log):
        log.states.expect(header(0))
        assert log.send(9, producer_id=8) == 0

    def test_of_too_many_the_oldest_is_forgotten(self, log):
        for producer_id in range(EXPECTED_MAX + 1):
            log.states.expect(header(0, producer_id=producer_id))
        assert log.send(4, producer_id=0) == 0
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.send(4, producer_id=1)

    def test_a_log_that_was_cut_waits_for_nobody(self, log):
        log.states.expect(header(0))
        log.states.clear()
        assert log.send(4) == 0


def test_markers_are_counted_for_each_producer():
    states = ProducerStates()
    states.apply_marker(marker_header(7), COMMIT, 0)
    states.apply_marker(marker_header(7), ABORT, 1)
    assert [states.marker_count(producer_id) for producer_id in (7, 8)] == [2, 0]
