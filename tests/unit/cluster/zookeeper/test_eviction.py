"""Nodes of processes that are gone are deleted, and never those of somebody else."""

from __future__ import annotations

from functools import partial

import pytest

from kits.stores_on_zookeeper import run_with_two_stores
from moldau.base.ids import BrokerId
from moldau.cluster.model import Broker
from moldau.cluster.store import ControllerFenced
from moldau.cluster.zookeeper.client.port import NodeKind
from moldau.cluster.zookeeper.eviction import evict_broker, free_seat
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode
from moldau.cluster.zookeeper.registration import register_broker


@pytest.fixture(params=range(3))
def stores(request):
    """Run a test with the started stores of two brokers."""
    return partial(run_with_two_stores, request.param, start_both=True)


async def registered(store, broker_id):
    registered = await register_broker(store.lives.session, BrokerId(broker_id), -1, BrokerNode(()))
    return Broker(BrokerId(broker_id), registered.epoch, bytes(16))


def test_the_controller_takes_the_node_of_a_dead_broker_away(stores):
    async def test(kept, first, second):
        tenure = await first.claim()
        broker = await registered(second, 2)
        await tenure.session.sync()  # its server may be behind; a controller knows whom it evicts
        assert await evict_broker(tenure, broker)
        await second.lives.session.sync()
        assert await second.lives.session.exists(paths.broker(2)) is None
        assert not await evict_broker(tenure, broker)

    stores(test)


def test_the_node_of_a_later_life_stays(stores):
    async def test(kept, first, second):
        tenure = await first.claim()
        old = await registered(second, 2)
        await second.lives.session.delete(paths.broker(2))
        new = await registered(second, 2)
        assert not await evict_broker(tenure, old)
        stat = await second.lives.session.exists(paths.broker(2))
        assert stat.czxid == new.epoch

    stores(test)


def test_who_is_not_the_controller_any_more_takes_nothing_away(stores):
    async def test(kept, first, second):
        tenure = await first.claim()
        broker = await registered(second, 2)
        assert await free_seat(second.lives.session, BrokerId(1))
        assert await second.claim() is not None
        with pytest.raises(ControllerFenced):
            await evict_broker(tenure, broker)
        assert await second.lives.session.exists(paths.broker(2)) is not None

    stores(test)


def test_the_seat_of_a_dead_controller_is_freed_and_it_steps_down_if_it_lives(stores):
    async def test(kept, first, second):
        tenure = await first.claim()
        lost = []
        tenure.on_lost(lambda: lost.append(True))
        assert not await free_seat(second.lives.session, BrokerId(7))
        assert await free_seat(second.lives.session, BrokerId(1))
        assert not await free_seat(second.lives.session, BrokerId(1))
        newer = await second.claim()
        assert newer.epoch > tenure.epoch
        while not lost:
            await first.lives.session.sync()

    stores(test)


def test_the_seat_of_another_controller_stays(stores):
    async def test(kept, first, second):
        await first.claim()
        await first.lives.session.delete(paths.CONTROLLER)
        await second.lives.session.create(
            paths.CONTROLLER, b'{"version":1,"brokerid":2,"timestamp":"1"}', NodeKind.EPHEMERAL
        )
        assert not await free_seat(first.lives.session, BrokerId(1))
        assert await first.lives.session.exists(paths.CONTROLLER) is not None

    stores(test)


def test_a_seat_that_an_earlier_life_has_left_is_free(stores):
    async def test(kept, first, second):
        await second.lives.session.create(
            paths.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}', NodeKind.EPHEMERAL
        )
        await first.lives.session.sync()
        assert await first.claim() is None
        await first.seat_free()
        assert await first.claim() is not None

    stores(test)
