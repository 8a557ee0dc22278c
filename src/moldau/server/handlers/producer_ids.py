"""InitProducerId 0-5, for idempotent producers.

Transactional ids need a coordinator, which this broker does not have yet: they are told so.
"""

from __future__ import annotations

from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from moldau.server.dispatch import RequestContext
from moldau.server.producer_ids import ProducerIds


class ProducerIdHandler:
    """Answers InitProducerId."""

    def __init__(self, ids: ProducerIds) -> None:
        self._ids = ids

    async def __call__(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        del context
        if request.transactional_id is not None:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            return InitProducerIdResponse(producer_id=await self._ids.take())
        except StoreFailed:
            return InitProducerIdResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
