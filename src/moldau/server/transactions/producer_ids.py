"""Producer ids: unique for ever, given out in blocks so that most cost no commit.

The controller makes a block durable before its first id is given out; ids of a block that a crash
cuts short are never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.base.ids import BrokerId, ProducerId
from moldau.cluster.controller_requests import BrokerRequests


class ProducerIds:
    """Where new producer ids come from."""

    def __init__(
        self, requests: BrokerRequests, broker_id: BrokerId, broker_epoch: Callable[[], int]
    ) -> None:
        self._requests = requests
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return an id that nobody had before."""
        async with self._turn:
            if self._next == self._end:
                block = await self._requests.allocate_producer_ids(
                    self._broker_id, self._broker_epoch()
                )
                self._next, self._end = block
            taken = self._next
            self._next += 1
            return ProducerId(taken)
