"""A crash at any point of the runtime loses nothing that was told and invents nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kits.coordinator_kit import MapShard, failed
from kits.partition_kit import make_partition
from moldau.base.ids import PartitionKey, TopicId
from moldau.coordination import runtime as runtime_module
from moldau.coordination.crash_points import CRASH_POINTS
from moldau.coordination.outcome import Outcome, ProducerIdentity, StateRecord
from moldau.coordination.runtime import Runtime
from moldau.observe.traffic import Traffic
from moldau.records.batch import parse_header
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.replication.partition import Role
from moldau.server.lifecycle.internal_partitions import LedPartition, LogParts
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World
from moldau.storage.flushing import Flusher
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

KEY = PartitionKey("internal", 0)
TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=700, cleanup_policy=frozenset({"compact"}))
ME = 1
PRODUCER = ProducerIdentity(5, 0)


def test_the_list_names_the_crash_points_of_the_floor():
    """Those of a coordinator; shards are pure and have none."""
    folder = Path(runtime_module.__file__).parent
    called = [
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())
    ]
    assert sorted(called) == sorted(CRASH_POINTS)


class Life:
    """One life of a process with one shard."""

    def __init__(self, world, disk, epoch):
        resources = Resources(disk, world.clock, world.random("log"))
        manager = LogManager(resources, ["/data"])
        manager.open("cluster", ME, "boot")
        manager.load(lambda topic: CONFIG)
        log = manager.open_or_create(KEY, TOPIC_ID, CONFIG)
        self.partition = make_partition(KEY, TOPIC_ID, log, Role(ME, epoch, 0, (ME,), (ME,)))
        self.partition.advance()
        executor = SimExecutor(world)
        self.shard = None
        self.runtime = Runtime(KEY.topic, 1, self._make, world.clock, load_buffer_bytes=100)
        self.log = LedPartition(
            self.partition,
            LogParts(world.clock, executor, Flusher(executor), Traffic(), _unexpected),
        )

    def _make(self, index, leader_epoch):
        self.shard = MapShard(index, leader_epoch)
        return self.shard

    async def begin(self):
        self.runtime.lead(self.log)
        await self.shard.serves.wait()

    def put(self, key, value, **more):
        answer = self.runtime.call("k", lambda s, t, _: s.put(t, key, value, **more), failed)
        assert answer == ("put", value)

    def end_transaction(self, *, committed):
        log = self.partition.log
        batch = end_transaction_batch(EndTransactionMarker(not committed, 0), *PRODUCER, 1)
        log.append_marker(batch, parse_header(batch), self.log.leader_epoch, 1)
        self.partition.advance()
        self.runtime.transaction_ended(0, PRODUCER, committed=committed)


def _unexpected(error):
    raise error


def work_through(life, told):
    """Do a little of everything, noting what was told to clients."""
    for number in range(12):
        key, value = b"%d" % (number % 5), b"%d" % number
        follow = StateRecord(b"then", value)
        life.put(key, value, then=lambda now, record=follow: Outcome(records=[record]))
        told[key] = value
    life.put(b"aborted", b"x", producer=PRODUCER)
    life.end_transaction(committed=False)
    life.put(b"committed", b"y", producer=PRODUCER)
    life.end_transaction(committed=True)
    told[b"committed"] = b"y"


@pytest.mark.parametrize("hit", [1, 2, 7])
@pytest.mark.parametrize("point", [name for name in CRASH_POINTS if ".load." not in name])
def test_what_was_told_is_there_after_a_crash_and_the_state_is_the_logs(point, hit):
    async def work(world, plan):
        disk, told, live = SimDisk(world.random("disk"), trace=world.trace), {}, None
        crash_count = 0
        for epoch in range(2):
            life = Life(world, disk, epoch)
            try:
                await life.begin()
                if epoch == 0:
                    plan.arm(point, hit, lambda: None)
                work_through(life, told)
                plan.disarm()
            except Crashed:
                crash_count += 1
            live = life.shard
            disk = disk.kill()
        assert crash_count == 1
        last = Life(world, disk, 9)
        await last.begin()
        assert told.items() <= last.shard.map.items()
        assert b"aborted" not in last.shard.map
        assert last.shard.map == live.map
        await last.runtime.close()
        return last.shard.map

    with World(1) as world, CrashPlan(trace=world.trace) as plan:
        assert len(world.run(work(world, plan))) == 7


@pytest.mark.parametrize("point", [name for name in CRASH_POINTS if ".load." in name])
def test_a_crash_while_loading_needs_only_another_load(point):
    async def work(world, plan):
        disk, told = SimDisk(world.random("disk"), trace=world.trace), {}
        life = Life(world, disk, 0)
        await life.begin()
        work_through(life, told)
        before = life.shard.map
        disk = disk.kill()
        crashed = Life(world, disk, 1)
        plan.arm(point, 1, lambda: None)
        crashed.runtime.lead(crashed.log)
        (load,) = crashed.runtime._loads.values()
        with pytest.raises(Crashed):
            await load
        last = Life(world, disk.kill(), 2)
        await last.begin()
        assert last.shard.map == before

    with World(1) as world, CrashPlan(trace=world.trace) as plan:
        world.run(work(world, plan))
