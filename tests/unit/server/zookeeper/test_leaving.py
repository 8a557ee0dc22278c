"""A broker on ZooKeeper that stops: how long it asks for its leaders to be moved away."""

from __future__ import annotations

import pytest

from kits.stores_on_zookeeper import StoresOnZooKeeper
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.changes import BrokerRegistered
from moldau.cluster.model import Broker
from moldau.server.zookeeper.membership import ZooKeeperMembership

REGISTRATION = BrokerRegistration(BrokerId(1), bytes(16), (), (), previous_broker_epoch=7)
PATIENCE_S = 30


class Leaving:
    """Broker 1, and a controller that says how many partitions it still leads."""

    def __init__(self, world):
        self.store = StoresOnZooKeeper(world).store(1)
        self.still_led = [0]
        self.asked = 0
        self.membership = ZooKeeperMembership(
            self.store, self.shut_down, world.clock, 10, self.keep
        )

    async def shut_down(self, broker_id, broker_epoch):
        self.asked += 1
        return self.still_led.pop(0) if len(self.still_led) > 1 else self.still_led[0]

    async def keep(self, broker_epoch):
        pass

    async def beside(self, *others):
        """Register, and hear of the other brokers."""
        await self.store.start()
        await self.membership.register(REGISTRATION)
        own = Broker(BrokerId(1), self.membership.broker_epoch, bytes(16))
        changes = [BrokerRegistered(one) for one in (own, *others)]
        self.store.take_step(changes, self.store.image.apply(changes, 1))


@pytest.fixture
def leaving(world):
    made = Leaving(world)
    yield made
    world.run(made.store.close())


def other(broker_id, *, is_stopping=False):
    return Broker(BrokerId(broker_id), 50, bytes(16), in_controlled_shutdown=is_stopping)


def test_it_asks_until_others_lead_its_partitions(world, leaving):
    async def leave():
        await leaving.beside(other(2), other(3, is_stopping=True))
        leaving.still_led = [5, 2, 0]
        return await leaving.membership.sign_off(PATIENCE_S)

    assert world.run(leave())
    assert leaving.asked == 3


@pytest.mark.parametrize("others", [(), (other(2, is_stopping=True),)])
def test_the_last_one_does_not_wait_for_others_to_lead(world, leaving, others):
    async def leave():
        await leaving.beside(*others)
        leaving.still_led = [5]
        return await leaving.membership.sign_off(PATIENCE_S)

    assert world.run(leave())
    assert leaving.asked == 1
