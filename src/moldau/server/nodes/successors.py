"""Produce on a broker that stops: what it may not append any more, the next leader appends.

A broker that stops hands its partitions over. Clients go on sending to it until they know. A record
that is refused costs nothing where its client goes to the leader that the refusal names, as Java's
does (KIP-951). librdkafka goes there as well, but waits a tenth of a second first. It has no reason
to wait if the record was accepted. So while a broker stops, a request that it would refuse is sent
on to the broker that leads now; the answer that comes back names that leader. What a client sends
to the same partition after that is refused, for clients that read the name in refusals alone.

A batch that was appended here, but not committed before the leader changed, may be in the log of
the next leader already. An idempotent one is sent on as well: it is recognised. Any other is
refused, because a client that never sends anything twice must not find a second copy.

A request is sent on as a whole, if none of its partitions was accepted and one broker leads them
all. Permissions were checked here; to its successor this broker is an ordinary producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from moldau.base.clock import Clock
from moldau.base.ids import BrokerId
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records.batch import parse_header
from moldau.security.session import Session
from moldau.server.handlers.produce import LEADER_HINTS_FROM
from moldau.server.network.dispatch import Handler, RequestContext
from moldau.server.nodes.leader_hints import LeaderHints

PATIENCE_S: Final = 3.0
"""How long a request is offered to a broker that does not know yet that it leads."""

RETRY_S: Final = 0.005


class Calls(Protocol):
    """Sends requests to other brokers; `BrokerChannels`."""

    async def call_in(self, broker_id: BrokerId, request: Any, version: int, /) -> Any: ...


class SuccessorProduce:
    """Answers Produce in place of another handler, from the moment on in which a broker stops."""

    def __init__(
        self, handler: Handler, calls: Calls, leaders: LeaderHints, own_id: BrokerId, clock: Clock
    ) -> None:
        self._handler = handler
        self._calls = calls
        self._leaders = leaders
        self._own_id = own_id
        self._clock = clock
        self._told: set[tuple[Session, str | bytes, int]] = set()
        """Who knows the new leader of which partition. No longer than the stop of a broker."""

    def __call__(self, request: ProduceRequest, context: RequestContext) -> Any:
        if context.version < LEADER_HINTS_FROM:
            return self._handler(request, context)
        # Records lie in the receive buffer, which is the next request's after this turn.
        return self._produce(_copy(request), context)

    async def _produce(
        self, request: ProduceRequest, context: RequestContext
    ) -> ProduceResponse | None:
        own = self._handler(_copy(request), context)  # which lets go of the records it is given
        response: ProduceResponse | None = await own if isinstance(own, Awaitable) else own
        if response is None or not self._has_news(response, context.session):
            return response
        accepted = await self._send_on(request, context.version, response)
        if accepted is None:
            return response
        self._tell_leaders(accepted, context.session)
        return accepted

    async def _send_on(
        self, request: ProduceRequest, version: int, refusal: ProduceResponse
    ) -> ProduceResponse | None:
        """Return what the next leader answers; None while there is none, and if it is lost."""
        response = refusal
        give_up_s = self._clock.monotonic() + PATIENCE_S
        while (successor := self._successor(request, response)) is not None:
            if self._clock.monotonic() >= give_up_s:
                return None
            if response is not refusal:
                await asyncio.sleep(RETRY_S)
            try:
                response = await self._calls.call_in(successor, request, version)
            except ClientError:
                return None  # nobody knows what came of it: refused, the client tries again
        return None if response is refusal else response

    def _has_news(self, response: ProduceResponse, asker: Session) -> bool:
        """Tell whether the client has not been told of the new leader of any of the partitions."""
        places = {
            (asker, topic.name or topic.topic_id, result.index)
            for topic in response.responses
            for result in topic.partition_responses
        }
        return self._told.isdisjoint(places)

    def _successor(self, request: ProduceRequest, response: ProduceResponse) -> BrokerId | None:
        """Return who leads all partitions of a request, if it was refused for all of them."""
        leaders: set[int] = set()
        for asked, topic in zip(request.topic_data, response.responses, strict=True):
            for data, result in zip(asked.partition_data, topic.partition_responses, strict=True):
                if result.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return None
                if result.base_offset >= 0 and not _is_recognised(data):
                    return None
                leader = self._leaders.leader(topic.name or topic.topic_id, result.index)
                leaders.add(leader.leader_id)
        if len(leaders) != 1:
            return None
        (leader_id,) = leaders
        return None if leader_id in (self._own_id, -1) else BrokerId(leader_id)

    def _tell_leaders(self, response: ProduceResponse, asker: Session) -> None:
        """Name the leaders in an answer."""
        for topic in response.responses:
            name = topic.name or topic.topic_id
            for result in topic.partition_responses:
                self._told.add((asker, name, result.index))
                result.current_leader = self._leaders.hint(
                    name, result.index, asker.listener, response.node_endpoints
                )


def _is_recognised(data: PartitionProduceData) -> bool:
    """Tell whether a broker that has a batch knows it again."""
    return data.records is not None and parse_header(data.records).producer_id >= 0


def _copy(request: ProduceRequest) -> ProduceRequest:
    """Return a request of the same words, with records of its own."""
    return ProduceRequest(
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            TopicProduceData(
                topic.name,
                topic.topic_id,
                [
                    PartitionProduceData(data.index, data.records and bytes(data.records))
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )
