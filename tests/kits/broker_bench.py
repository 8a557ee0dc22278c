"""One simulated broker and one client that asks it, for tests of whole processes."""

from __future__ import annotations

import asyncio

from moldau.base.network import Address
from moldau.client.errors import ConnectionLost
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.records.batch import iter_batches
from moldau.records.builder import BatchBuilder
from moldau.records.record import read_records
from moldau.sim.disk import SimDisk
from moldau.sim.log_lines import log_lines
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import World

SETTINGS = {"node.id": "1", "log.dirs": "/data", "log.segment.bytes": "3000"}

BROKER = Address("broker", 9092)
CLIENT = ConnectionSettings(client_id="me")


class Bench:
    """One broker and one client that asks it."""

    def __init__(self, world: World, **settings: str) -> None:
        self.world = world
        self.network = SimNetwork(world)
        disk = SimDisk(world.random("disk"), trace=world.trace)
        self.broker = SimBroker(world, self.network, disk, SETTINGS | settings)
        self._connection: ClientConnection | None = None

    async def ask(self, request, version=None):
        """Ask over one connection, which is opened again after a crash."""
        while True:
            try:
                if self._connection is None:
                    host = self.network.host("client")
                    self._connection = await ClientConnection.open(host, BROKER, CLIENT)
                return await self._connection.call(request, version)
            except (ConnectionLost, OSError):
                self._connection = None
                await asyncio.sleep(0.01)

    async def create(self, configs: dict[str, str] | None = None) -> bytes:
        own = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
        response = await self.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1, [], own)]))
        assert response.topics[0].error_code == 0
        return response.topics[0].topic_id

    def batch(self, *values: bytes, topic_id: bytes = bytes(16)) -> ProduceRequest:
        builder = BatchBuilder()
        for value in values:
            builder.append(self.world.clock.wall_ms(), None, value)
        data = [PartitionProduceData(0, builder.build())]
        return ProduceRequest(None, -1, 1000, [TopicProduceData("t", topic_id, data)])

    async def produce(self, *values: bytes) -> int:
        response = await self.ask(self.batch(*values), 12)
        result = response.responses[0].partition_responses[0]
        assert result.error_code == 0
        return result.base_offset

    async def values(self) -> list[bytes]:
        wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic("t", bytes(16), [wanted])])
        result = (await self.ask(request, 12)).responses[0].partitions[0]
        assert result.error_code == 0
        return [
            record.value
            for span in iter_batches(result.records or b"")
            for record in read_records(result.records, span.position)
        ]


def simulate(work, seed=1, **settings):
    """Run work on a bench and return what it returns."""
    with World(seed) as world, log_lines(world.trace) as lines:
        result = world.run(work(Bench(world, **settings)))
        assert lines.bugs == []
        return result
