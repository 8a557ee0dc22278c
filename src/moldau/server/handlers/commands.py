"""The controller's commands to this broker, in a cluster on ZooKeeper.

UpdateMetadata 8, LeaderAndIsr 5-7, StopReplica 3-4: versions with broker epochs and topic ids. An
update is answered when this broker's image has it, roles and deletions when they are carried
out. Commands of a controller that was replaced, or for an earlier life of this broker, are refused
(`cluster/zookeeper/commands/fencing.py`). So are those with an epoch that nobody was elected with:
if one were believed, the commands of every real controller would be refused as older.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.in_turns import in_turns
from moldau.cluster.zookeeper.commands.fencing import stop_verdicts
from moldau.cluster.zookeeper.commands.incoming import UpdateOutOfOrder, Updates, updated_image
from moldau.cluster.zookeeper.commands.statements import UpdateRefused
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.replication import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from moldau.server.lifecycle.topic_admin import Follower
from moldau.server.network.dispatch import RequestContext
from moldau.server.zookeeper.role_answers import RoleAnswers

logger = logging.getLogger(__name__)

COMMANDS_MAX: Final = 1_000
"""Partitions of one LeaderAndIsr or StopReplica, which are looked at in one turn of the loop: twice
what our controllers send."""

Command = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest


class CommandHandlers:
    """Carries out what the controller says."""

    def __init__(
        self,
        store: ZooKeeperStore,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        roles: RoleAnswers,
        follower: Follower,
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._roles = roles
        self._follower = follower
        self._updates = Updates()
        self._refused_update = ""
        self._forged_under = -1
        self._turn = asyncio.Lock()
        """One update at a time: each leads on from the image of the one before."""

    async def _refusal(self, request: Command) -> ErrorCode | None:
        if await self._is_forged(request):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return self._fenced(request)

    async def _is_forged(self, request: Command) -> bool:
        """Tell whether nobody was elected with this epoch, which may take a while."""
        if request.controller_epoch <= self._store.leader_epoch:
            return False
        newest = await self._store.newest_elected_epoch()
        if newest is None or request.controller_epoch <= newest:
            return False
        self._complain_of_forgery(request, newest)
        return True

    def _fenced(self, request: Command) -> ErrorCode | None:
        error = self._store.fence.check(
            request.controller_id,
            request.controller_epoch,
            request.broker_epoch,
            self._broker_epoch(),
        )
        self._store.heard_of_controller()
        return error

    def _complain_of_update(self, problem: str) -> None:
        """Say once what is wrong: the controller sends it again ten times in a second."""
        if problem != self._refused_update:
            self._refused_update = problem
            logger.error("an update is refused: %s", problem)

    def _complain_of_forgery(self, request: Command, newest: int) -> None:
        """Say it once for each controller: who forges may send thousands."""
        if self._forged_under != newest:
            self._forged_under = newest
            logger.error(
                "a command is refused: it names controller %d with epoch %d, but %s in ZooKeeper"
                " is %d",
                request.controller_id,
                request.controller_epoch,
                paths.CONTROLLER_EPOCH,
                newest,
            )

    async def update_metadata(
        self, request: UpdateMetadataRequest, context: RequestContext
    ) -> UpdateMetadataResponse:
        """Take a step of the history."""
        del context
        if await self._is_forged(request):  # updates of the controller do not wait for that
            return UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        async with self._turn:
            refusal = self._fenced(request)
            if refusal is not None:
                return UpdateMetadataResponse(refusal)
            try:
                update = self._updates.take(request, self._store.image.version)
                if update is not None:
                    changes, image = await in_turns(updated_image(self._store.image, update))
                    if self._store.fence.controller_epoch == update.controller_epoch:
                        self._store.take_step(changes, image)
            except UpdateOutOfOrder as error:
                logger.debug("an update is out of order: %s", error)
                return UpdateMetadataResponse(ErrorCode.INVALID_UPDATE_VERSION)
            except UpdateRefused as error:
                self._complain_of_update(str(error))
                return UpdateMetadataResponse(ErrorCode.INVALID_REQUEST)
        return UpdateMetadataResponse(ErrorCode.NONE)

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, context: RequestContext
    ) -> LeaderAndIsrResponse:
        """Confirm the roles of this broker's replicas."""
        del context
        refusal = await self._refusal(request) or _size_refusal(request)
        if refusal is not None:
            return LeaderAndIsrResponse(refusal)
        return await self._roles.answer(request)

    async def stop_replica(
        self, request: StopReplicaRequest, context: RequestContext
    ) -> StopReplicaResponse:
        """Confirm that replicas are gone; the image says which."""
        del context
        refusal = await self._refusal(request) or _size_refusal(request)
        if refusal is not None:
            return StopReplicaResponse(refusal)
        image = self._store.image
        verdicts = list(stop_verdicts(image, self._broker_id, request))
        await self._follower.reached(image.version)
        return StopReplicaResponse(
            ErrorCode.NONE,
            [
                StopReplicaPartitionError(*verdict.key, verdict.error or ErrorCode.NONE)
                for verdict in verdicts
            ],
        )


def _size_refusal(request: LeaderAndIsrRequest | StopReplicaRequest) -> ErrorCode | None:
    count = sum(len(one.partition_states) for one in request.topic_states)
    return ErrorCode.INVALID_REQUEST if count > COMMANDS_MAX else None
