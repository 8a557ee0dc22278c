"""A broker in this process on a temporary folder, for benches that look at one way through it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bench.works.groups import SETTINGS
from moldau.base.clock import SystemClock, system_random
from moldau.cluster.topics import NewTopic
from moldau.replication.partition import Partition
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.lifecycle.topic_admin import TopicAdmin
from moldau.server.parts import Ports
from moldau.server.stores import node_store
from moldau.server.workers.executor import PoolExecutor
from moldau.storage.disk import Disk
from moldau.transport.sockets import SocketNetwork

TURNS_MAX = 20


@asynccontextmanager
async def own_broker(topic: str, partition_count: int) -> AsyncIterator[Broker]:
    """Start a broker with one topic of one replica."""
    executor = PoolExecutor()
    with tempfile.TemporaryDirectory() as folder:
        own = {"log.dirs": folder, "listeners": "PLAINTEXT://127.0.0.1:0", **SETTINGS}
        settings = BrokerSettings.load(None, own, {})
        ports = Ports(
            SystemClock(), system_random(), Disk(), SocketNetwork(executor), executor, executor,
            node_store,
        )  # fmt: skip
        broker = Broker(settings, ports)
        await broker.start()
        try:
            parts = broker.parts
            admin = TopicAdmin(parts.requests, parts.image, parts.replicas)
            await admin.create(NewTopic(topic, partition_count, 1))
            yield broker
        finally:
            await broker.stop()
    await executor.close()


def partition_of(broker: Broker, topic: str, index: int) -> Partition:
    """Return a partition of the topic."""
    partition = broker.parts.partitions.get(topic, index)
    assert partition is not None
    return partition


async def turns_until(is_so: Callable[[], bool]) -> int:
    """Let the loop turn until something is so; return how often it did."""
    for turn in range(TURNS_MAX):
        if is_so():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("something is missing")
