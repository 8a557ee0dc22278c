"""Watches the processes of all other brokers, and acts on the end of one (ADR 0017).

Every broker does this. While a broker's connection is lost, or its process does not answer a probe,
clients are told that its partitions have no leader, so that they ask again soon. What follows when
its process is gone is for others to say (`take_away`): the controller takes it out of its ISRs at
once, and if it was the controller itself, another one is elected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId
from moldau.base.network import Address, Network
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.store import ClusterMetadata
from moldau.server.nodes.process_watch import ProcessWatch, Sign

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Between two tries to act on the end of a process."""

TakeAway = Callable[[Broker], Awaitable[None]]
"""Does what follows from the end of a broker's process; called again while nothing has."""


class _Watched(NamedTuple):
    broker: Broker
    watch: ProcessWatch


class BrokerWatches:
    """The watches of one broker. Owned by the event loop's thread."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: ClusterMetadata,
        network: Network,
        address: Callable[[BrokerId], Address | None],
        take_away: TakeAway,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._network = network
        self._address = address
        self._take_away = take_away
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
        self._unsubscribe = self._metadata.subscribe(self._changed)
        self._changed((), self._metadata.image)
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
                await self._take_away(broker)
