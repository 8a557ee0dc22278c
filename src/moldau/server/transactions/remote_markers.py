"""Markers for partitions that other brokers lead, by WriteTxnMarkers.

To each broker there is one request on its way. What is decided meanwhile waits, and leaves together
in the next one: many small transactions that end at the same time share a round trip.

A marker is sent once. Who asked for it is told what became of it, also that this is not known, and
asks again at the broker that leads by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from moldau.base.ids import BrokerId, PartitionKey
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.server.nodes.one_in_flight import OneInFlight
from moldau.server.transactions.markers import Marker

logger = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST: Final = 500
"""Partitions that one request has at most, so that none takes long to encode or to decode."""

LOWEST_VERSION: Final = 1


class BrokerCalls(Protocol):
    """Asks other brokers; `BrokerChannels`."""

    async def call(self, broker_id: BrokerId, request: Any, *, lowest_version: int = 0) -> Any:
        """Return the answer to a request; ClientError if there is none."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


class _Waiting(NamedTuple):
    """A marker for some partitions of one broker."""

    marker: Marker
    keys: Sequence[PartitionKey]
    is_wanted: Callable[[], bool]
    answer: asyncio.Future[dict[PartitionKey, ErrorCode]]


class RemoteMarkers:
    """Has markers written by other brokers. Owned by the event loop's thread."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls
        self._queues: dict[BrokerId, _Queue] = {}

    async def write(
        self,
        broker_id: BrokerId,
        marker: Marker,
        keys: Iterable[PartitionKey],
        is_wanted: Callable[[], bool],
    ) -> dict[PartitionKey, ErrorCode]:
        """Have a marker written to partitions that a broker leads; say of each what became of it.

        NETWORK_EXCEPTION if that is not known. A marker that is not wanted any more when its turn
        comes is not sent.
        """
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = _Queue(broker_id, self._calls)
        answers = []
        left = iter(keys)
        while part := tuple(islice(left, PARTITIONS_PER_REQUEST)):
            answers.append(queue.add(marker, part, is_wanted))
            if len(part) == PARTITIONS_PER_REQUEST:
                await asyncio.sleep(0)
        codes: dict[PartitionKey, ErrorCode] = {}
        for answer in answers:
            codes.update(await answer)
        return codes

    async def close(self) -> None:
        """End the connections; what waits is told NETWORK_EXCEPTION."""
        await self._calls.close()
        for queue in self._queues.values():
            await queue.ended()


class _Queue:
    """What one broker is asked for, request by request."""

    def __init__(self, broker_id: BrokerId, calls: BrokerCalls) -> None:
        self._broker_id = broker_id
        self._calls = calls
        self._waiting: deque[_Waiting] = deque()
        self._requests = OneInFlight(
            f"write markers to broker {broker_id}", self._waiting, self._send
        )
        self._is_reachable = True

    def add(
        self, marker: Marker, keys: Sequence[PartitionKey], is_wanted: Callable[[], bool]
    ) -> asyncio.Future[dict[PartitionKey, ErrorCode]]:
        future = asyncio.get_running_loop().create_future()
        waiting = _Waiting(marker, keys, is_wanted, future)
        self._waiting.append(waiting)
        self._requests.begin()
        return waiting.answer

    async def ended(self) -> None:
        """Wait until nothing is in flight."""
        await self._requests.ended()

    async def _send(self) -> None:
        batch = self._take()
        codes = await self._ask(batch) if batch else {}
        for one in batch:
            _answer(one, codes.get(one.marker.producer.producer_id, {}))

    def _take(self) -> list[_Waiting]:
        """Take what the next request has room for, without what is not wanted any more."""
        batch: list[_Waiting] = []
        room = PARTITIONS_PER_REQUEST
        while self._waiting and (not batch or len(self._waiting[0].keys) <= room):
            one = self._waiting.popleft()
            if one.is_wanted():
                batch.append(one)
                room -= len(one.keys)
            else:
                _answer(one, {})
        return batch

    async def _ask(self, batch: Sequence[_Waiting]) -> _Codes:
        """Send one request; nothing is known of what has no answer."""
        try:
            request = WriteTxnMarkersRequest([_message(one) for one in batch])
            response = await self._calls.call(
                self._broker_id, request, lowest_version=LOWEST_VERSION
            )
            codes = _codes(response)
        except (ClientError, OSError, ValueError) as error:
            self._unreachable(error)
            return {}
        except Exception:
            logger.exception("a bug while markers are sent to broker %d", self._broker_id)
            return {}
        self._is_reachable = True
        return codes

    def _unreachable(self, error: Exception) -> None:
        """Say once that markers do not arrive."""
        log = logger.warning if self._is_reachable else logger.debug
        self._is_reachable = False
        log("broker %d does not take markers, they are tried again: %s", self._broker_id, error)


_Codes = Mapping[int, Mapping[PartitionKey, ErrorCode]]
"""By producer id: a request has at most one marker of a producer for each partition."""


def _message(one: _Waiting) -> WritableTxnMarker:
    marker = one.marker
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for name, index in one.keys:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = WritableTxnMarkerTopic(name, [])
        topic.partition_indexes.append(index)
    return WritableTxnMarker(
        marker.producer.producer_id,
        marker.producer.producer_epoch,
        marker.committed,
        list(topics.values()),
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _codes(response: WriteTxnMarkersResponse) -> _Codes:
    codes: dict[int, dict[PartitionKey, ErrorCode]] = {}
    for marker in response.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for one in topic.partitions:
                key = PartitionKey(topic.name, one.partition_index)
                of_producer[key] = ErrorCode(one.error_code)
    return codes


def _answer(waiting: _Waiting, codes: Mapping[PartitionKey, ErrorCode]) -> None:
    if not waiting.answer.done():
        unknown = ErrorCode.NETWORK_EXCEPTION
        waiting.answer.set_result({key: codes.get(key, unknown) for key in waiting.keys})
