"""Asks the controller, whoever that is, to let this broker stop (ControlledShutdown).

On ZooKeeper brokers send no heartbeats that could say it.
"""

from __future__ import annotations

from moldau.base.ids import BrokerId
from moldau.cluster.controller import Controller
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from moldau.server.nodes.remote_controller import Channel


class ShutdownRequest:
    """Asks whoever is the controller to move this broker's leaders away (ControlledShutdown)."""

    def __init__(self, own: Controller, channel: Channel) -> None:
        self._own = own
        self._channel = channel

    async def __call__(self, broker_id: BrokerId, broker_epoch: int) -> int:
        """Return how many partitions this broker still leads; ApiError, ClientError."""
        if self._own.is_active:
            return len(await self._own.shut_down_broker(broker_id, broker_epoch))
        request = ControlledShutdownRequest(broker_id, broker_epoch)
        answer: ControlledShutdownResponse = await self._channel.call(request)
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code))
        return len(answer.remaining_partitions)
