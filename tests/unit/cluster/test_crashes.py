"""A crash between any two durable steps loses nothing that was acknowledged and needs no repair.

Each crash point is visited at each of its hits by the same workload: format, commit, snapshot,
trim, reopen. Then the process is killed (the page cache lives) or the power is cut (what was not
synced is lost, kept or torn), and a new process must find everything that was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest

import moldau.cluster
from kits.metadata_samples import topic_id
from kits.sole_voter import commit, lead, sole_voter
from moldau.cluster import journal, snapshots
from moldau.cluster.changes import TopicCreated
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.world import World

POINTS = journal.CRASH_POINTS + snapshots.CRASH_POINTS
TOPICS = 12


class Ending(CrashPlan):
    """A plan that ends the process for all its tasks: also those that would not notice."""

    def __init__(self, disk, name=None, hit=1):
        super().__init__(name, hit=hit)
        self._disk = disk
        self._ended = asyncio.Event()

    def _at(self, name):
        try:
            super()._at(name)
        except Crashed:
            self._disk.alive = False
            self._ended.set()
            raise

    async def carry_out(self, work):
        """Do work; Crashed once the process has ended in any of its tasks."""
        working = asyncio.ensure_future(work)
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
        if self._ended.is_set():
            raise Crashed
        ended.cancel()
        await working


def open_store(world, disk):
    return sole_voter(
        disk,
        ["/data"],
        1,
        world.clock,
        world.random("store"),
        snapshot_after_bytes=700,
        retention=MetadataRetention(max_bytes=3_000),
    )


async def fill(world, disk, told, first=0):
    """Commit topics one by one, and note each once it was acknowledged."""
    store = open_store(world, disk)
    await lead(store)
    for number in range(first, first + TOPICS):
        change = TopicCreated(f"topic-{number}", topic_id(number + 1))
        await commit(store, store.image.version, [change])
        told.append(change.name)
    await store.close()
    return store.image


def crash(world, disk, plan, *, power_cut):
    """Run the workload until the plan ends it; return the disk after it, and what was told."""
    told = []
    with plan:
        try:
            world.run(plan.carry_out(fill(world, disk, told)))
            torn = disk.open(f"/data/{journal.METADATA_FOLDER}/{newest_log(disk)}")
            torn.append([b"torn"])
            world.run(plan.carry_out(fill(world, disk, told, first=TOPICS)))
        except Crashed:
            assert not disk.alive
    return disk.power_cut() if power_cut else disk.kill(), told


def newest_log(disk):
    names = disk.names(f"/data/{journal.METADATA_FOLDER}")
    return [name for name in names if name.endswith(".log")][-1]


def check(disk, told):
    """Open what is left, twice; whatever was told is there, at most one more, in order."""
    found = []
    for seed in (1, 2):
        with World(seed) as world:
            image = world.run(fill_nothing(world, disk))
        found.append(list(image.topics))
    assert found[0] == found[1]
    assert found[0][: len(told)] == told
    assert len(found[0]) <= len(told) + 1


async def fill_nothing(world, disk):
    store = open_store(world, disk)
    await lead(store)
    await store.close()
    return store.image


def test_the_lists_name_every_crash_point_in_the_code():
    source = "".join(path.read_text() for path in Path(moldau.cluster.__path__[0]).glob("*.py"))
    listed = {*POINTS, *journal.FOLLOWER_CRASH_POINTS}
    assert set(re.findall(r'crash_point\("([^"]+)"\)', source)) == listed


def test_the_workload_reaches_every_crash_point():
    with World(0) as world:
        disk = SimDisk(world.random("disk"))
        plan = Ending(disk)
        crash(world, disk, plan, power_cut=False)
    assert set(plan.passed) >= set(POINTS)


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("point", POINTS)
def test_nothing_told_is_lost(point, power_cut):
    for hit in (1, 2, 3, 7):
        for seed in range(4 if power_cut else 1):
            with World(f"{point}{hit}{seed}") as world:
                disk = SimDisk(world.random("disk"))
                plan = Ending(disk, point, hit)
                disk, told = crash(world, disk, plan, power_cut=power_cut)
                if plan.passed[point] < hit:
                    break
            check(disk, told)


def test_a_power_cut_at_any_commit_loses_nothing_told():
    for hit in range(1, 2 * TOPICS + 2):
        with World(hit) as world:
            disk = SimDisk(world.random("disk"))
            plan = Ending(disk, "journal.append.after_write", hit)
            disk, told = crash(world, disk, plan, power_cut=True)
        check(disk, told)


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
def test_a_commit_of_several_batches_is_there_whole_or_not_at_all(monkeypatch, power_cut):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)
    changes = [TopicCreated(f"topic-{number}", topic_id(number + 1)) for number in range(20)]
    outcomes = set()
    for hit in range(3, 20):
        with World(f"several{hit}") as world:
            disk = SimDisk(world.random("disk"))
            plan = Ending(disk, "journal.append.after_write", hit)
            with plan, contextlib.suppress(Crashed):
                world.run(plan.carry_out(commit_at_once(world, disk, changes)))
            if disk.alive:
                break
        disk = disk.power_cut() if power_cut else disk.kill()
        with World(hit) as world:
            image = world.run(fill_nothing(world, disk))
        outcomes.add(len(image.topics))
        check(disk, list(image.topics))
    assert hit > 6
    assert outcomes <= {0, len(changes)}


async def commit_at_once(world, disk, changes):
    store = sole_voter(disk, ["/data"], 1, world.clock, world.random("store"))
    await lead(store)
    await commit(store, store.image.version, changes)
    await store.close()
