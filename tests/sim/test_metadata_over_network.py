"""Observers on a simulated network: the controller's listener, the handlers, real connections."""

from __future__ import annotations

import asyncio

import pytest

from kits.observed_cluster import ObservedCluster
from kits.sole_voter import commit, created
from moldau.base.network import Address
from moldau.cluster.kraft.messages import request_message
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.requests import FetchRequest
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientError
from moldau.engine.settings import ConnectionSettings
from moldau.observe.requests import RequestMetrics
from moldau.protocol.messages.data import FetchPartition, FetchTopic
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.server.controller_routes import NODE_PERMISSIONS
from moldau.server.network.connections import ConnectionLimits, Connections
from moldau.server.network.dispatch import Dispatcher, Route
from moldau.server.network.listeners import Endpoint
from moldau.server.quorum.quorum_routes import quorum_rows
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

PORT = 9093


class ConnectedSource:
    """Asks over one connection, opened anew when it is lost."""

    def __init__(self, network, host, request_timeout_ms=2_000):
        self._host = network.host(host)
        self._settings = ConnectionSettings(client_id=host, request_timeout_ms=request_timeout_ms)
        self.connection = None

    async def fetch(self, request):
        return await self._call(request)

    async def close(self):
        pass

    async def fetch_snapshot(self, request):
        return await self._call(request)

    async def _call(self, request):
        try:
            if self.connection is None or not self.connection.is_open:
                opening = ClientConnection.open(self._host, Address("voter", PORT), self._settings)
                self.connection = await asyncio.wait_for(opening, 2)
            return await self.connection.call(request)
        except (TimeoutError, ClientError, OSError) as error:
            if self.connection is not None:
                self.connection.close()
            raise PeerUnavailable(str(error)) from error


class Controller:
    """A voter with a listener that serves its metadata log."""

    def __init__(self, world, **settings):
        self.world = world
        self.network = SimNetwork(world)
        self.cluster = ObservedCluster(world, SimDisk(world.random("voter's disk")), **settings)

    async def start(self):
        await self.cluster.start_voter()
        metrics = RequestMetrics()
        node = self.cluster.voter.node
        routes = [
            *(
                Route(*one, metrics, NODE_PERMISSIONS)
                for one in quorum_rows(node, NodeId(1), has_elections=False)
            ),
            Route(18, "0-5", lambda request, context: offered, metrics, ()),
        ]
        offered = ApiVersionsResponse(
            api_keys=[
                ApiVersion(route.api.key, route.versions.first, route.versions.last)
                for route in routes
            ]
        )
        dispatcher = Dispatcher(routes, self.world.clock, lambda: offered)
        self.connections = Connections(
            dispatcher.handle,
            frame_limit=1 << 20,
            limits=lambda: ConnectionLimits(100, 100, {}),
        )
        self.connections.begin()
        endpoint = Endpoint("CONTROLLER", "voter", PORT, "voter", PORT)
        self.listener = await self.network.host("voter").listen(
            "voter", PORT, self.connections.acceptor(endpoint)
        )

    async def stop(self):
        self.listener.close()
        await self.cluster.stop_voter()

    async def observer(self, node_id, **settings):
        name = f"broker-{node_id}"
        source = ConnectedSource(self.network, name)
        observer = self.cluster.new_observer(
            SimDisk(self.world.random(name)), node_id, source=source, **settings
        )
        await observer.start()
        return observer, source

    async def fill(self, count, first=0):
        voter = self.cluster.voter
        for number in range(first, first + count):
            await commit(voter, voter.image.version, [created(number)])


def run(work, seed=4, **settings):
    with World(seed) as world:

        async def running():
            controller = Controller(world, **settings)
            await controller.start()
            await work(controller)
            await controller.stop()

        world.run(running())


@pytest.mark.parametrize("seed", range(4))
def test_brokers_follow_over_connections(seed):
    async def work(controller):
        brokers = [await controller.observer(node_id) for node_id in (2, 3, 4)]
        for observer, _ in brokers:
            await observer.caught_up()
        await controller.fill(20)
        for observer, _ in brokers:
            await controller.cluster.caught_up(observer)
            assert observer.image == controller.cluster.voter.image
        states = controller.cluster.voter.describe().observers
        assert [state.node_id for state in states] == [2, 3, 4]
        for observer, source in brokers:
            await observer.close()
            source.connection.close()

    run(work, seed)


def test_a_fresh_broker_fetches_a_snapshot_over_a_connection():
    async def work(controller):
        await controller.fill(40)
        await controller.cluster.voter._log._snapshotting.finish()
        assert controller.cluster.voter._log.newest_snapshot is not None
        observer, source = await controller.observer(2, fetch_bytes=300)
        await observer.caught_up()
        assert observer.image == controller.cluster.voter.image
        await observer.close()
        source.connection.close()

    run(work, snapshot_after_bytes=1_000)


def test_broken_and_blocked_links_are_survived():
    async def work(controller):
        observer, source = await controller.observer(2)
        await observer.caught_up()
        network, first = controller.network, 0
        for harm in (
            lambda: network.reset("voter", "broker-2"),
            lambda: network.partition(["voter"], ["broker-2"]),
            lambda: network.clog("voter", "broker-2"),
        ):
            harm()
            await controller.fill(5, first)
            first += 5
            await asyncio.sleep(7)
            network.heal()
            await controller.cluster.caught_up(observer)
            assert observer.image == controller.cluster.voter.image
        await observer.close()
        source.connection.close()

    run(work)


def request(controller, **changes):
    voter = controller.cluster.voter
    own = Voter(ReplicaKey(NodeId(7)))
    last = LogEnd(1, voter.image.version)
    asked = FetchRequest(voter.identity.cluster_id, own.key, 1, last, 2**63 - 1, 0.5)
    made = request_message(asked, own, 1_000)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_parked_fetches_end_with_their_connections():
    async def work(controller):
        host = controller.network.host("attacker")
        node = controller.cluster.voter.node
        opened = []
        for number in range(20):
            connection = await ClientConnection.open(
                host, Address("voter", PORT), ConnectionSettings(client_id="attacker")
            )
            asked = request(controller, max_wait_ms=2**31 - 1)
            asked.replica_state.replica_id = 100 + number
            connection.send(asked, 18).cancel()
            opened.append(connection)
        await asyncio.sleep(1)
        assert len(node._asked) == 20
        for connection in opened:
            connection.close()
        await asyncio.sleep(1)
        assert not node._asked

    run(work)


def test_a_large_request_for_anything_else_is_refused_and_keeps_nothing():
    async def work(controller):
        source = ConnectedSource(controller.network, "attacker")
        topics = [
            FetchTopic(
                "t", bytes([number % 256]) * 16, [FetchPartition(index) for index in range(9)]
            )
            for number in range(500)
        ]
        answer = await source.fetch(request(controller, topics=topics, max_wait_ms=10_000))
        assert answer.error_code == 42
        assert not answer.responses
        assert not controller.cluster.voter.node._asked
        source.connection.close()

    run(work)
