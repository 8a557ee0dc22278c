"""A crash at every named point of a compaction, by a kill and by a power cut.

One scenario passes every point; it is run once for each, ended there, and opened again on the disk
as the crash left it. Whatever the moment: a reader of committed records ends with the same map,
every record that is there is the one that was written at its offset, the files are sound, and the
next cleaning ends where the first would have.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest

from kits.compaction_kit import (
    COMPACTED,
    clean,
    committed,
    final_map,
    finish_cleaning,
    keyed_batch,
    records,
    start_cleaning,
    write,
)
from kits.log_kit import FOLDER, KEY, Broker, HandClock, append, marker
from moldau.records.control import end_transaction_marker
from moldau.records.record import Record
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.storage.crash_points import COMPACTION_POINTS
from moldau.storage.log import Log
from moldau.storage.verify import verify_partition

CONFIG = replace(COMPACTED, segment_bytes=900)
OPENING_POINTS = ("recovery.before_swap", "recovery.after_rename", "recovery.after_swap")


class Run:
    """The scenario, and what must be true after it, wherever it ends."""

    def __init__(self, disk: SimDisk) -> None:
        self.clock = HandClock()
        self.disk = disk
        self.written: dict[int, Record] = {}
        self.expected: dict[bytes, bytes] = {}
        self.end_offset = 0

    def open(self) -> Log:
        self.broker = Broker(self.disk, CONFIG, clock=self.clock)
        assert self.broker.manager.directories[0].failure is None
        log = self.broker.log()
        log.producers.high_watermark_moved(log.log_end_offset)
        return log

    def note(self, log: Log) -> None:
        """Everything is on the disk now, and this is what it says."""
        self.broker.flush(log)
        self.broker.checkpoint()
        self.written |= {record.offset: record for record in records(log)}
        self.expected = final_map(log)
        self.end_offset = log.log_end_offset

    def fill(self, log: Log, round_: int) -> None:
        for number in range(12):
            value = b"round %d, %d" % (round_, number)
            write(
                log, (b"k%d" % (number % 5), value), (b"once %d %d" % (round_, number), b"x" * 30)
            )
        sequence = 2 * round_
        for producer_id, aborted in ((7, True), (8, False)):
            batch = keyed_batch(
                [(b"k1", b"transaction %d of %d" % (round_, producer_id))],
                producer=(producer_id, 0, sequence),
                transactional=True,
            )
            append(log, batch)
            append(
                log,
                keyed_batch(
                    [(b"k2", b"t" * 30)],
                    producer=(producer_id, 0, sequence + 1),
                    transactional=True,
                ),
            )
            content, header = marker(producer_id, 0, aborted=aborted)
            log.append_marker(content, header, 0, transaction_version=1)
        write(log, (b"k3", None), (b"k4", b"end of round %d" % round_))
        log.producers.high_watermark_moved(log.log_end_offset)
        log.roll()

    def everything(self) -> None:
        log = self.open()
        for round_ in range(3):
            self.fill(log, round_)
            self.note(log)
            finish_cleaning(self.broker, start_cleaning(self.broker))
            self.clock.now_ms += 700

    def check(self) -> None:
        log = self.open()
        assert log.log_end_offset == self.end_offset
        for record in records(log):
            assert record == self.written[record.offset]
        assert final_map(log) == self.expected
        names = self.disk.names(FOLDER)
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        assert verify_partition(self.disk, FOLDER, compacted=True) == []
        self.check_what_was_cleaned(log)
        check_aborted(log)
        # Producers can be learned again from what is left.
        for producer_id in (7, 8):
            known = log.producers.get(producer_id)
            assert known is not None
            assert known.transaction_first_offset == -1

    def check_what_was_cleaned(self, log: Log) -> None:
        """What is said to be cleaned is: later cleanings will not look for older values there."""
        cleaned_end = self.broker.manager.directories[0].cleaner_offsets.get(KEY, 0)
        keys = [record.key for record in committed(log) if record.offset < cleaned_end]
        assert len(keys) == len(set(keys))

    def check_goes_on(self) -> None:
        log = self.broker.log()
        if log.active.size:
            log.roll()
        clean(self.broker)
        assert final_map(log) == self.expected
        assert verify_partition(self.disk, FOLDER, compacted=True) == []
        write(log, (b"after", b"the crash"))
        again = self.broker.stop()
        assert again.reports == {}
        again.log().producers.high_watermark_moved(again.log().log_end_offset)
        assert final_map(again.log()) == {**self.expected, b"after": b"the crash"}


def check_aborted(log: Log) -> None:
    """Every aborted transaction of which a batch is left, empty or not, is in the index.

    So may be others whose marker is left: they go with it.
    """
    open_producers: set[int] = set()
    markers, needed = [], set()
    for segment in log.segments:
        for batch in segment.batches():
            header = batch.header
            if header.control and header.count:
                content = segment.handle().read(batch.position, batch.size)
                if end_transaction_marker(content).aborted:
                    markers.append(batch.base_offset)
                    needed |= {batch.base_offset} if header.producer_id in open_producers else set()
                open_producers.discard(header.producer_id)
            elif header.transactional:
                open_producers.add(header.producer_id)
    found = [entry.last_offset for segment in log.segments for entry in segment.aborted()]
    assert needed <= set(found) <= set(markers)
    assert found == sorted(found)
    assert not open_producers


def passed_points() -> dict[str, int]:
    with CrashPlan() as plan:
        Run(SimDisk(random.Random(0))).everything()
    return dict(plan.passed)


PASSED = passed_points()


def crashed_run(name: str, hit: int) -> Run:
    run = Run(SimDisk(random.Random(f"{name} {hit}")))
    with CrashPlan(name, hit=hit), pytest.raises(Crashed):
        run.everything()
    return run


def hits(name: str) -> list[int]:
    """Choose the visits to crash at; between the renames of a swap every one is another state."""
    count = PASSED[name]
    if name == "compaction.swap.after_rename":
        return [*range(1, 8), *range(count - 7, count + 1)]
    return sorted({1, 2, count // 2, count} & set(range(1, count + 1)))


def test_the_scenario_passes_every_point():
    assert set(PASSED) >= set(COMPACTION_POINTS)


@pytest.mark.parametrize("name", COMPACTION_POINTS)
def test_a_kill_changes_nothing_that_a_reader_could_tell(name):
    for hit in hits(name):
        run = crashed_run(name, hit)
        run.disk = run.disk.kill()
        run.check()
        run.check_goes_on()


@pytest.mark.parametrize("name", COMPACTION_POINTS)
def test_a_power_cut_changes_nothing_that_a_reader_could_tell(name):
    for hit in hits(name):
        run = crashed_run(name, hit)
        run.disk = run.disk.power_cut()
        run.check()
        run.check_goes_on()


@pytest.mark.parametrize("seed", range(30))
def test_crashes_while_a_swap_is_finished_do_no_harm(seed):
    chance = random.Random(seed)
    name = chance.choice([point for point in COMPACTION_POINTS if ".swap." in point])
    run = crashed_run(name, chance.randrange(PASSED[name]) + 1)
    for _ in range(3):
        run.disk = run.disk.power_cut() if chance.random() < 0.5 else run.disk.kill()
        plan = CrashPlan(chance.choice(OPENING_POINTS), hit=chance.randrange(4) + 1)
        with plan, suppress(Crashed):
            run.open()
    run.disk = run.disk.power_cut()
    run.check()
    run.check_goes_on()


@pytest.mark.parametrize("opening_hit", range(1, 5))
def test_a_swap_finished_in_two_attempts_keeps_the_index_of_aborted_transactions(opening_hit):
    name = "compaction.swap.after_schedule_delete"
    # The last swaps are those of a segment with such an index.
    for hit in range(PASSED[name] - 2, PASSED[name] + 1):
        run = crashed_run(name, hit)
        run.disk = run.disk.kill()
        with CrashPlan("recovery.after_rename", hit=opening_hit), suppress(Crashed):
            run.open()
        run.disk = run.disk.kill()
        run.check()
