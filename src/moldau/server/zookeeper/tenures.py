"""A broker's turns as the controller: it runs for election, and has duties while it is elected.

Whenever `/controller` is free, every broker tries to take it. The one that does sends its commands
to all others, looks at what happens in the tree, and decides on it, until it is not the controller
any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.controller import Controller
from moldau.cluster.model import Broker
from moldau.cluster.store import ControllerFenced, StoreFailed
from moldau.cluster.zookeeper.client.port import ZooKeeperError
from moldau.cluster.zookeeper.commands.outgoing import Sender
from moldau.cluster.zookeeper.events import BrokersSeen, DirectoryFailed, TreeEvent
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.cluster.zookeeper.tool_decisions import RequestSettings
from moldau.cluster.zookeeper.tool_duties import ToolDuties
from moldau.cluster.zookeeper.tree_following import TreeFollowing
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.replication import LeaderAndIsrRequest, LeaderAndIsrResponse
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.zookeeper.command_sender import CommandSender

logger = logging.getLogger(__name__)

MOVES_INTERVAL_S: Final = 0.2
"""Between looks at a reassignment that a tool has asked for, and waits for."""

OwnRoles = Callable[[LeaderAndIsrRequest], Awaitable[LeaderAndIsrResponse]]
"""Answers for the replicas of this broker."""

CLAIM_RETRY_S: Final = 0.1
"""After a claim that failed although nobody is the controller."""


class Tenures:
    """Runs for election again and again. Owned by the event loop's thread."""

    def __init__(
        self,
        broker_id: BrokerId,
        store: ZooKeeperStore,
        controller: Controller,
        registered: Callable[[], Awaitable[None]],
        open_channels: Callable[[], BrokerChannels],
        began: Callable[[], None],
        request_settings: RequestSettings,
        own_roles: OwnRoles,
    ) -> None:
        """`registered` returns when this broker has a node: others find the controller by it.

        `began` is called whenever this broker has become the controller.
        """
        self._broker_id = broker_id
        self._store = store
        self._controller = controller
        self._registered = registered
        self._open_channels = open_channels
        self._began = began
        self._request_settings = request_settings
        self._own_roles = own_roles
        self._sender: CommandSender | None = None

    async def run(self) -> None:
        """Take every chance to be the controller, until cancelled."""
        while True:
            # One that waits for its id could be elected, and would be looked for at the address of
            # the broker that has the id.
            await self._registered()
            await self._store.seat_free()
            await self._registered()  # the seat may have been free long after
            if not await self._controller.claim():
                await asyncio.sleep(CLAIM_RETRY_S)
                continue
            tenure, following = self._store.tenure, self._store.following
            if tenure is not None and following is not None:
                await self._serve(tenure, following)

    async def _serve(self, tenure: Tenure, following: TreeFollowing) -> None:
        over = asyncio.Event()
        tenure.on_lost(over.set)
        channels = self._open_channels()
        sender = CommandSender(
            Sender(self._broker_id, tenure.epoch),
            self._store,
            _CommandCalls(self._broker_id, channels, self._own_roles),
            superseded=tenure.resign,
            roles_answered=self._roles_answered,
        )
        self._sender = sender
        sender.begin()
        self._began()
        tools = ToolDuties(tenure, self._controller.decide, self._request_settings)
        duties = asyncio.ensure_future(self._do_duties(following, tools))
        try:
            await over.wait()
        finally:
            duties.cancel()
            await asyncio.gather(duties, return_exceptions=True)
            self._sender = None
            await sender.close()
            await channels.close()

    async def _do_duties(self, following: TreeFollowing, tools: ToolDuties) -> None:
        while True:
            event = await self._next_event(following, tools)
            try:
                if event is None:
                    await tools.follow_moves()
                else:
                    await self._do(event, tools)
            except (ApiError, StoreFailed, ControllerFenced, ZooKeeperError) as error:
                logger.warning("the controller could not do its work: %s", error)
            except Exception:
                logger.exception("a bug in the controller's duties: %s", event)

    async def _next_event(self, following: TreeFollowing, tools: ToolDuties) -> TreeEvent | None:
        """Wait for the next event; None when it is time to look at moves under way."""
        try:
            async with asyncio.timeout(MOVES_INTERVAL_S if tools.is_moving else None):
                return await following.next_event()
        except TimeoutError:
            return None

    async def _do(self, event: TreeEvent, tools: ToolDuties) -> None:
        if isinstance(event, BrokersSeen):
            live = {one: seen.broker for one, seen in event.live.items()}
            lacking = [one for one, seen in event.live.items() if seen.may_lack_records]
            await self._controller.follow_brokers(live, lacking)
        elif not isinstance(event, DirectoryFailed):
            await tools.answer(event)
        elif self._sender is not None:
            self._sender.ask_roles(event.broker_id)

    async def _roles_answered(self, broker: Broker, answer: LeaderAndIsrResponse) -> None:
        told = {
            (TopicId(topic.topic_id), one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partition_errors
        }
        lost = [one for one, code in told.items() if code == ErrorCode.KAFKA_STORAGE_ERROR]
        kept = [one for one, code in told.items() if code == ErrorCode.NONE]
        self._controller.keep_replicas(broker.id, kept)
        if lost:
            try:
                await self._controller.lose_replicas(broker.id, broker.epoch, lost)
            except (ApiError, StoreFailed) as error:
                logger.warning("the controller could not take replicas out: %s", error)


class _CommandCalls:
    """The ways of commands: to other brokers, and to this one."""

    def __init__(self, broker_id: BrokerId, others: BrokerChannels, own_roles: OwnRoles) -> None:
        self._broker_id = broker_id
        self._others = others
        self._own_roles = own_roles

    async def call(self, broker_id: BrokerId, request: Any) -> Any:
        if broker_id == self._broker_id:
            return await self._own_roles(request)
        return await self._others.call(broker_id, request)
