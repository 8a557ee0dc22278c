"""Watches the processes of all other brokers, and acts on the end of one (ADR 0017).

Every broker does this. While a broker's connection is lost, or its process does not answer a probe,
clients are told that its partitions have no leader, so that they ask again soon. When its process
is gone, the controller takes its node away, and it leaves its ISRs at once. If it was the
controller, any broker frees its seat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId
from moldau.base.network import Address, Network
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.store import ControllerFenced, StoreFailed
from moldau.cluster.zookeeper.client.port import ZooKeeperError
from moldau.cluster.zookeeper.eviction import evict_broker, free_seat
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.server.zookeeper.process_watch import ProcessWatch, Sign

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Between two tries to take the nodes of a process away that is gone."""


class _Watched(NamedTuple):
    broker: Broker
    watch: ProcessWatch


class BrokerWatches:
    """The watches of one broker. Owned by the event loop's thread."""

    def __init__(
        self,
        broker_id: BrokerId,
        store: ZooKeeperStore,
        network: Network,
        address: Callable[[BrokerId], Address | None],
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._network = network
        self._address = address
        self._watched: dict[BrokerId, _Watched] = {}
        self._looks = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    def is_suspected(self, broker_id: BrokerId) -> bool:
        """Tell whether a broker's process may have ended, or does not run."""
        watched = self._watched.get(broker_id)
        return watched is not None and watched.watch.is_suspicious

    def probe(self, broker_id: BrokerId) -> None:
        """Ask a broker's process for a sign of life."""
        watched = self._watched.get(broker_id)
        if watched is not None:
            watched.watch.probe()

    async def run(self) -> None:
        """Watch until cancelled."""
        self._unsubscribe = self._store.subscribe(self._changed)
        self._changed((), self._store.image)
        try:
            while True:
                await self._wait_for_signs()
                self._looks.clear()
                await self._act()
        finally:
            self._unsubscribe()
            tasks = [one.watch.cancel() for one in self._watched.values()]
            self._watched.clear()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_signs(self) -> None:
        """Wait until a process ends, or it is time to try again what failed for one."""
        is_any_gone = any(one.watch.sign is Sign.GONE for one in self._watched.values())
        try:
            async with asyncio.timeout(RETRY_S if is_any_gone else None):
                await self._looks.wait()
        except TimeoutError:
            pass

    def look_again(self) -> None:
        """Act on what is known: this broker may have become the controller."""
        self._looks.set()

    def _changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Watch each life of each other broker."""
        del changes
        for broker_id, watched in tuple(self._watched.items()):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.epoch != watched.broker.epoch:
                watched.watch.cancel()
                del self._watched[broker_id]
        for broker_id, broker in image.brokers.items():
            if broker_id != self._broker_id and broker_id not in self._watched:
                address = self._address(broker_id)
                if address is not None:
                    watch = ProcessWatch(self._network, address, partial(self._noticed, broker))
                    self._watched[broker_id] = _Watched(broker, watch)

    def _noticed(self, broker: Broker) -> None:
        watched = self._watched.get(broker.id)
        if watched is not None and watched.watch.sign is Sign.GONE:
            self._looks.set()

    async def _act(self) -> None:
        for broker, watch in tuple(self._watched.values()):
            if watch.sign is Sign.GONE:
                try:
                    await self._take_away(broker)
                except (ControllerFenced, StoreFailed, ZooKeeperError) as error:
                    logger.debug("broker %d keeps its nodes: %s", broker.id, error)

    async def _take_away(self, broker: Broker) -> None:
        tenure = self._store.tenure
        if tenure is not None and not tenure.is_over:
            if await evict_broker(tenure, broker):
                logger.warning("broker %d is gone: its port refuses connections", broker.id)
        elif broker.id == self._store.leader_id and await free_seat(
            self._store.lives.session, broker.id
        ):
            logger.warning("the controller, broker %d, is gone: a new one is elected", broker.id)
