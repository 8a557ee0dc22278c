"""The cleaner of a broker on virtual time: what it picks, how fast it is, what stops it."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace

import pytest

from kits.compaction_kit import COMPACTED, keyed_batch, pairs, write
from kits.log_kit import TOPIC_ID, Broker, append, marker
from kits.partition_kit import make_partition
from moldau.base.errors import StorageError
from moldau.base.executor import WorkerLost
from moldau.base.files import read_whole
from moldau.base.ids import BrokerId, LeaderEpoch, PartitionKey
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.topic_configs import log_config, log_defaults
from moldau.server.upkeep.compaction import KEY_BYTES_MAX, REST_MIN_S, CleanerSettings, Compaction
from moldau.server.upkeep.index_repair import IndexRepair
from moldau.sim.disk_faults import Operation
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World
from moldau.storage.compaction.swap import Cleaning, Limits
from moldau.storage.flushing import Flusher
from moldau.storage.log import Log
from moldau.storage.topic_config import LogConfig

FIRST, SECOND = PartitionKey("first", 0), PartitionKey("second", 0)
SETTINGS = CleanerSettings(True, 15.0, Limits(1 << 20, 1024), 1e300)


class Bench:
    """A log manager, its partitions, and the cleaner."""

    def __init__(
        self,
        world: World,
        settings: CleanerSettings = SETTINGS,
        storage: Broker | None = None,
    ) -> None:
        self.world = world
        self.storage = storage or Broker(config=COMPACTED, clock=world.clock)
        self.partitions = Partitions()
        self.executor = SimExecutor(world)
        self.settings = settings
        self.failures: list[StorageError] = []
        self.repair = IndexRepair(
            self.storage.disk, self.executor, self.executor, self.failures.append
        )
        self.cleaner = Compaction(
            self.storage.manager,
            self.partitions,
            Flusher(self.executor),
            world.clock,
            self.executor,
            lambda: self.settings,
            self.failures.append,
            self.repair.ask,
        )

    def restarted(self, config: LogConfig) -> Bench:
        """The same after an orderly stop, with the logs there were."""
        bench = Bench(self.world, self.settings, self.storage.stop())
        for partition in self.partitions.snapshot():
            bench.log(partition.key, config)
            bench.partitions.get(*partition.key).advance()
        return bench

    def log(self, key: PartitionKey, config: LogConfig = COMPACTED) -> Log:
        log = self.storage.manager.open_or_create(key, TOPIC_ID, config)
        node = BrokerId(1)
        role = Role(node, LeaderEpoch(0), 0, (node,), (node,))
        if self.partitions.get(*key) is None:
            self.partitions.add(make_partition(key, TOPIC_ID, log, role))
        return log

    def fill(self, key: PartitionKey, batches: int = 20, config: LogConfig = COMPACTED) -> Log:
        log = self.write(key, batches, config)
        self.storage.flush(log)
        return log

    def write(self, key: PartitionKey, batches: int = 20, config: LogConfig = COMPACTED) -> Log:
        """Fill a log and close its last segment, with nothing synced yet."""
        log = self.log(key, config)
        for number in range(batches):
            write(log, (b"k%d" % (number % 2), b"v" * 60))
        log.roll()
        self.partitions.get(*key).advance()
        return log


def on_bench(scenario, seed: int = 1, settings: CleanerSettings = SETTINGS):
    with World(seed) as world:
        bench = Bench(world, settings)
        return world.run(scenario(bench))


def offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in pairs(log)]


def test_the_settings_are_those_of_the_broker():
    values = BrokerSettings.load(
        "node.id=1\nlog.cleaner.dedupe.buffer.size=1000\nlog.cleaner.backoff.ms=250\n"
        "log.cleaner.io.max.bytes.per.second=5e3\nlog.cleaner.enable=false\n"
    ).values
    assert CleanerSettings.of(values) == (False, 0.25, Limits(900, 262_144), 5000.0)
    defaults = CleanerSettings.of(BrokerSettings.load("node.id=1").values)
    assert (defaults.enabled, defaults.backoff_s) == (True, 15.0)
    assert defaults.limits == Limits(120_795_955, 262_144)


def test_no_number_of_a_setting_stops_the_cleaner_or_makes_it_run_without_rest():
    values = BrokerSettings.load(
        "node.id=1\nlog.cleaner.io.buffer.load.factor=1e308\nlog.cleaner.backoff.ms=0\n"
        "log.cleaner.io.max.bytes.per.second=0\n"
    ).values
    settings = CleanerSettings.of(values)
    assert settings.limits.key_bytes == KEY_BYTES_MAX
    assert (settings.backoff_s, settings.max_bytes_per_second) == (REST_MIN_S, 1.0)


def test_a_rest_without_end_ends_when_the_setting_is_changed():
    async def scenario(bench):
        task = asyncio.create_task(bench.cleaner.run())
        await asyncio.sleep(1)
        log = bench.fill(FIRST)
        await asyncio.sleep(1000)
        assert len(offsets(log)) == 20
        bench.settings = SETTINGS
        await asyncio.sleep(20)
        assert offsets(log) == [18, 19]
        task.cancel()

    on_bench(scenario, settings=SETTINGS._replace(backoff_s=(2**63 - 1) / 1000))


@pytest.mark.parametrize("seed", range(5))
def test_a_dirty_log_is_cleaned_and_that_is_written_down(seed):
    async def scenario(bench):
        log = bench.fill(FIRST)
        assert await bench.cleaner.clean_dirtiest()
        assert offsets(log) == [18, 19]
        content = read_whole(bench.storage.disk, "/data/cleaner-offset-checkpoint")
        assert content == b"0\n1\nfirst 0 20\n"
        assert not await bench.cleaner.clean_dirtiest()

    on_bench(scenario, seed)


def test_what_was_closed_but_not_synced_yet_is_cleaned_with_the_rest():
    async def scenario(bench):
        bench.fill(FIRST, 16)
        log = bench.write(FIRST, 4)
        assert log.recovery_point < log.active.base_offset
        assert await bench.cleaner.clean_dirtiest()
        assert offsets(log) == [18, 19]

    on_bench(scenario)


def test_what_was_seen_and_cleaned_is_told():
    async def scenario(bench):
        work = bench.cleaner.work
        bench.fill(FIRST)
        await asyncio.sleep(5)
        looked_s = bench.world.clock.monotonic()
        await bench.cleaner.clean_dirtiest()
        assert (work.max_dirty_ratio, work.last_look_s) == (1.0, looked_s)
        assert work.max_clean_s > 0
        assert work.read_bytes > work.written_bytes > 0
        read_bytes = work.read_bytes
        await bench.cleaner.clean_dirtiest()
        assert (work.max_dirty_ratio, work.read_bytes) == (0.0, read_bytes)

    on_bench(scenario)


def test_the_dirtiest_comes_first_and_clean_ones_not_at_all():
    async def scenario(bench):
        first, second = bench.fill(FIRST), bench.fill(SECOND)
        bench.fill(PartitionKey("plain", 0), config=LogConfig(segment_bytes=700))
        await bench.cleaner.clean_dirtiest()
        await bench.cleaner.clean_dirtiest()
        bench.fill(FIRST, 1)
        bench.fill(SECOND, 9)
        sizes = first.size, second.size
        assert await bench.cleaner.clean_dirtiest()
        assert first.size == sizes[0]
        assert second.size < sizes[1]

    on_bench(scenario)


def test_a_log_below_its_ratio_waits():
    async def scenario(bench):
        config = replace(COMPACTED, min_cleanable_dirty_ratio=0.5)
        bench.fill(FIRST, config=config)
        assert await bench.cleaner.clean_dirtiest()
        bench.fill(FIRST, 1, config)
        assert not await bench.cleaner.clean_dirtiest()
        bench.fill(FIRST, 9, config)
        assert await bench.cleaner.clean_dirtiest()

    on_bench(scenario)


def test_it_rests_when_there_is_nothing_to_do_and_looks_again():
    async def scenario(bench):
        task = asyncio.create_task(bench.cleaner.run())
        await asyncio.sleep(1)
        log = bench.fill(FIRST)
        await asyncio.sleep(13)
        assert len(offsets(log)) == 20
        await asyncio.sleep(2)
        assert offsets(log) == [18, 19]
        task.cancel()

    on_bench(scenario)


def test_turned_off_it_cleans_nothing():
    async def scenario(bench):
        log = bench.fill(FIRST)
        task = asyncio.create_task(bench.cleaner.run())
        await asyncio.sleep(100)
        assert len(offsets(log)) == 20
        task.cancel()

    on_bench(scenario, settings=SETTINGS._replace(enabled=False))


def test_a_throttled_cleaner_takes_its_time():
    async def scenario(bench):
        log = bench.fill(FIRST)
        size = log.size
        before = bench.world.loop.time()
        await bench.cleaner.clean_dirtiest()
        # All of it is read twice, and what is left is written once.
        moved = 2 * size + log.size
        elapsed = bench.world.loop.time() - before
        assert moved / 100 <= elapsed <= moved / 100 + 5

    on_bench(scenario, settings=SETTINGS._replace(max_bytes_per_second=100.0))


@pytest.mark.parametrize("change", ["delete", "cut", "config"])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_changes_meanwhile_calls_its_cleaning_off(change, seed):
    async def scenario(bench):
        log = bench.fill(FIRST)
        cleaning = asyncio.create_task(bench.cleaner.clean_dirtiest())
        await asyncio.sleep(0.5)
        if change == "delete":
            bench.partitions.remove(FIRST)
            bench.storage.manager.delete(FIRST)
        elif change == "cut":
            log.truncate_to(7)
        else:
            log.update_config(replace(COMPACTED, segment_bytes=900))
        assert not await cleaning
        assert bench.failures == []
        assert list(bench.cleaner.uncleanable) == []
        if change == "config":
            bench.settings = SETTINGS
            assert await bench.cleaner.clean_dirtiest()
            assert offsets(log) == [18, 19]

    on_bench(scenario, seed, SETTINGS._replace(max_bytes_per_second=1000.0))


def test_a_log_that_is_cut_while_it_is_read_is_not_taken_for_damaged(caplog):
    async def scenario(bench):
        log = bench.fill(FIRST, 40)
        cut_into = log.segments[1]
        size, compute = cut_into.size, bench.executor.compute

        async def cut_and_compute(*work):
            if log.log_end_offset == 40:
                log.truncate_to(cut_into.base_offset + 1)
                assert 0 < cut_into.size < size
            return await compute(*work)

        bench.executor.compute = cut_and_compute
        assert not await bench.cleaner.clean_dirtiest()
        assert list(bench.cleaner.uncleanable) == []
        assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
        bench.write(FIRST)
        assert await bench.cleaner.clean_dirtiest()

    on_bench(scenario)


def test_a_log_that_is_cut_during_the_last_sync_gets_no_cleaner_offset(monkeypatch):
    async def scenario(bench):
        log = bench.fill(FIRST, 40)
        sync = Cleaning.sync

        def cut_and_sync(cleaning):
            log.truncate_to(10)
            sync(cleaning)

        monkeypatch.setattr(Cleaning, "sync", cut_and_sync)
        assert not await bench.cleaner.clean_dirtiest()
        assert log.log_end_offset == 10
        (directory,) = bench.storage.manager.directories
        assert directory.cleaner_offsets.get(FIRST, 0) <= 10

    on_bench(scenario)


def test_one_that_cannot_be_cleaned_is_left_alone_and_the_others_go_on(caplog):
    async def scenario(bench):
        rotten, sound = bench.fill(FIRST), bench.fill(SECOND)
        segment = rotten.segments[0]
        bench.storage.sim().flip_bit(segment.path, segment.size - 10)
        results = [await bench.cleaner.clean_dirtiest() for _ in range(3)]
        assert results.count(True) == 1
        assert offsets(sound) == [18, 19]
        assert list(bench.cleaner.uncleanable) == [FIRST]
        assert not rotten.offline

    with caplog.at_level(logging.ERROR):
        on_bench(scenario)
    assert [record.message for record in caplog.records] == [
        "first-0 cannot be cleaned: the batch at offset 4 does not match its CRC"
    ]


def test_a_segment_that_would_be_too_large_a_file_costs_its_log_alone(caplog):
    async def scenario(bench):
        log = bench.fill(FIRST)
        size = log.size
        bench.storage.sim().faults.fail(Operation.APPEND, "/data/first-0", code=errno.EFBIG)
        assert not await bench.cleaner.clean_dirtiest()
        assert (list(bench.cleaner.uncleanable), bench.failures) == ([FIRST], [])
        assert (log.size, log.offline) == (size, False)

    with caplog.at_level(logging.ERROR):
        on_bench(scenario)
    assert [record.message for record in caplog.records] == [
        "first-0 cannot be cleaned: /data/first-0: File too large"
    ]


def test_a_damaged_index_of_aborted_transactions_is_made_anew_and_the_log_cleaned_then():
    async def scenario(bench):
        log = bench.log(FIRST)
        write(log, (b"k0", b"kept"))
        aborted = keyed_batch([(b"k0", b"aborted")], producer=(7, 0, 0), transactional=True)
        append(log, aborted)
        log.append_marker(*marker(7, 0, aborted=True), 0, transaction_version=1)
        log.roll()
        bench.fill(FIRST, 1, replace(COMPACTED, min_cleanable_dirty_ratio=0.0))
        path = log.segments[0].transactions_path
        stored = read_whole(bench.storage.disk, path)
        bench.storage.disk.open(path).truncate(33)
        task = asyncio.create_task(bench.repair.run())
        assert not await bench.cleaner.clean_dirtiest()
        await asyncio.sleep(5)
        assert read_whole(bench.storage.disk, path) == stored
        assert await bench.cleaner.clean_dirtiest()
        assert b"aborted" not in [value for _, _, value in pairs(log)]
        assert list(bench.cleaner.uncleanable) == []
        task.cancel()

    on_bench(scenario)


def test_one_whose_age_cannot_be_read_does_not_stop_the_cleaner(caplog):
    async def scenario(bench):
        rotten = bench.fill(FIRST).segments[0]
        bench.fill(SECOND)
        bench.storage.sim().flip_bit(rotten.path, 16)
        config = replace(COMPACTED, max_compaction_lag_ms=1000)
        bench = bench.restarted(config)
        first, sound = bench.log(FIRST, config), bench.log(SECOND, config)
        task = asyncio.create_task(bench.cleaner.run())
        await asyncio.sleep(100)
        assert not task.done()
        assert offsets(sound) == [18, 19]
        assert list(bench.cleaner.uncleanable) == [FIRST]
        assert not first.offline
        assert bench.failures == []
        task.cancel()

    with caplog.at_level(logging.ERROR):
        on_bench(scenario)
    (record,) = caplog.records
    assert record.message.startswith("first-0 cannot be cleaned: ")


def test_a_disk_that_fails_is_told():
    async def scenario(bench):
        bench.fill(FIRST)
        bench.storage.sim().faults.fail(Operation.APPEND, "/data/first-0", times=1)
        assert not await bench.cleaner.clean_dirtiest()
        (error,) = bench.failures
        assert error.path == "/data/first-0"

    on_bench(scenario)


def test_a_lost_worker_costs_only_its_work():
    class Losing(SimExecutor):
        losses = 3

        def compute(self, lane, work, /, *args, **kwargs):
            self.losses -= 1
            if not self.losses:
                lost = asyncio.get_running_loop().create_future()
                lost.set_exception(WorkerLost("it is gone"))
                return lost
            return super().compute(lane, work, *args, **kwargs)

    async def scenario(bench):
        log = bench.fill(FIRST)
        bench.cleaner._executor = Losing(bench.world)
        assert not await bench.cleaner.clean_dirtiest()
        assert await bench.cleaner.clean_dirtiest()
        assert offsets(log) == [18, 19]

    on_bench(scenario, settings=SETTINGS._replace(max_bytes_per_second=3000.0))


def test_a_cleaner_that_is_stopped_leaves_nothing_behind():
    async def scenario(bench):
        bench.fill(FIRST)
        task = asyncio.create_task(bench.cleaner.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(1)
        names = bench.storage.disk.names("/data/first-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]

    on_bench(scenario, settings=SETTINGS._replace(max_bytes_per_second=3000.0))


@pytest.mark.parametrize(
    ("policy", "segment_ms"), [("compact", 5000), ("compact,delete", 5000), ("delete", 7000)]
)
def test_a_segment_is_closed_before_its_records_must_be_compacted(policy, segment_ms):
    configs = {
        "cleanup.policy": policy,
        "max.compaction.lag.ms": "5000",
        "segment.ms": "7000",
    }
    defaults = log_defaults(BrokerSettings.load("node.id=1").values)
    assert log_config(configs, defaults).segment_ms == segment_ms
