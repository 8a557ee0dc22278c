"""Chores: much work is spread over turns of the loop, and one broken log stops only itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kits.log_kit import FOLDER, TOPIC_ID, Broker, HandClock, append_values
from kits.partition_kit import make_partition
from moldau.base.errors import InvariantViolated
from moldau.base.ids import PartitionKey
from moldau.replication.partitions import Partitions
from moldau.server.upkeep.housekeeping import (
    INTERVAL_MIN_S,
    Chore,
    Housekeeping,
    keep_doing,
)
from moldau.sim.disk_faults import Operation
from moldau.sim.log_lines import log_lines
from moldau.sim.trace import Trace
from moldau.sim.world import World
from moldau.storage.checkpoints import read_open_mark
from moldau.storage.cuts import CutFile
from moldau.storage.flushing import Flusher
from moldau.storage.log import Log
from moldau.storage.topic_config import LogConfig

BROKEN, SOUND = PartitionKey("broken", 0), PartitionKey("sound", 0)


class InlineExecutor:
    """Runs everything at once, on the loop, and knows when it does."""

    is_running = False

    async def run(self, function, *arguments):
        self.is_running = True
        try:
            return function(*arguments)
        finally:
            self.is_running = False


class Removals:
    """A broker with files whose time has come, and how they are removed."""

    def __init__(self, monkeypatch):
        self.storage = Broker(config=LogConfig(segment_bytes=200, retention_bytes=0))
        log = self.storage.log()
        for number in range(20):
            append_values(log, b"%d" % number)
        log.retain(HandClock().now_ms, log.log_end_offset)
        self.storage.clock.now_ms += log.config.file_delete_delay_ms
        self.executor, self.lost = InlineExecutor(), []
        self.chores = Housekeeping(
            self.storage.manager, (), Flusher(self.executor), self.storage.clock, self.executor,
            None, lambda: self.lost.append("directory"), lambda: None,
        )  # fmt: skip
        self.were_off_loop = []
        remove = self.storage.disk.remove

        def watched(path):
            self.were_off_loop.append(self.executor.is_running)
            remove(path)

        monkeypatch.setattr(self.storage.disk, "remove", watched, raising=False)

    @property
    def left(self):
        return [name for name in self.storage.disk.names(FOLDER) if name.endswith(".deleted")]


def test_deleted_files_are_removed_by_the_executor(monkeypatch):
    removals = Removals(monkeypatch)
    assert len(removals.left) > 10
    asyncio.run(removals.chores.flush())
    assert removals.left == []
    assert len(removals.were_off_loop) > 10
    assert all(removals.were_off_loop)


def test_expired_cuts_are_removed_by_the_executor(monkeypatch):
    removals = Removals(monkeypatch)
    manager, disk = removals.storage.manager, removals.storage.disk
    path = f"{FOLDER}/{0:020}.log.8.1.cut"
    disk.open(path, create=True).close()
    (key,) = manager.directories[0].logs
    manager.directories[0].cuts[key] = (CutFile(path, 10, 1),)
    asyncio.run(removals.chores.retain())
    assert not disk.exists(path)
    assert removals.were_off_loop == [True]
    assert manager.directories[0].cuts == {}


def test_a_file_that_cannot_be_removed_takes_its_directory_offline(monkeypatch):
    removals = Removals(monkeypatch)
    removals.storage.sim().faults.fail(Operation.REMOVE, FOLDER)
    asyncio.run(removals.chores.flush())
    assert removals.lost == ["directory"]
    assert removals.storage.manager.directories[0].offline


def test_the_epoch_of_a_registration_is_written_by_the_executor(monkeypatch):
    removals, were_off_loop = Removals(monkeypatch), []
    disk, executor = removals.storage.disk, removals.executor
    open_folder = disk.open_folder

    def watched(path):
        were_off_loop.append(executor.is_running)
        return open_folder(path)

    monkeypatch.setattr(disk, "open_folder", watched, raising=False)
    asyncio.run(removals.chores.keep_broker_epoch(42))
    assert read_open_mark(disk, "/data").broker_epoch == 42
    assert were_off_loop == [True]


def test_an_epoch_that_finds_no_room_is_written_when_there_is_some(monkeypatch, caplog):
    removals = Removals(monkeypatch)
    disk = removals.storage.disk
    disk.faults.fill_up(0)
    asyncio.run(removals.chores.keep_broker_epoch(42))
    assert removals.storage.manager.directories[0].full
    assert "log directory /data is full, writes are refused" in caplog.text
    assert read_open_mark(disk, "/data").broker_epoch == 1
    disk.faults.heal()
    asyncio.run(removals.chores.flush())
    assert not removals.storage.manager.directories[0].full
    assert read_open_mark(disk, "/data").broker_epoch == 42


class Bench:
    """Two logs, of which the first has a violated invariant wherever a chore looks at it."""

    def __init__(self, monkeypatch):
        config = LogConfig(segment_bytes=1000, retention_bytes=0, flush_ms=0)
        self.storage = Broker(config=config)
        self.partitions = Partitions()
        for key in (BROKEN, SOUND):
            log = self.storage.log(key)
            self.partitions.add(make_partition(key, TOPIC_ID, log))
            append_values(log, b"value")
            log.roll()
            self.partitions.get(*key).advance()
        executor = InlineExecutor()
        self.chores = Housekeeping(
            self.storage.manager, self.partitions, Flusher(executor), HandClock(), executor,
            lambda: 0, lambda: None, lambda: None,
        )  # fmt: skip
        for name in ("retain", "flushed"):
            self.violate(monkeypatch, name)

    def violate(self, monkeypatch, name):
        method = getattr(Log, name)

        def guarded(log, *arguments):
            if log is self.log(BROKEN):
                raise InvariantViolated(f"{log}: broken")
            return method(log, *arguments)

        monkeypatch.setattr(Log, name, guarded)

    def log(self, key):
        return self.storage.manager.get(key)

    async def flush(self):
        """Flush both logs, which have something new."""
        for key in (BROKEN, SOUND):
            append_values(self.log(key), b"more")
        await self.chores.flush()


@pytest.mark.patches
class TestOneBrokenLog:
    @pytest.fixture
    def bench(self, monkeypatch):
        return Bench(monkeypatch)

    @pytest.fixture
    def errors(self, caplog):
        caplog.set_level(logging.ERROR)
        return lambda: caplog.records

    def test_retention_goes_on_with_the_others_and_says_so_once(self, bench, errors):
        for _ in range(2):
            asyncio.run(bench.chores.retain())
        assert bench.log(SOUND).log_start_offset == 1
        assert not bench.log(BROKEN).offline
        (error,) = errors()
        assert "a bug stops its retention" in error.getMessage()
        assert error.exc_info is None

    def test_so_does_the_flush(self, bench, errors):
        for _ in range(2):
            asyncio.run(bench.flush())
        assert bench.log(SOUND).unflushed_count == 0
        assert [one.getMessage().count("stops its flush") for one in errors()] == [1]

    def test_each_chore_says_it(self, bench, errors):
        asyncio.run(bench.flush())
        asyncio.run(bench.chores.retain())
        assert len(errors()) == 2

    def test_a_stop_closes_the_others_without_the_mark_of_a_clean_one(self, bench, errors):
        asyncio.run(bench.chores.close_logs(1))
        assert len(errors()) == 1
        reopened = bench.storage._next(bench.storage.sim().kill())
        assert not reopened.manager.directories[0].last_use.clean
        assert reopened.manager.get(SOUND).log_end_offset == 1

    def test_the_simulation_takes_it_for_a_bug(self, bench):
        with log_lines(Trace()) as lines:
            asyncio.run(bench.chores.retain())
        (bug,) = lines.bugs
        assert "broken" in bug


class EnoughTurnsError(Exception):
    """Ends a chore."""


def test_a_chore_without_an_interval_does_not_keep_the_loop_busy():
    turns = 0

    async def work():
        nonlocal turns
        turns += 1
        if turns == 50:
            raise EnoughTurnsError

    with World(1) as world:
        begun_s = world.clock.monotonic()
        with pytest.raises(EnoughTurnsError):
            world.run(keep_doing(Chore("eager", 0.0, work)))
        assert world.clock.monotonic() - begun_s == pytest.approx(50 * INTERVAL_MIN_S)
