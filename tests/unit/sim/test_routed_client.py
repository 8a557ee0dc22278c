"""What a client of a simulated cluster remembers when it connects again."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from moldau.base.ids import PartitionKey
from moldau.engine.errors import ConnectionLost
from moldau.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import ClusterClient
from moldau.sim.cluster.coordinated_clients import ClusterCommittedReader
from moldau.sim.cluster.coordination_targets import CoordinationTargets
from moldau.sim.network import SimNetwork
from moldau.sim.workload.committed_reader import ReaderPlan
from moldau.sim.world import World

TOPIC_ID = b"t" * 16
PLAN = ReaderPlan(version=13, committed_only=True, max_bytes=1_000)


class Brokers:
    """Answers every request; all brokers name the same leader."""

    def __init__(self) -> None:
        self.leader = (2, 4)
        self.fetches: list[tuple[int, int]] = []
        """Which broker was asked, in which leader epoch."""
        self.all = [SimpleNamespace(id=1), SimpleNamespace(id=2)]

    def by_id(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(process=SimpleNamespace(broker=None))

    async def call(self, node_id, request, version=None, patience_s=0.0):
        del version, patience_s
        if isinstance(request, MetadataRequest):
            leader_id, epoch = self.leader
            partition = SimpleNamespace(partition_index=0, leader_id=leader_id, leader_epoch=epoch)
            return SimpleNamespace(
                topics=[SimpleNamespace(topic_id=TOPIC_ID, partitions=[partition])]
            )
        self.fetches.append((node_id, request.topics[0].partitions[0].current_leader_epoch))
        return None


def fetch_request() -> FetchRequest:
    return FetchRequest(topics=[FetchTopic("kept", TOPIC_ID, [FetchPartition(0)])])


def test_a_client_that_connects_again_believes_no_leader_of_an_earlier_epoch(monkeypatch):
    """It keeps its offsets too, and a former leader may end below them."""
    brokers = Brokers()
    monkeypatch.setattr(ClusterClient, "call", lambda _, *request: brokers.call(*request))

    async def scenario(reader: ClusterCommittedReader) -> None:
        link = await reader.connect()
        await link.call(fetch_request())
        link.forget()
        link.close()
        link = await reader.connect()
        brokers.leader = (1, 3)  # as an isolated broker knows it
        with pytest.raises(ConnectionLost):
            await link.call(fetch_request())
        brokers.leader = (1, 5)
        await link.call(fetch_request())

    with World(1) as world:
        network = SimNetwork(world)
        cluster = SimpleNamespace(world=world, network=network, nodes=brokers, seen=Counter())
        targets = CoordinationTargets(cluster, atlas=None, clocks_jump=False)
        targets.places = [PartitionClaims(PartitionKey("kept", 0), TOPIC_ID, None)]
        world.run(scenario(ClusterCommittedReader(targets, "committed-reader-0", PLAN)))
    assert brokers.fetches == [(2, 4), (1, 5)]
