"""A broker whose settings name one address: of a voter that is alone, or of one among several."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits.node_kit import CLUSTER_ID, Nodes
from moldau.cluster.formatting import identify_directories
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.topics import NewTopic
from moldau.server.handlers.quorum import QuorumHandlers
from moldau.sim.disk import SimDisk
from moldau.sim.world import World

VOTERS = (1, 2, 3)
ADDRESSES = [f"node-{one}:9093" for one in VOTERS]
NAMED = ",".join(f"{one}@node-{one}:9093" for one in VOTERS)
ASKED = 2
"""The voter whose address the broker knows."""


class Quorum(Nodes):
    """Three voters, named by the settings or by the log, and a broker that knows one of them."""

    def __init__(self, world, *, is_dynamic):
        super().__init__(world)
        self.is_dynamic = is_dynamic
        self.voters = {}

    async def start_voters(self):
        quorum = {"controller.quorum.voters": NAMED}
        if self.is_dynamic:
            quorum = bootstrap(*ADDRESSES)
            for one in VOTERS:
                self.disks[one] = formatted(self.world, one)
        for one in VOTERS:
            listeners = f"PLAINTEXT://node-{one}:9092,CONTROLLER://node-{one}:9093"
            self.voters[one] = self.node(
                one,
                **{
                    "process.roles": "broker,controller",
                    "listeners": listeners,
                    "controller.listener.names": "CONTROLLER",
                },
                **quorum,
            )
        await asyncio.gather(*(one.start() for one in self.voters.values()))

    async def stop(self, *others):
        for one in (*others, *self.voters.values()):
            await one.stop()


def formatted(world, node_id):
    """A disk whose metadata folder names the first voters."""
    disk = SimDisk(world.random(f"disk-{node_id}"))
    voters = VoterSet(
        tuple(
            Voter(
                ReplicaKey(NodeId(one), bytes(15) + bytes([100 + one])),
                (VoterEndpoint("CONTROLLER", f"node-{one}", 9093),),
            )
            for one in VOTERS
        )
    )
    dice = random.Random(node_id)
    place = (disk, ["/data"], "/data", node_id, dice, 0, CLUSTER_ID)
    identify_directories(*place, founds_cluster=True, voters=voters)
    return disk


def bootstrap(*addresses):
    return {
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": ",".join(addresses),
    }


async def has_topic(broker, name):
    async with asyncio.timeout(10):
        while name not in broker.parts.image().topics:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["named by settings", "by the log"])
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_knows_one_of_several_voters_joins_whoever_leads(seed, is_dynamic):
    async def work():
        quorum = Quorum(world, is_dynamic=is_dynamic)
        await quorum.start_voters()
        broker = quorum.node(4, **bootstrap(ADDRESSES[ASKED - 1]))
        await broker.start()
        leader = broker.parts.store.leader_id
        assert leader in VOTERS
        assert broker.parts.store.kraft_version == is_dynamic
        # It asks the leader itself, also once the voter that it knows is gone.
        if leader != ASKED:
            await quorum.voters.pop(ASKED).stop()
        await broker.parts.requests.create_topic(NewTopic("t", 1, 1))
        await has_topic(broker, "t")
        assert broker.parts.store.leader_id == leader
        await quorum.stop(broker)

    with World(seed) as world:
        world.run(work())


def test_a_voter_that_is_alone_is_found_without_its_id():
    async def work():
        nodes = Nodes(world)
        one = bootstrap(ADDRESSES[0])
        voter, broker = nodes.node(1, **one), nodes.node(2, **one)
        await voter.start()
        await broker.start()
        assert broker.parts.store.leader_id == 1
        await broker.parts.requests.create_topic(NewTopic("t", 1, 1))
        await has_topic(broker, "t")
        described = voter.parts.quorum.describe()
        assert [one.node_id for one in described.observers] == [2]
        assert described.nodes == [(1, (VoterEndpoint("CONTROLLER", "node-1", 9093),))]
        # The voter comes back, and the broker goes on with it.
        await voter.stop()
        again = nodes.node(1, **one)
        await again.start()
        async with asyncio.timeout(10):
            epoch = again.parts.store.leader_epoch
            while broker.parts.store.leader_epoch < epoch:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await again.parts.requests.create_topic(NewTopic("u", 1, 1))
        await has_topic(broker, "u")
        await broker.stop()
        await again.stop()

    with World(1) as world:
        world.run(work())


def test_a_broker_that_comes_back_finds_its_leader_without_a_warning(caplog):
    """Its disk knows the leader by its id alone."""

    async def work():
        nodes = Nodes(world)
        one = bootstrap(ADDRESSES[0])
        voter, broker = nodes.node(1, **one), nodes.node(2, **one)
        await voter.start()
        await broker.start()
        await broker.stop()
        again = nodes.node(2, **one)
        await again.start()
        assert again.parts.store.leader_id == 1
        await again.stop()
        await voter.stop()

    with World(1) as world:
        world.run(work())
    assert not [one for one in caplog.records if "cannot be fetched" in one.getMessage()]


def test_a_voter_that_is_alone_changes_no_voters():
    async def work():
        voter = Nodes(world).node(1)
        await voter.start()
        routes = {route.api.key: route.handler for route in voter._dispatcher.routes.values()}
        assert isinstance(routes[80].__self__, QuorumHandlers)
        assert isinstance(routes[81].__self__, QuorumHandlers)
        await voter.stop()

    with World(1) as world:
        world.run(work())
