"""A crash at every named point of the storage floor, by a kill and by a power cut.

One scenario passes every point. It is run once for each point, ended there, and opened again on
the disk as the crash left it. A model says what must be there: after a kill, everything that was
appended; after a power cut, everything that was flushed; never anything that nobody wrote. An
operation under way may have happened or not, never by half.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

import moldau.storage
from kits.log_kit import (
    NOW_MS,
    Broker,
    HandClock,
    append,
    make_batch,
    marker,
    read_all,
    stored_batches,
)
from moldau.base.ids import PartitionKey
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.storage.crash_points import COMPACTION_POINTS, CRASH_POINTS
from moldau.storage.log import Log
from moldau.storage.producer_history import replay_batch
from moldau.storage.producers import ProducerStates
from moldau.storage.tail import Tail
from moldau.storage.time_search import finish
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition

CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=150, retention_ms=10_000, file_delete_delay_ms=1000
)
MAIN = PartitionKey("main", 0)
RESTARTED = PartitionKey("restarted", 0)
ROTTEN = PartitionKey("rotten", 0)
LOWERED = PartitionKey("lowered", 0)
SHORT_LIVED = PartitionKey("short-lived", 0)


@dataclass(frozen=True)
class State:
    """What one log must hold."""

    start: int = 0
    end: int = 0
    durable_end: int = 0
    values: dict[int, bytes] = field(default_factory=dict)

    def appended(self, values: list[bytes]) -> State:
        more = {self.end + number: value for number, value in enumerate(values)}
        return replace(self, end=self.end + len(values), values=self.values | more)

    def cut(self, end: int) -> State:
        start, durable_end = min(end, self.start), min(end, self.durable_end)
        return replace(self, start=start, end=end, durable_end=durable_end)


class Run:
    """The scenario, with a model beside every log."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.clock = HandClock()
        self.before: dict[PartitionKey, State] = {}
        self.after: dict[PartitionKey, State] = {}
        self.ever: dict[tuple[PartitionKey, int], set[bytes]] = {}
        self.written = 0
        self.epoch = 0
        self.sequence = 0

    def start(self, *, power: bool = False) -> None:
        self.broker = Broker(self.disk, CONFIG, clock=self.clock, boot_id="other" if power else "1")
        assert self.broker.manager.directories[0].failure is None

    def log(self, key: PartitionKey) -> Log:
        return self.broker.log(key)

    def do(self, key: PartitionKey, after: State, action: Callable[[], object]) -> None:
        """Carry out one operation; the model follows when it is done."""
        self.after[key] = after
        for offset, value in after.values.items():
            self.ever.setdefault((key, offset), set()).add(value)
        action()
        self.before[key] = after

    def state(self, key: PartitionKey) -> State:
        return self.before.get(key, State())

    # Operations

    def append(self, key: PartitionKey, count: int = 1, *, size: int = 60, epoch: int = 0) -> None:
        for _ in range(count):
            self.written += 1
            values = [b"%06d" % self.written + b"." * size]
            producer = (9, 0, self.sequence) if key == MAIN else (-1, -1, -1)
            batch = make_batch(values, timestamps=self.clock.now_ms, producer=producer)
            log = self.log(key)
            self.epoch = max(self.epoch, epoch)
            after = self.state(key).appended(values)
            self.do(key, after, partial(append, log, batch, self.epoch))
            self.sequence += key == MAIN

    def abort(self, key: PartitionKey) -> None:
        log = self.log(key)
        self.written += 1
        values = [b"%06d txn" % self.written]
        sequence = log.producers.get(11).last_sequence + 1 if log.producers.get(11) else 0
        batch = make_batch(values, producer=(11, 0, sequence), transactional=True)
        self.do(key, self.state(key).appended(values), lambda: append(log, batch, self.epoch))
        content, header = marker(11, 0, aborted=True)
        after = self.state(key).appended([b"\0\0\0\0\0\0"])
        self.do(
            key,
            after,
            lambda: log.append_marker(content, header, self.epoch, transaction_version=1),
        )

    def flush(self, key: PartitionKey) -> None:
        state = self.state(key)
        log = self.log(key)
        self.do(key, replace(state, durable_end=state.end), lambda: self.broker.flush(log))
        self.broker.checkpoint()

    def truncate(self, key: PartitionKey, end: int) -> None:
        log = self.log(key)
        self.do(key, self.state(key).cut(end), lambda: log.truncate_to(end))
        if key == MAIN:
            self.sequence = log.producers.get(9).last_sequence + 1

    def restart_log(self, key: PartitionKey, offset: int) -> None:
        log = self.log(key)
        after = State(offset, offset)
        self.do(key, after, lambda: log.truncate_fully_and_start_at(offset))

    def delete_records(self, key: PartitionKey, offset: int) -> None:
        log = self.log(key)
        after = replace(self.state(key), start=offset)
        self.do(key, after, lambda: log.delete_records_before(offset))
        self.broker.checkpoint()

    def retain(self) -> None:
        self.clock.now_ms += 20_000
        log = self.log(MAIN)
        state = self.state(MAIN)
        after = replace(state, start=state.end)
        self.do(MAIN, after, lambda: log.retain(self.clock.now_ms, state.end))

    def kill(self) -> None:
        self.disk = self.disk.kill()
        self.start()

    def stop(self) -> None:
        states = dict(self.before)
        self.after |= {key: replace(state, durable_end=state.end) for key, state in states.items()}
        self.broker.manager.close({})
        self.before = dict(self.after)
        self.disk = self.disk.kill()
        self.start()

    def spoil(self, key: PartitionKey, offset: int) -> None:
        """Let a batch rot that was never flushed, and start again."""
        log = self.log(key)
        for segment in log.segments:
            batch = segment.batch_holding(offset)
            if batch is not None:
                break
        self.after[key] = self.state(key).cut(offset)
        self.before[key] = self.after[key]
        self.disk.flip_bit(segment.path, batch.end_position - 1)
        self.kill()

    def leave_swap(self, key: PartitionKey) -> None:
        """Leave what a compaction leaves that was killed before the last step."""
        segment = self.log(key).segments[0]
        segment_files = [segment.path, *(p for p in segment.index_paths if self.disk.exists(p))]
        for path in segment_files:
            content = self.disk.open(path).read(0, self.disk.size(path))
            copy = self.disk.open(path + ".swap", create=True)
            copy.append([content])
            copy.sync()
        self.disk.sync_folder(self.log(key).folder)
        self.kill()

    def everything(self) -> None:
        """Pass every crash point."""
        self.start()
        self.append(MAIN, 4)
        self.flush(MAIN)
        self.append(MAIN, 12)
        self.abort(MAIN)
        self.append(MAIN, 3, epoch=1)
        for log in self.broker.manager.due_for_flush(self.clock.now_ms):
            self.broker.flush(log)
        self.truncate(MAIN, 9)
        self.append(MAIN, 9, epoch=2)
        self.flush(MAIN)
        self.append(MAIN, 3, epoch=2)
        self.truncate(MAIN, 16)
        self.append(MAIN, 2, epoch=3)
        self.append(RESTARTED, 9)
        self.stop()
        self.append(MAIN, 5, epoch=3)
        self.abort(MAIN)
        self.append(ROTTEN, 20)
        self.spoil(ROTTEN, 8)
        self.leave_swap(MAIN)
        self.restart_log(RESTARTED, 1000)
        self.append(RESTARTED, 2)
        self.append(LOWERED, 10)
        self.flush(LOWERED)
        self.delete_records(LOWERED, 7)
        self.truncate(LOWERED, 5)
        self.append(LOWERED, 3)
        self.flush(LOWERED)
        self.append(SHORT_LIVED, 2)
        self.before.pop(SHORT_LIVED)
        self.after.pop(SHORT_LIVED)
        self.broker.manager.delete(SHORT_LIVED)
        self.retain()
        self.append(MAIN, 6, epoch=3)
        self.clock.now_ms += 5000
        self.broker.remove_expired(self.clock.now_ms)
        self.flush(MAIN)
        self.stop()
        self.append(MAIN, 1, epoch=4)


def passed_points() -> dict[str, int]:
    with CrashPlan() as plan:
        Run(SimDisk(random.Random(0))).everything()
    return dict(plan.passed)


PASSED = passed_points()

OPENING_POINTS = [
    name
    for name in CRASH_POINTS
    if name.startswith(("recovery.", "segment.", "log.snapshot.", "manager.open."))
]


def values_of(log: Log) -> dict[int, bytes]:
    return {record.offset: record.value for record in read_all(log)}


def check_log(run: Run, key: PartitionKey, *, power: bool) -> None:
    before, after = run.state(key), run.after.get(key, State())
    log = run.broker.manager.get(key)
    if log is None:
        must_have = min(before.durable_end, after.durable_end) if power else before.end
        assert must_have == 0 or before.start == after.start == must_have, f"{key} is gone"
        return
    values = values_of(log)
    sure_end = min(before.end, after.end)
    if power:
        sure_end = min(before.durable_end, after.durable_end)
    assert sorted(values) == list(range(log.log_start_offset, log.log_end_offset)), "offsets"
    restarted = after.start > before.end
    if not restarted:
        assert log.log_end_offset >= sure_end, "something acknowledged is gone"
        assert log.log_start_offset <= max(before.start, after.start)
    if not power and not restarted:
        assert log.log_end_offset <= max(before.end, after.end)
    for offset, value in values.items():
        assert value in run.ever[key, offset], f"offset {offset} holds what nobody wrote there"
        if offset < sure_end:
            assert value == before.values.get(offset, value), f"offset {offset} changed"
    check_insides(log)


def check_insides(log: Log) -> None:
    """Indexes are what a rebuild would make, producer state is what a replay would make."""
    producers = ProducerStates()
    next_offset = None
    for segment in log.segments:
        tail = Tail.empty(segment.base_offset)
        for batch in segment.batches():
            assert next_offset in {None, batch.base_offset}
            next_offset = batch.last_offset + 1
            tail.note(batch.position, *batch[2:5], CONFIG.index_interval_bytes)
            replay_batch(producers, segment, batch)
        assert segment.indexes().offsets.encode() == tail.offsets.encode()
        if segment.size:
            assert segment.largest() == (tail.largest_timestamp, tail.largest_offset)
    for producer in producers:
        known = log.producers.get(producer.producer_id)
        assert known is not None
        assert known.last_sequence == producer.last_sequence
        assert known.epoch == producer.epoch
        assert known.transaction_first_offset == producer.transaction_first_offset
    epochs = {}
    for batch in stored_batches(log):
        if batch.last_offset >= log.log_start_offset:
            epochs.setdefault(batch.leader_epoch, max(batch.base_offset, log.log_start_offset))
    with_records = {e: start for e, start in log.epochs.entries if start < log.log_end_offset}
    assert with_records == epochs


def check_everything(run: Run, *, power: bool) -> None:
    for key in (MAIN, RESTARTED, ROTTEN, LOWERED):
        check_log(run, key, power=power)
    for key, log in run.broker.manager:
        leftovers = (".deleted", ".swap", ".cleaned", ".tmp")
        names = run.disk.names(log.folder)
        assert not [n for n in names if n.endswith(leftovers[1:])], f"{key}: {names}"


def check_goes_on(run: Run) -> None:
    """The logs can be written to, stopped in an orderly way, and are sound files then."""
    contents = {}
    for key, _ in list(run.broker.manager):
        log = run.log(key)
        append(log, make_batch([b"after the crash"]), leader_epoch=9)
        contents[key] = values_of(log)
    run.broker.manager.close({})
    for _, log in run.broker.manager:
        assert verify_partition(run.disk, log.folder) == []
    run.disk = run.disk.kill()
    run.start()
    assert run.broker.reports == {}
    for key, log in run.broker.manager:
        assert values_of(log) == contents[key]


def test_the_list_of_points_is_that_of_the_code():
    folder = Path(moldau.storage.__file__).parent
    called = set()
    for path in folder.rglob("*.py"):
        called |= set(re.findall(r'crash_point\("([^"]+)"\)', path.read_text()))
    assert called == {*CRASH_POINTS, *COMPACTION_POINTS}
    assert len(CRASH_POINTS) == len(set(CRASH_POINTS)) >= 25


def test_the_scenario_passes_every_point():
    assert set(PASSED) >= set(CRASH_POINTS)


@pytest.mark.parametrize("name", CRASH_POINTS)
def test_a_kill_loses_nothing(name):
    for hit in sorted({1, (PASSED[name] + 1) // 2, PASSED[name]}):
        run = Run(SimDisk(random.Random(hit)))
        with CrashPlan(name, hit=hit), pytest.raises(Crashed):
            run.everything()
        run.disk = run.disk.kill()
        run.start()
        check_everything(run, power=False)
        check_goes_on(run)


@pytest.mark.parametrize("name", CRASH_POINTS)
def test_a_power_cut_loses_nothing_that_was_flushed(name):
    for hit in sorted({1, (PASSED[name] + 1) // 2, PASSED[name]}):
        run = Run(SimDisk(random.Random(f"{name}{hit}")))
        with CrashPlan(name, hit=hit), pytest.raises(Crashed):
            run.everything()
        run.disk = run.disk.power_cut()
        run.start(power=True)
        check_everything(run, power=True)
        check_goes_on(run)


@pytest.mark.parametrize("seed", range(40))
def test_crashes_while_opening_after_a_crash_do_no_harm(seed):
    chance = random.Random(seed)
    run = Run(SimDisk(random.Random(seed)))
    name = chance.choice(CRASH_POINTS)
    with CrashPlan(name, hit=chance.randrange(PASSED[name]) + 1), pytest.raises(Crashed):
        run.everything()
    for _ in range(4):
        run.disk = run.disk.power_cut()
        plan = CrashPlan(chance.choice(OPENING_POINTS), hit=chance.randrange(3) + 1)
        with plan, suppress(Crashed):
            run.start(power=True)
    run.disk = run.disk.power_cut()
    run.start(power=True)
    check_everything(run, power=True)
    check_goes_on(run)


def test_another_boot_after_an_unclean_stop_is_told():
    run = Run(SimDisk(random.Random(1)))
    run.start()
    run.append(MAIN, 1)
    run.disk = run.disk.kill()
    run.start()
    assert run.broker.manager.last_broker_epoch == 1
    run.disk = run.disk.power_cut()
    run.start(power=True)
    assert run.broker.manager.last_broker_epoch == -1


def test_the_newest_timestamp_survives_everything():
    run = Run(SimDisk(random.Random(1)))
    run.everything()
    assert finish(run.log(MAIN).search(None)).timestamp >= NOW_MS
