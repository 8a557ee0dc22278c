"""How a broker of a cluster starts, and what ends its start: a signal, silence, lost metadata."""

from __future__ import annotations

import asyncio

import pytest

from kits.node_kit import Nodes
from moldau.base.errors import UserError
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import NewTopic
from moldau.server.nodes.membership import State
from moldau.storage.checkpoints import CLEAN_MARK, read_clean_mark, read_open_mark


@pytest.fixture
def nodes(world):
    return Nodes(world)


async def stop_start(broker, reached):
    """Begin a start, and give it up once something is reached."""
    starting = asyncio.create_task(broker.start())
    while not reached():
        assert not starting.done(), starting.result()
        await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.wait((starting,))
    assert starting.cancelled()
    await broker.stop()


def test_a_broker_without_a_controller_gives_up_and_says_where_it_looked(nodes, world):
    async def scenario():
        broker = nodes.node(2)
        begun_s = world.clock.monotonic()
        with pytest.raises(UserError, match=r"at node-1:9093 within 5000 ms \(initial\.broker"):
            await broker.start()
        await broker.stop()
        assert 5 <= world.clock.monotonic() - begun_s < 6

    world.run(scenario())


def test_a_start_can_be_given_up_before_the_voter_is_there(nodes, world):
    async def scenario():
        broker = nodes.node(2)
        await stop_start(broker, lambda: broker.parts.store.image.version == 0)

    world.run(scenario())


def test_a_start_can_be_given_up_while_it_registers(nodes, world):
    async def scenario():
        voter, first = nodes.node(1), nodes.node(2)
        await voter.start()
        await first.start()
        second = nodes.node(2)
        second.parts.logs.lock = lambda: ["/data"]  # as if its folder were another one
        await stop_start(second, lambda: second.parts.logs.directories[0].identity is not None)
        assert second.parts.broker_epoch() == -1
        await first.stop()
        await voter.stop()

    world.run(scenario())


def test_a_start_can_be_given_up_while_it_catches_up(nodes, world):
    async def scenario():
        voter, broker = nodes.node(1), nodes.node(2)
        await voter.start()
        heartbeat = broker.parts.requests.heartbeat

        async def never_unfenced(beat):
            answer = await heartbeat(beat)
            return answer._replace(is_fenced=True)

        broker.parts.requests.heartbeat = never_unfenced
        await stop_start(broker, lambda: broker.parts.membership.state is State.FENCED)
        assert read_clean_mark(nodes.disks[2], "/data") is not None
        await voter.stop()

    world.run(scenario())


def test_a_topic_that_is_made_while_partitions_are_begun_is_served(nodes, world):
    async def scenario():
        voter, broker = nodes.node(1), nodes.node(2)
        await voter.start()
        replicas = broker.parts.replicas
        begin = replicas.begin

        async def begin_slowly(image, unreadable):
            await begin(image, unreadable)
            await voter.parts.requests.create_topic(NewTopic("late", 1, 2))
            await asyncio.sleep(1)
            assert broker.parts.store.image.topic("late") is not None

        replicas.begin = begin_slowly
        await broker.start()
        await asyncio.sleep(1)  # its leader takes it out of the ISR much later
        assert broker.parts.partitions.get("late", 0) is not None
        await broker.stop()
        await voter.stop()

    world.run(scenario())


@pytest.mark.parametrize("phase", ["registering", "fenced", "running"])
def test_a_broker_that_cannot_follow_the_metadata_any_more_ends(nodes, world, phase):
    async def scenario():
        voter, broker = nodes.node(1), nodes.node(2)
        await voter.start()
        requests = broker.parts.requests
        if phase == "registering":
            requests.register_broker = lambda registration: asyncio.Event().wait()
        elif phase == "fenced":
            requests.heartbeat = lambda beat: asyncio.Event().wait()
        starting = asyncio.create_task(broker.start())
        await asyncio.sleep(1)
        assert starting.done() is (phase == "running")
        broker._store_failed(StoreFailed("the disk is gone"))
        running = broker.run_until(asyncio.Event()) if starting.done() else starting
        with pytest.raises(UserError, match="the disk is gone"):
            await running
        await broker.stop()
        await voter.stop()

    world.run(scenario())


def test_one_that_stops_while_it_registers_again_closes_its_logs(nodes, world):
    async def scenario():
        voter, broker = nodes.node(1), nodes.node(2)
        await voter.start()
        await broker.start()
        broker.parts.requests.register_broker = lambda registration: asyncio.Event().wait()
        broker.parts.membership.broker_epoch += 1
        await asyncio.sleep(1)
        assert broker.parts.membership.state is State.STARTING
        await broker.stop()
        assert read_clean_mark(nodes.disks[2], "/data") is not None
        await voter.stop()

    world.run(scenario())


def test_every_listener_of_a_controller_answers(nodes, world):
    async def scenario():
        voter = nodes.node(1)
        await voter.start()
        for port in ("9093", "9094"):
            there = {"controller.quorum.voters": f"1@node-1:{port}"}
            broker = nodes.node(2, **there)
            await broker.start()
            await broker.stop()
        assert [(name, address.port) for name, address in voter.bound] == [
            ("PLAINTEXT", 9092), ("CONTROLLER", 9093), ("SPARE", 9094),
        ]  # fmt: skip
        await voter.stop()

    world.run(scenario())


def test_a_loss_of_power_is_known_until_the_controller_has_heard_of_it(nodes, world):
    """A start that ends before it has registered must not make the next one look harmless."""

    async def scenario():
        voter, broker = nodes.node(1), nodes.node(2)
        await voter.start()
        await broker.start()
        assert read_open_mark(nodes.disks[2], "/data").boot_id == "first"
        await broker.stop()
        nodes.disks[2].remove(f"/data/{CLEAN_MARK}")
        broker = nodes.node(2, boot_id="second")
        sent = []

        async def refuse(registration):
            sent.append(registration.previous_broker_epoch)
            await asyncio.Event().wait()

        broker.parts.requests.register_broker = refuse
        await stop_start(broker, lambda: sent)
        broker = nodes.node(2, boot_id="second")
        broker.parts.requests.register_broker = refuse
        await stop_start(broker, lambda: len(sent) == 2)
        assert sent == [-1, -1]
        broker = nodes.node(2, boot_id="second")
        await broker.start()
        assert read_open_mark(nodes.disks[2], "/data").boot_id == "second"
        await broker.stop()
        await voter.stop()

    world.run(scenario())
