"""The stores of several brokers on one simulated ensemble, without brokers around them.

Brokers tell each other the steps of the history by requests. Here the steps go from the store of
the controller to the others after a drawn time, in their order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.base.ids import BrokerId
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import image_difference
from moldau.cluster.zookeeper.history import controller_epoch_of
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.sim.disk import SimDisk
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

MEAN_DELAY_S = 0.01


class StoresOnZooKeeper:
    """All brokers' stores, and the ensemble below them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ensemble = SimEnsemble(world)
        self.stores: dict[int, ZooKeeperStore] = {}
        self._due_s: dict[int, float] = {}

    def store(self, broker_id: int) -> ZooKeeperStore:
        """Make the store of one broker; it has to be started."""
        store = ZooKeeperStore(
            SimZooKeeper(self.ensemble, f"broker-{broker_id}"),
            SimDisk(self._world.random(f"disk-{broker_id}")),
            ["/data"],
            BrokerId(broker_id),
            self._world.clock,
            random.Random(broker_id),
        )
        self.stores[broker_id] = store
        store.subscribe(lambda _, image: self._relay(broker_id, image))
        return store

    def end_session(self, broker_id: int) -> None:
        """End the session of a broker at the servers; the broker hears of it later."""
        self.ensemble.expire(f"broker-{broker_id}")

    def _relay(self, sender: int, image: MetadataImage) -> None:
        if self.stores[sender].leader_id != sender:
            return
        loop = self._world.loop
        for broker_id, store in self.stores.items():
            if broker_id != sender:
                due_s = max(
                    self._due_s.get(broker_id, 0.0), loop.time() + loop.delay_s(MEAN_DELAY_S)
                )
                self._due_s[broker_id] = due_s
                loop.call_at(due_s, self._tell, store, sender, image)

    def _tell(self, store: ZooKeeperStore, sender: int, image: MetadataImage) -> None:
        epoch = controller_epoch_of(image.version)
        if epoch >= store.leader_epoch and image.version > store.image.version:
            store.fence.hear_of(sender, epoch)
            store.heard_of_controller()
            store.take_step([*image_difference(store.image, image)], image)


Test = Callable[[StoresOnZooKeeper, ZooKeeperStore, ZooKeeperStore], Coroutine[Any, Any, None]]


def run_with_two_stores(seed: int, test: Test, *, start_both: bool) -> None:
    """Run a test with the stores of two brokers; the first is started, and the second if asked."""
    with World(seed) as world:
        kept = StoresOnZooKeeper(world)

        async def main() -> None:
            first, second = kept.store(1), kept.store(2)
            await first.start()
            if start_both:
                await second.start()
            try:
                await test(kept, first, second)
            finally:
                await first.close()
                await second.close()

        world.run(main())
