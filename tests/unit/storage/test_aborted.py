"""What was aborted, as a `read_committed` fetch asks for it: found, kept in mind, and forgotten."""

from __future__ import annotations

import random

import pytest

from kits.log_kit import FOLDER, Broker, append, append_values, make_batch, marker
from moldau.sim.disk import SimDisk
from moldau.storage.indexes import ABORTED_ENTRY_SIZE, AbortedTransaction
from moldau.storage.log import Log
from moldau.storage.resources import Resources
from moldau.storage.segment import Segment
from moldau.storage.topic_config import LogConfig


class CountingDisk(SimDisk):
    """A disk that notes which indexes of aborted transactions are opened."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.opened: list[str] = []

    def open(self, path, *, create=False):
        if path.endswith(".txnindex"):
            self.opened.append(path.removeprefix(f"{FOLDER}/"))
        return super().open(path, create=create)


@pytest.fixture
def broker() -> Broker:
    return Broker(CountingDisk(), LogConfig(index_interval_bytes=1))


@pytest.fixture
def log(broker) -> Log:
    return broker.log()


def abort(log: Log, producer_id: int, sequence: int = 0) -> AbortedTransaction:
    """Write a transaction of one record and abort it."""
    first = append(log, make_batch(producer=(producer_id, 0, sequence), transactional=True))
    last = log.append_marker(*marker(producer_id, 0, aborted=True), 0, transaction_version=1)
    return AbortedTransaction(
        producer_id, first.base_offset, last.base_offset, last.base_offset + 1
    )


def seen(log: Log, offset: int, max_bytes: int = 1 << 20) -> tuple[AbortedTransaction, ...]:
    return log.aborted_transactions(offset, log.read(offset, max_bytes, log.log_end_offset))


def test_a_fetch_learns_of_its_own_range_alone(log):
    entries = [abort(log, 9, sequence) for sequence in range(50)]
    for number, entry in enumerate(entries):
        assert seen(log, entry.first_offset, 1) == (entry,)
        assert seen(log, entry.first_offset) == tuple(entries[number:])


def test_a_marker_some_segments_behind_is_found(log):
    append(log, make_batch(producer=(9, 0, 0), transactional=True))
    for _ in range(5):
        append_values(log, b"between")
        log.roll()
    log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
    expected = (AbortedTransaction(9, 0, 6, 7),)
    assert [seen(log, offset) for offset in range(7)] == [expected] * 7


def test_the_index_is_read_once_however_often_it_is_asked(broker, log):
    for sequence in range(3):
        abort(log, 9, sequence)
        log.roll()
    log = again(broker).log()
    opened = log._resources.files.opened
    for _ in range(4):
        assert len(seen(log, 0)) == 1
        assert len(seen(log, 2)) == 1
    assert opened == [f"{0:020d}.txnindex", f"{2:020d}.txnindex"]


def test_what_is_aborted_meanwhile_is_known_without_reading(broker, log):
    found = []
    for sequence in range(5):
        found.append(abort(log, 9, sequence))
        broker.disk.opened.clear()
        assert seen(log, 0) == tuple(found)
        assert broker.disk.opened == []


def test_a_log_without_any_is_not_searched(broker, log):
    for _ in range(20):
        append_values(log, b"a")
        log.roll()
    log = again(broker).log()
    assert [seen(log, offset) for offset in range(20)] == [()] * 20
    assert log._resources.files.opened == []


def test_segments_without_any_are_passed_over(broker, log):
    entry = abort(log, 9)
    for _ in range(20):
        append_values(log, b"a")
        log.roll()
    late = abort(log, 10)
    log = again(broker).log()
    opened = log._resources.files.opened
    assert seen(log, 0) == (entry,)
    assert seen(log, 10) == ()
    assert seen(log, late.first_offset) == (late,)
    assert opened == [f"{0:020d}.txnindex", f"{late.first_offset:020d}.txnindex"]


def test_cutting_and_writing_again_leaves_only_what_is_there(log):
    first = abort(log, 9)
    abort(log, 10)
    log.truncate_to(2)
    assert seen(log, 0) == (first,)
    second = abort(log, 11)
    assert seen(log, 0) == (first, second)
    log.truncate_to(1)
    append_values(log, b"a")
    assert seen(log, 0) == ()
    assert not log.active.has_aborted


def test_what_retention_takes_is_forgotten(broker, log):
    abort(log, 9)
    log.roll()
    kept = abort(log, 10)
    log.delete_records_before(2)
    assert log.retain(broker.clock.wall_ms(), log.log_end_offset) == 1
    assert seen(log, 2) == (kept,)
    assert [log.segments[one] for one in log._segments.aborting_from(0)] == [log.active]


def test_a_cache_too_small_for_all_gives_the_same_answers():
    disk = CountingDisk()
    disk.make_folder("/log")
    broker = Broker(disk)
    resources = Resources(
        disk, broker.clock, random.Random(2), aborted_bytes=2 * ABORTED_ENTRY_SIZE
    )
    segments = [Segment.create(resources, "/log", base, LogConfig()) for base in (0, 100)]
    expected: dict[int, list[AbortedTransaction]] = {0: [], 100: []}
    for number in range(3):
        for segment in segments:
            offset = segment.base_offset + 2 * number
            entry = AbortedTransaction(9, offset, offset + 1, offset + 2)
            segment.add_aborted(entry)
            expected[segment.base_offset].append(entry)
            for one in segments:
                assert list(one.aborted()) == expected[one.base_offset]
            assert resources.aborted.size <= 2 * ABORTED_ENTRY_SIZE


def again(broker: Broker) -> Broker:
    """Stop in an orderly way and start on the same disk, with nothing in mind."""
    broker.manager.close({})
    broker.manager.release()
    broker.disk.opened.clear()
    return Broker(broker.disk, broker.config, clock=broker.clock)
