"""Tells the controller in which log directories this broker's replicas lie (KIP-858).

AssignReplicasToDirs, many replicas at a time, one request in flight. What comes meanwhile leaves
with the next request. A replica stays pending until the controller has answered it, so
that a directory which fails before its replicas were reported is still known to have held them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from moldau.base.clock import Random
from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.store import StoreFailed
from moldau.engine.backoff import Backoff
from moldau.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

REPLICAS_PER_REQUEST: Final = 2_250
"""Kafka's number."""

RETRIES: Final = Backoff(first_ms=100, longest_ms=10_000)
"""The waits after failed requests; Kafka's numbers."""

_NOT_OURS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The replica was deleted, or moved to another broker: the metadata will say so here too."""


class AssignDirectories(Protocol):
    """Asks the controller; `BrokerRequests.assign_directories`."""

    async def __call__(
        self, broker_id: BrokerId, broker_epoch: int, replicas: list[ReplicaDirectory], /
    ) -> list[DirectoryAnswer]: ...


class DirectoryReports:
    """What this broker has still to report. Owned by the event loop's thread."""

    def __init__(
        self,
        ask: AssignDirectories,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        random: Random,
    ) -> None:
        self._ask = ask
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._random = random
        self._pending: dict[tuple[TopicId, int], ReplicaDirectory] = {}
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    def report(self, topic_id: TopicId, index: int, directory: bytes) -> None:
        """Have the controller told where a replica lies, on a later turn of the loop."""
        if self._is_closed:
            return  # the next start reports it
        self._pending[topic_id, index] = ReplicaDirectory(topic_id, index, directory)
        if self._sending is None:
            loop = asyncio.get_running_loop()
            self._sending = loop.create_task(self._send_all(), name="directory reports")

    async def _send_all(self) -> None:
        failure_count = 0
        try:
            while self._pending:
                if await self._send():
                    failure_count = 0
                else:
                    failure_count += 1
                    await asyncio.sleep(RETRIES.wait_s(failure_count, self._random))
        finally:
            self._sending = None

    async def _send(self) -> bool:
        """Send one request; return whether some of it was settled."""
        replicas = list(islice(self._pending.values(), REPLICAS_PER_REQUEST))
        try:
            answers = await self._ask(self._broker_id, self._broker_epoch(), replicas)
        except (ApiError, StoreFailed) as error:
            logger.debug("the controller was not told of %d replicas: %s", len(replicas), error)
            return False
        is_settled = False
        for answer in answers:
            place = answer.replica.topic_id, answer.replica.index
            # A replica that has got another directory meanwhile is reported again.
            if self._pending.get(place) != answer.replica:
                continue
            if answer.error is ErrorCode.NONE or answer.error in _NOT_OURS:
                del self._pending[place]
                is_settled = True
            else:
                # At the end, so that others are not kept from the next request.
                self._pending[place] = self._pending.pop(place)
        return is_settled

    async def close(self) -> None:
        """Report no more."""
        self._is_closed = True
        self._pending.clear()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
