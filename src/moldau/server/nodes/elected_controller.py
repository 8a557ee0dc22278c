"""The way to the elected controller, which may be another broker, this one, or nobody for a while.

What a broker asks for on its own goes to its own controller while that is the active one, and else
to the broker that is (`RemoteController`). What clients ask for is forwarded in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.base.ids import BrokerId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.controller import Controller
from moldau.cluster.controller_requests import BrokerRequests, ProducerIdBlock
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.model import Topic
from moldau.cluster.topics import NewTopic
from moldau.engine.errors import ConnectionLost
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.nodes.remote_controller import RemoteController


class ElectedChannel:
    """A way to whichever node is the controller; implements `Channel`."""

    def __init__(self, channels: BrokerChannels, controller_id: Callable[[], int]) -> None:
        self._channels = channels
        self._controller_id = controller_id

    async def call(self, request: Any) -> Any:
        """Send a request in the newest version that both know, and return its answer."""
        controller_id = self._controller_id()
        if controller_id < 0:
            raise ConnectionLost("no controller is elected")
        return await self._channels.call(BrokerId(controller_id), request)

    def look_elsewhere(self) -> None:
        """Do nothing: who is elected is learnt from the metadata store."""

    async def close(self) -> None:
        """End the connections."""
        await self._channels.close()


class ElectedController:
    """`BrokerRequests` where any broker may be the controller."""

    def __init__(self, own: Controller, remote: RemoteController) -> None:
        self._own = own
        self._remote = remote

    def _controller(self) -> BrokerRequests:
        return self._own if self._own.is_active else self._remote

    async def create_topic(self, wanted: NewTopic) -> Topic:
        return await self._controller().create_topic(wanted)

    async def register_broker(self, registration: BrokerRegistration) -> int:
        return await self._controller().register_broker(registration)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return await self._controller().heartbeat(heartbeat)

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ProducerIdBlock:
        return await self._controller().allocate_producer_ids(broker_id, broker_epoch)

    async def alter_partitions(
        self, broker_id: BrokerId, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrAnswer]:
        return await self._controller().alter_partitions(broker_id, broker_epoch, proposals)

    async def assign_directories(
        self, broker_id: BrokerId, broker_epoch: int, replicas: Sequence[ReplicaDirectory]
    ) -> list[DirectoryAnswer]:
        return await self._controller().assign_directories(broker_id, broker_epoch, replicas)
