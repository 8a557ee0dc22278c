"""Real consumers and a real broker on virtual time: what tests of consumer groups share.

A `Reader` is a program that reads in a loop on a machine of its own. It keeps what it was told and
what it read, can be slow, can be cut off the network, and can be killed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict
from collections.abc import Callable

from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.ports import ClientPorts
from moldau.engine.retry import raise_for, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from moldau.records.builder import BatchBuilder
from moldau.sim.disk import SimDisk
from moldau.sim.loop import PROCESS
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import World

SETTINGS = {
    "node.id": "1",
    "log.dirs": "/data",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}
PRODUCE_VERSION = 9
PATIENCE_S = 120.0
"""Virtual: longer than two sessions."""


class Stage:
    """A broker, and whoever talks to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = SimNetwork(world)
        disk = SimDisk(world.random("disk"), trace=world.trace)
        self.broker = SimBroker(world, self.network, disk, SETTINGS)
        self.readers: list[Reader] = []
        self.sent: dict[TopicPartition, int] = defaultdict(int)
        connection = ConnectionSettings(bootstrap_servers="broker:9092")
        self.cluster = Cluster(connection, self.ports("feeder"))

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def ports(self, name: str) -> ClientPorts:
        return ClientPorts(self.network.host(name), self.world.clock, self.world.random(name))

    async def create(self, topic: str, count: int) -> str:
        """Create a topic."""
        answer = await self.cluster.call(
            1, CreateTopicsRequest([CreatableTopic(topic, count, 1)], timeout_ms=10_000)
        )
        raise_for(answer.topics[0].error_code)
        await self.cluster.topic(topic, self.cluster.deadline(10_000))
        return topic

    async def grow(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions."""
        request = CreatePartitionsRequest(
            [CreatePartitionsTopic(topic, count, None)], timeout_ms=10_000
        )
        answer = await self.cluster.call(1, request)
        raise_for(answer.results[0].error_code)

    async def send(self, topic: str, partition: int, count: int = 1) -> None:
        """Append so many records to a partition."""
        builder = BatchBuilder()
        for number in range(count):
            builder.append(self.world.clock.wall_ms(), None, b"%d" % number)
        data = PartitionProduceData(partition, builder.build())
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=[data])])

        async def attempt() -> None:
            answer = await self.cluster.call(1, request, version=PRODUCE_VERSION)
            raise_for(answer.responses[0].partition_responses[0].error_code)

        await retried(self.cluster, attempt, self.cluster.deadline(60_000))
        self.sent[TopicPartition(topic, partition)] += count

    async def reader(self, name: str, *topics: str, **settings) -> Reader:
        """Start a program that reads."""
        reader = Reader(self, name, topics, settings)
        self.readers.append(reader)
        await reader.begin()
        return reader

    async def until(self, look: Callable[[], bool], what: str) -> None:
        """Wait, virtually, until something is so."""
        end = self.now + PATIENCE_S
        while not look():
            if self.now > end:
                told = "\n".join(f"{one.name}: {one.tail()}" for one in self.readers)
                raise AssertionError(f"never: {what}\n{told}")
            await asyncio.sleep(0.05)

    async def shared(self, readers: list[Reader], partitions: set[TopicPartition]) -> None:
        """Wait until every partition has one reader among these, and shares are even."""

        def settled() -> bool:
            sizes = [len(one.owned) for one in readers]
            together = set().union(*(one.owned for one in readers))
            even = max(sizes) - min(sizes) <= 1
            return even and sum(sizes) == len(partitions) and together == partitions

        await self.until(settled, f"{len(readers)} share {len(partitions)}")

    async def all_read(self, *readers: Reader) -> None:
        """Wait until these have read all that was sent."""

        def done() -> bool:
            return all(
                set().union(*(one.read[at] for one in readers)) >= set(range(count))
                for at, count in self.sent.items()
            )

        await self.until(done, "all is read")


class Reader:
    """One program with one consumer. It is its own rebalance listener."""

    def __init__(self, stage: Stage, name: str, topics, settings) -> None:
        self.stage = stage
        self.name = name
        self.topics = topics
        self.pattern = settings.pop("pattern", None)
        self.commits = settings.pop("commits", True)
        self.settings = {
            "group_id": "readers",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 10_000,
            "client_id": name,
            **settings,
        }
        self.is_leaving = False
        self.pause_s = 0.0
        """How long its user works on what a poll brought."""
        self.owned: set[TopicPartition] = set()
        self.read: dict[TopicPartition, list[int]] = defaultdict(list)
        self.done: dict[TopicPartition, set[int]] = defaultdict(set)
        """What its user is done with."""
        self.story: list[tuple[float, str, frozenset[TopicPartition]]] = []
        self.cut_at: list[float] = []
        self.errors: list[Exception] = []
        self.commit_errors: list[ClientError] = []
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, name)
        self.consumer: AsyncConsumer | None = None
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.inside(self._start())
        self.task = self.stage.world.loop.create_task(self._live(), context=self.context)

    async def inside(self, work):
        """Run something as this program."""
        return await self.stage.world.loop.create_task(work, context=self.context)

    async def _start(self) -> None:
        ports = self.stage.ports(self.name)
        self.consumer = AsyncConsumer("broker:9092", _ports=ports, **self.settings)
        await self.consumer.start()
        self.consumer.subscribe(self.topics, pattern=self.pattern, listener=self)

    async def _live(self) -> None:
        while not self.is_leaving:
            await self._turn()

    async def _turn(self) -> None:
        try:
            records = await self.consumer.poll(timeout_ms=500)
        except Exception as error:  # noqa: BLE001 - the test decides
            self.errors.append(error)
            await asyncio.sleep(0.1)
            return
        for record in records:
            self.read[TopicPartition(record.topic, record.partition)].append(record.offset)
        if self.pause_s and records:
            await asyncio.sleep(self.pause_s)
        for record in records:
            self.done[TopicPartition(record.topic, record.partition)].add(record.offset)
        if self.commits and records:
            try:
                await self.consumer.commit()
            except ClientError as error:
                self.commit_errors.append(error)

    def on_partitions_assigned(self, partitions) -> None:
        assert not self.owned & partitions, "assigned what it has"
        self.owned |= partitions
        self._told("assigned", partitions)

    async def on_partitions_revoked(self, partitions) -> None:
        assert self.owned >= partitions, "took what it has not"
        self._told("revoked", partitions)
        await asyncio.sleep(0)
        self.owned -= partitions

    def on_partitions_lost(self, partitions) -> None:
        assert self.owned >= partitions, "took what it has not"
        self.owned -= partitions
        self._told("lost", partitions)

    def _told(self, what, partitions) -> None:
        self.story.append((self.stage.now, what, frozenset(partitions)))

    def told(self, *names: str):
        return [(what, some) for _, what, some in self.story if what in names]

    def tail(self) -> str:
        return f"owns {sorted(self.owned)}, {self.story[-4:]}, {self.errors[-2:]}"

    async def stop(self) -> None:
        """Stop reading, without closing the consumer."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None

    async def leave(self) -> None:
        """Finish what it works on, and close the consumer."""
        self.is_leaving = True
        if self.task is not None:
            await self.task
            self.task = None
        await self.inside(self.consumer.close())
        assert not self.left_behind(), "tasks left behind"
        self.owned.clear()

    def left_behind(self) -> list[str]:
        return [task.get_name() for task in self.stage.world.loop.pending_tasks(self.name)]

    def kill(self) -> None:
        """End it without a word."""
        self.stage.network.crash(self.name)
        self.stage.world.loop.end_process(self.name)
        self.task = None
        self.owned.clear()

    def cut(self) -> None:
        """Let nothing through between it and the broker."""
        self.cut_at.append(self.stage.now)
        self.stage.network.partition([self.name], ["broker"])


def places(topic: str, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


def play(seed: int, story) -> None:
    """Run a story on a broker that has just started; nothing may be left running."""

    async def main() -> None:
        stage = Stage(world)
        await stage.broker.start()
        await stage.cluster.start()
        await story(stage)
        for reader in stage.readers:
            if reader.task is not None:
                await reader.leave()
        await stage.cluster.close()

    with World(seed) as world:
        world.run(main(), limit_s=7200)
