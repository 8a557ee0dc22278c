"""Producer ids: unique for ever, given out in blocks so that most cost no commit.

The controller makes a block durable before its first id is given out; ids of a block that a crash
cuts short are never used.

The controller may be silent for long: it cannot commit while ZooKeeper is away. Nobody waits longer
than a second for it. As in Kafka, a producer is then told to try again, and finds the block there
once it has arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.base.ids import BrokerId, ProducerId
from moldau.base.shielding import shielded
from moldau.cluster.controller_requests import BrokerRequests
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 1.0
"""How long a producer waits for a block. A client tries again after a tenth of that."""


class ProducerIds:
    """Where new producer ids come from. Owned by the event loop's thread."""

    def __init__(
        self, requests: BrokerRequests, broker_id: BrokerId, broker_epoch: Callable[[], int]
    ) -> None:
        self._requests = requests
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._asking: asyncio.Task[None] | None = None
        self._has_complained = False

    async def take(self) -> ProducerId:
        """Return an id that nobody had before.

        ApiError or StoreFailed if there is none now. COORDINATOR_LOAD_IN_PROGRESS makes every
        client try again.
        """
        while self._next == self._end:
            await self._next_block()
        taken = self._next
        self._next += 1
        return ProducerId(taken)

    async def _next_block(self) -> None:
        """Wait for the block that was asked for; ask first, unless somebody has."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
            # Whoever has asked may have given up.
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await shielded(self._asking)
        except TimeoutError:
            self._complain("the controller does not answer")
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there are no producer ids yet"
            ) from None

    async def _ask(self) -> None:
        try:
            self._next, self._end = await self._requests.allocate_producer_ids(
                self._broker_id, self._broker_epoch()
            )
        except (ApiError, StoreFailed) as error:
            self._complain(str(error))
            raise
        finally:
            self._asking = None
        if self._has_complained:
            self._has_complained = False
            logger.warning("there are producer ids again")

    def _complain(self, reason: str) -> None:
        """Say once why producers have to wait, until they need not any more."""
        if not self._has_complained:
            self._has_complained = True
            logger.warning("there are no producer ids, new producers have to wait: %s", reason)
