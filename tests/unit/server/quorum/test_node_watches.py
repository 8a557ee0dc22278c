"""The end of another voter's process is told once, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from kits.quorum_node import QuorumNode
from moldau.server.quorum.node_watches import NodeWatches
from moldau.sim.network import SimNetwork


@pytest.fixture
def watching(world):
    """Run a test with two nodes that run, the watches of a third, and what these have told."""

    def run(test):
        async def main():
            network, told = SimNetwork(world), []
            nodes = [QuorumNode(network, number) for number in (1, 2)]
            for node in nodes:
                await node.start()
            watches = NodeWatches(3, network.host("node-3"), told.append)
            watches.follow({node.number: node.address for node in nodes})
            await asyncio.sleep(1)
            await test(watches, told, *nodes)
            await watches.close()
            await asyncio.sleep(1)
            assert all(stream.over for node in nodes for stream in node.streams)

        world.run(main())

    return run


def test_a_process_that_ends_is_told_at_once_and_once(watching):
    async def test(watches, told, first, second):
        first.kill()
        await asyncio.sleep(0.2)
        assert told == [1]
        await asyncio.sleep(60)
        assert told == [1]

    watching(test)


def test_it_is_told_again_once_it_was_there_in_between(watching):
    async def test(watches, told, first, second):
        first.kill()
        await asyncio.sleep(5)
        await first.start()
        await asyncio.sleep(5)
        assert told == [1]
        first.kill()
        await asyncio.sleep(5)
        assert told == [1, 1]

    watching(test)


def test_a_node_that_cannot_be_heard_is_not_gone(watching):
    async def test(watches, told, first, second):
        first.network.partition(["node-1"], ["node-3"])
        await asyncio.sleep(60)
        first.network.heal()
        first.network.pause("node-2")
        await asyncio.sleep(60)
        first.network.resume("node-2")
        assert told == []

    watching(test)


def test_a_node_that_is_a_voter_no_more_is_not_watched(watching):
    async def test(watches, told, first, second):
        watches.follow({1: first.address})
        await asyncio.sleep(1)
        second.kill()
        await asyncio.sleep(5)
        assert told == []

    watching(test)


def test_a_node_that_has_moved_is_watched_where_it_is_now(watching):
    async def test(watches, told, first, second):
        first.kill()
        await first.start(9999)
        watches.follow({1: first.address, 2: second.address})
        await asyncio.sleep(5)
        assert told == []
        first.kill()
        await asyncio.sleep(5)
        assert told == [1]

    watching(test)


def test_the_same_voters_once_more_change_nothing(watching):
    async def test(watches, told, first, second):
        streams = len(first.streams)
        watches.follow({2: second.address, 1: first.address})
        await asyncio.sleep(5)
        assert len(first.streams) == streams

    watching(test)


def test_a_node_does_not_watch_itself(watching):
    async def test(watches, told, first, second):
        own = QuorumNode(first.network, 3)
        watches.follow({1: first.address, 3: own.address})  # nobody listens there
        await asyncio.sleep(5)
        assert told == []

    watching(test)
