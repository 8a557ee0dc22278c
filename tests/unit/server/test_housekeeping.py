"""Chores: much work is spread over turns of the loop, and one broken log stops only itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kits.log_kit import TOPIC_ID, Broker, HandClock, append_values
from kits.partition_kit import make_partition
from kits.slicing import count_turns
from moldau.base.errors import InvariantViolated
from moldau.base.ids import PartitionKey
from moldau.replication.partitions import Partitions
from moldau.server.upkeep.housekeeping import (
    FILES_PER_TURN,
    INTERVAL_MIN_S,
    Chore,
    Housekeeping,
    keep_doing,
)
from moldau.sim.log_lines import log_lines
from moldau.sim.trace import Trace
from moldau.sim.world import World
from moldau.storage.flushing import Flusher
from moldau.storage.log import Log
from moldau.storage.topic_config import LogConfig

COUNT = 100
BROKEN, SOUND = PartitionKey("broken", 0), PartitionKey("sound", 0)


class Logs:
    """Has only files whose time has come."""

    full_directories = ()

    def __init__(self):
        self.expired = COUNT

    def remove_expired(self, now_ms, limit):
        count = min(self.expired, limit)
        self.expired -= count
        return count

    def due_for_flush(self, now_ms):
        return []


def test_files_of_a_large_topic_are_removed_in_turns():
    logs = Logs()
    chores = Housekeeping(logs, (), None, HandClock(), None, None, None, None)
    assert asyncio.run(count_turns(chores.flush())) >= COUNT // FILES_PER_TURN
    assert not logs.expired


class InlineExecutor:
    """Runs everything at once, on the loop."""

    async def run(self, function, *arguments):
        return function(*arguments)


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
        assert not reopened.manager.directories[0].clean
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
