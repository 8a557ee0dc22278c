"""An observer of the metadata through all that can happen to it, the voter and the way between.

Random commits of every size, snapshots on both sides, stops, kills and power cuts of the observer
and of the voter, a crash at every named point, lost and repeated answers. Whatever happens, every
image of the observer is one that the voter had, in the voter's order, the changes it tells lead
from one to the next, and in the end both are the same.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from bisect import bisect_right
from dataclasses import replace
from operator import attrgetter

import pytest

from kits.metadata_samples import lone_partition, topic_id
from kits.observed_cluster import DirectSource, FaultySource, observing_store
from kits.sole_voter import commit, lead, sole_voter
from moldau.base.ids import BrokerId
from moldau.cluster import journal, snapshots
from moldau.cluster.changes import (
    ConfigChanged,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import METADATA_FOLDER, Journal
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.model import ConfigResource
from moldau.cluster.record_codec import encode_change
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.server.handlers.raft import RaftHandlers
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.loop import PROCESS
from moldau.sim.world import World

VOTER, OBSERVER = 1, 2
FOLDER = f"/data/{METADATA_FOLDER}"
SEEDS = range(30)
SEEDS_LONG = range(30, 600)
STEPS = 40
POINTS = journal.CRASH_POINTS + journal.FOLLOWER_CRASH_POINTS + snapshots.CRASH_POINTS
NOT_OF_OBSERVERS = {"journal.sync.after_sync"}

_version = attrgetter("version")


class Machine:
    """A disk, and the processes that live on it one after the other."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.disk = SimDisk(world.random(f"{name}'s disk"))
        self.life = 0

    @property
    def process(self):
        return f"{self.name}#{self.life}"

    async def run(self, work):
        """Begin another process, and wait for its first steps."""
        self.life += 1
        self.executor = SimExecutor(self.world)
        self.executor.run_mean_s = 0.0003
        return await self.within(work())

    async def within(self, work):
        """Do something in the present process: it ends with it."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self.process)
        return await asyncio.get_running_loop().create_task(work, context=context)

    def end(self, *, power_cut=False):
        """End the process where it is."""
        self.world.loop.end_process(self.process)
        self.executor.kill()
        self.disk = self.disk.power_cut() if power_cut else self.disk.kill()


class ObserverCrash(CrashPlan):
    """Ends the observer's process alone: the voter passes the same points."""

    def __init__(self, machine, name=None, hit=1):
        super().__init__(name, hit=hit)
        self._machine = machine

    def _at(self, name):
        if PROCESS.get() != self._machine.process:
            return
        try:
            super()._at(name)
        except Crashed:
            self._machine.disk.alive = False
            raise


class Cluster:
    """A voter and an observer, and the history that they are held to."""

    def __init__(self, world, *, faults=0.0):
        self.world = world
        self.dice = world.random("dice")
        self.voters, self.observers = Machine(world, "voter"), Machine(world, "observer")
        self.voter = self.handlers = self.observer = None
        self.source = FaultySource(DirectSource(self.reached), world.random("link"), faults)
        self.cut = False
        """Whether nothing gets through."""
        self.history = []
        """Every image that the voter had, by version."""
        self.last = None
        """What the observer of this life told last."""
        self.told = 0
        self.snapshot_bytes = self.dice.choice((600, 2_000, 1 << 20))
        self.own_snapshot_bytes = self.dice.choice((600, 2_000, 1 << 20))
        self.fetch_bytes = self.dice.choice((1, 200, 1 << 20))
        self.retention_bytes = self.dice.choice((0, 4_000, 1 << 20))

    def reached(self):
        return None if self.cut else self.handlers

    async def start_voter(self):
        async def start():
            machine = self.voters
            self.voter = sole_voter(
                machine.disk,
                ["/voter"],
                VOTER,
                self.world.clock,
                self.world.random("voter"),
                executor=machine.executor,
                snapshot_after_bytes=self.snapshot_bytes,
                retention=MetadataRetention(self.retention_bytes),
            )
            await lead(self.voter)
            self.handlers = RaftHandlers(self.voter.node, VOTER)

        await self.voters.run(start)
        if not self.history:
            self.history.append(MetadataImage(cluster_id=self.voter.image.cluster_id))
        self.remember(self.voter.image)
        self.voter.subscribe(lambda changes, image: self.remember(image))

    def remember(self, image):
        assert image.version >= self.history[-1].version
        self.history.append(image)

    async def stop_voter(self):
        self.handlers = None
        await self.voter.close()

    def kill_voter(self, *, power_cut):
        self.handlers = None
        self.voters.end(power_cut=power_cut)

    async def start_observer(self):
        async def start():
            machine = self.observers
            self.observer = observing_store(
                machine.disk,
                OBSERVER,
                self.world.clock,
                self.world.random("observer"),
                self.source,
                cluster_id=self.history[0].cluster_id,
                executor=machine.executor,
                snapshot_after_bytes=self.own_snapshot_bytes,
                retention=MetadataRetention(self.retention_bytes),
                fetch_bytes=self.fetch_bytes,
            )
            self.observer.subscribe(self.hear)
            await self.observer.start()

        await self.observers.run(start)
        self.last = self.observer.image
        self.check(self.last)

    def hear(self, changes, image):
        assert image is self.observer.image
        assert image.version > self.last.version
        assert self.last.apply(changes, image.version) == image
        self.check(image)
        self.last, self.told = image, self.told + 1

    def check(self, image):
        """Compare an image with the newest one the voter had at its version or before."""
        position = bisect_right(self.history, image.version, key=_version)
        assert replace(self.history[position - 1], version=image.version) == image

    async def caught_up(self):
        """Wait until the observer has everything, or has ended."""
        while self.observers.disk.alive and self.observer.image != self.voter.image:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    # What happens

    async def commit(self):
        version, changes = self.voter.image.version, list(self.changes())
        await self.voters.within(commit(self.voter, version, changes))

    def changes(self):
        dice, image = self.dice, self.voter.image
        topics = sorted(image.topics.values(), key=attrgetter("name"))
        new = dice.randrange(1 << 60)
        match dice.randrange(6):
            case 0 if topics:
                yield TopicRemoved(dice.choice(topics).id)
            case 1 if topics:
                topic = dice.choice(topics)
                for partition in topic.partitions:
                    leader = BrokerId(dice.choice((-1, 1)))
                    yield PartitionChanged(topic.id, partition.index, leader=leader)
            case 2:
                for number in range(dice.choice((1, 40))):
                    yield FeatureLevelSet(f"feature-{number}", dice.randrange(1, 9))
            case 3:
                resource = ConfigResource(2, dice.choice("abc"))
                yield ConfigChanged(resource, "k", dice.choice((None, "1", "2")))
            case _:
                name = f"topic-{dice.randrange(8)}"
                if name in image.topics:
                    yield TopicRemoved(image.topics[name].id)
                yield TopicCreated(name, topic_id(new))
                for index in range(dice.choice((1, 3))):
                    yield PartitionCreated(topic_id(new), lone_partition(index, 1))

    async def restart_voter(self):
        if self.dice.random() < 0.5:
            await self.stop_voter()
        else:
            self.kill_voter(power_cut=self.dice.random() < 0.5)
        await asyncio.sleep(self.dice.choice((0, 0.1, 3)))
        await self.start_voter()

    async def restart_observer(self):
        match self.dice.randrange(3):
            case 0:
                await self.observer.close()
            case 1:
                self.observers.end()
            case _:
                self.observers.end(power_cut=True)
        if self.dice.random() < 0.3:
            for _ in range(self.dice.randrange(20)):
                await self.commit()
        await self.start_observer()

    async def wait(self):
        await asyncio.sleep(self.dice.choice((0, 0.001, 0.02, 0.5)))

    async def cut_link(self):
        self.cut = True
        for _ in range(self.dice.randrange(12)):
            await self.commit()
        await self.wait()
        self.cut = False

    async def happen(self):
        chance = self.dice.random()
        if chance < 0.55:
            await self.commit()
        elif chance < 0.75:
            await self.wait()
        elif chance < 0.83:
            await self.cut_link()
        elif chance < 0.94:
            await self.restart_observer()
        else:
            await self.restart_voter()


async def any_life(cluster):
    await cluster.start_voter()
    await cluster.start_observer()
    for _ in range(STEPS):
        await cluster.happen()
    cluster.source.faults = 0
    await cluster.caught_up()
    await cluster.observer.caught_up()
    assert cluster.observer.image == cluster.voter.image
    await cluster.observer.close()
    await cluster.start_observer()
    await cluster.caught_up()
    await cluster.observer.close()
    await cluster.stop_voter()


def run_any_life(seed, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 400)
    with World(f"observer {seed}") as world:
        cluster = Cluster(world, faults=random.Random(seed).choice((0, 0.1, 0.4)))
        world.run(any_life(cluster), limit_s=3_600)
        assert cluster.told


@pytest.mark.parametrize("seed", SEEDS)
def test_it_follows_the_voter_whatever_happens(seed, monkeypatch):
    run_any_life(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS_LONG)
def test_it_follows_the_voter_whatever_happens_in_more_runs(seed, monkeypatch):
    run_any_life(seed, monkeypatch)


# Every crash point


def diverge(disk, epoch):
    """Give the observer's log an end that nobody committed."""
    copy = Journal(disk, FOLDER, is_copy=True)
    start = max((one.end_offset for one in snapshots.snapshot_ids(disk, FOLDER)), default=0)
    for _ in copy.load(start):
        pass
    copy.resume(start)
    for number in range(3):
        builder = BatchBuilder(base_offset=copy.next_offset, leader_epoch=epoch)
        value = encode_change(TopicCreated(f"never-{number}", topic_id(99)), 30)
        builder.append(1_000, None, value)
        data = builder.build()
        copy.append_copies(data, [parse_header(data)])
    copy.close()


async def eventful_life(cluster, plan, *, power_cut):
    """Pass every crash point: follow, snapshot, cut, begin again; crash where the plan says."""

    async def follow():
        with plan:
            try:
                await cluster.start_observer()
                await cluster.caught_up()
            except Crashed:
                assert not cluster.observers.disk.alive
            if cluster.observers.disk.alive:
                await cluster.observer.close()
        if not cluster.observers.disk.alive:
            cluster.observers.end(power_cut=power_cut)
            await cluster.start_observer()
            await cluster.caught_up()
            await cluster.observer.close()
        assert cluster.observer.image == cluster.voter.image

    async def commits(count):
        for _ in range(count):
            await cluster.commit()

    await cluster.start_voter()
    await commits(12)
    await follow()
    await commits(12)
    await follow()
    diverge(cluster.observers.disk, cluster.voter.leader_epoch)
    await follow()
    # A torn end, as a power cut leaves it.
    newest = [name for name in cluster.observers.disk.names(FOLDER) if name.endswith(".log")][-1]
    cluster.observers.disk.open(f"{FOLDER}/{newest}").append([b"torn"])
    await follow()
    cluster.snapshot_bytes = 600
    await cluster.stop_voter()
    await cluster.start_voter()
    await commits(25)
    await cluster.voter._log._snapshotting.finish()
    assert cluster.voter._log.journal.start_offset > cluster.observer.image.version
    await follow()
    await cluster.stop_voter()


def run_eventful_life(seed, point=None, hit=1, *, power_cut=False):
    with World(seed) as world:
        cluster = Cluster(world)
        cluster.snapshot_bytes, cluster.own_snapshot_bytes = 1 << 20, 900
        cluster.fetch_bytes = 400
        cluster.retention_bytes = 0
        plan = ObserverCrash(cluster.observers, point, hit)
        world.run(eventful_life(cluster, plan, power_cut=power_cut))
        return plan


def test_the_eventful_life_passes_every_crash_point():
    plan = run_eventful_life("all")
    assert set(plan.passed) == set(POINTS) - NOT_OF_OBSERVERS


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("point", sorted(set(POINTS) - NOT_OF_OBSERVERS))
def test_a_crash_at_any_point_is_survived(point, power_cut):
    for hit in (1, 2, 3, 7):
        for seed in range(3 if power_cut else 1):
            plan = run_eventful_life(f"{point}{hit}{seed}", point, hit, power_cut=power_cut)
            if plan.passed[point] < hit:
                break
            assert plan.ended[point] == 1
