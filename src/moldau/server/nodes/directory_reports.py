"""Tells the controller in which log directories this broker's replicas lie (KIP-858).

Requests are AssignReplicasToDirs with many replicas each, one in flight. A replica stays pending
until the controller has answered for it. So the controller learns what a directory held, even if
that fails before the report.
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
from moldau.server.nodes.one_in_flight import OneInFlight

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
    """The replicas that this broker has still to report. Owned by the event loop's thread."""

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
        self._requests = OneInFlight("directory reports", self._pending, self._send_next)
        self._failure_count = 0
        """Requests in a row that brought nothing."""
        self._is_closed = False

    def report(self, topic_id: TopicId, index: int, directory: bytes) -> None:
        """Report the directory of a replica, on a later turn of the loop."""
        if self._is_closed:
            return  # the next start reports it
        self._pending[topic_id, index] = ReplicaDirectory(topic_id, index, directory)
        self._requests.begin()

    async def _send_next(self) -> None:
        if await self._send():
            self._failure_count = 0
        else:
            self._failure_count += 1
            await asyncio.sleep(RETRIES.wait_s(self._failure_count, self._random))

    async def _send(self) -> bool:
        """Send one request; return whether a replica of it is pending no more."""
        replicas = list(islice(self._pending.values(), REPLICAS_PER_REQUEST))
        try:
            answers = await self._ask(self._broker_id, self._broker_epoch(), replicas)
        except (ApiError, StoreFailed) as error:
            logger.debug("the controller was not told of %d replicas: %s", len(replicas), error)
            return False
        except Exception:
            # Not dropped: a replica whose directory is unknown stays out of the ISR.
            logger.exception("a bug while directories were reported, they are sent again")
            return False
        return self._take(answers)

    def _take(self, answers: list[DirectoryAnswer]) -> bool:
        is_progress = False
        for answer in answers:
            key = answer.replica.topic_id, answer.replica.index
            # A replica that has moved to another directory meanwhile is reported again.
            if self._pending.get(key) != answer.replica:
                continue
            if answer.error is ErrorCode.NONE or answer.error in _NOT_OURS:
                del self._pending[key]
                is_progress = True
            else:
                # To the end of the queue, so that it does not hold up the others.
                self._pending[key] = self._pending.pop(key)
        return is_progress

    async def close(self) -> None:
        """Report no more."""
        self._is_closed = True
        self._pending.clear()
        await self._requests.cancel()
