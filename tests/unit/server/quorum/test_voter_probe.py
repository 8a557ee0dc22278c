"""A node that is to be a voter tells its versions itself, or is refused with the reason."""

from __future__ import annotations

import asyncio

import pytest

from kits.quorum_node import PORT, VERSIONS, QuorumNode
from moldau.cluster.raft.voters import VoterEndpoint
from moldau.engine.ports import ClientPorts, system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import SupportedFeatureKey
from moldau.server.quorum.voter_probe import VoterProbe
from moldau.sim.network import SimNetwork

THERE = (VoterEndpoint("OTHER", "nowhere", 1), VoterEndpoint("CONTROLLER", "node-1", PORT))


@pytest.fixture
def probing(world):
    """Run a test with a probe and the node that it asks, which is not started."""

    def run(test):
        async def main():
            network = SimNetwork(world)
            node = QuorumNode(network, 1)
            ports = ClientPorts(network.host("node-2"), world.clock, world.random("probe"))
            await test(VoterProbe("CONTROLLER", ports, client_id="node-2-probe"), node)
            assert all(stream.over or stream.other.over for stream in node.streams)

        world.run(main())

    return run


def test_a_node_tells_the_levels_that_it_supports(probing):
    async def test(probe, node):
        node.features = [
            SupportedFeatureKey("metadata.version", 7, 30),
            SupportedFeatureKey("kraft.version", 0, 3),
        ]
        await node.start()
        assert await probe(THERE) == (0, 3)
        assert len(node.streams) == 1

    probing(test)


@pytest.mark.parametrize("newest", [0, 2, 3, 5])
def test_a_node_that_names_no_level_knows_the_first_alone(probing, newest):
    async def test(probe, node):
        node.newest[VERSIONS] = newest
        await node.start()
        assert await probe(THERE) == (0, 0)

    probing(test)


def test_a_port_that_refuses_is_named(probing):
    async def test(probe, node):
        with pytest.raises(ApiError, match="node-1:9093") as raised:
            await probe(THERE)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT

    probing(test)


def test_a_node_that_says_nothing_is_not_waited_for_without_end(probing):
    async def test(probe, node):
        await node.start()
        node.network.pause("node-1")
        with pytest.raises(ApiError, match="no answer in time") as raised:
            await probe(THERE)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        node.network.resume("node-1")

    probing(test)


def test_a_port_of_something_else_is_named(probing):
    async def test(probe, node):
        node.newest.clear()
        await node.start()
        with pytest.raises(ApiError, match="node-1:9093: the broker reports") as raised:
            await probe(THERE)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT

    probing(test)


@pytest.mark.parametrize("host", ["no.such.host", "\0", "x" * 40_000, ""])
def test_an_address_that_leads_nowhere_is_refused(probing, host):
    async def test(probe, node):
        with pytest.raises(ApiError) as raised:
            await probe([VoterEndpoint("CONTROLLER", host, PORT)])
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(raised.value.message) < 3_000

    probing(test)


@pytest.mark.parametrize("host", ["\0", "x" * 100])
def test_a_name_that_no_machine_can_have_is_refused(host):
    async def main():
        probe = VoterProbe("CONTROLLER", system_ports(ConnectionSettings()), client_id="probe")
        with pytest.raises(ApiError) as raised:
            await probe([VoterEndpoint("CONTROLLER", host, PORT)])
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(main())


@pytest.mark.parametrize("endpoints", [(), THERE[:1]])
def test_a_voter_has_to_name_the_listener_of_the_voters(probing, endpoints):
    async def test(probe, node):
        with pytest.raises(ApiError, match="CONTROLLER") as raised:
            await probe(endpoints)
        assert raised.value.code is ErrorCode.INVALID_REQUEST

    probing(test)
