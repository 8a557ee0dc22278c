"""Producer ids: unique for ever, given out in blocks so that most cost no commit.

A block is committed to the metadata store before its first id is given out; ids of a block that a
crash cuts short are never used.
"""

from __future__ import annotations

import asyncio

from moldau.base.ids import BrokerId, ProducerId
from moldau.cluster.brokers import allocate_producer_ids
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import Decisions


class ProducerIds:
    """Where new producer ids come from."""

    def __init__(self, decisions: Decisions, broker_id: BrokerId) -> None:
        self._decisions = decisions
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return an id that nobody had before."""
        async with self._turn:
            if self._next == self._end:
                await self._allocate()
            taken = self._next
            self._next += 1
            return ProducerId(taken)

    async def _allocate(self) -> None:
        block = (0, 0)

        def decide(image: MetadataImage) -> list[Change]:
            nonlocal block
            allocated = allocate_producer_ids(image, image.brokers[self._broker_id])
            block = (image.next_producer_id, allocated.next_producer_id)
            return [allocated]

        await self._decisions.commit(decide)
        self._next, self._end = block
