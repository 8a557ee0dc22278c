"""InitProducerId 0-5, for idempotent producers.

Transactional ids need a coordinator, which this broker does not have yet: they are told so.
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import NO_PRODUCER_ID
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from moldau.server.dispatch import RequestContext
from moldau.server.producer_ids import ProducerIds

NO_EPOCH: Final = -1


class ProducerIdHandler:
    """Answers InitProducerId."""

    def __init__(self, ids: ProducerIds) -> None:
        self._ids = ids

    async def __call__(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        del context
        if request.transactional_id == "" or _half_known(request):
            return _refusal(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            return InitProducerIdResponse(producer_id=await self._ids.take())
        except StoreFailed:
            return _refusal(ErrorCode.KAFKA_STORAGE_ERROR)


def _half_known(request: InitProducerIdRequest) -> bool:
    """Tell whether a producer names its id without its epoch, or the other way round."""
    return (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_EPOCH)
