"""What a broker answers about its replicas: each has taken its role, or cannot be read.

The controller asks with LeaderAndIsr: other brokers by a request, its own broker here.
"""

from __future__ import annotations

from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.zookeeper.commands.fencing import Verdict, role_verdicts
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from moldau.replication.partitions import Partitions
from moldau.server.lifecycle.topic_admin import Follower


class RoleAnswers:
    """Answers for the replicas of this broker."""

    def __init__(
        self,
        store: ZooKeeperStore,
        broker_id: BrokerId,
        partitions: Partitions,
        follower: Follower,
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._partitions = partitions
        self._follower = follower

    async def answer(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Answer once this broker has taken the roles that its image tells."""
        image = self._store.image
        verdicts = list(role_verdicts(image, self._broker_id, request))
        await self._follower.reached(image.version)
        answer = LeaderAndIsrResponse(ErrorCode.NONE)
        for verdict in verdicts:
            if not answer.topics or answer.topics[-1].topic_id != verdict.topic_id:
                answer.topics.append(LeaderAndIsrTopicError(verdict.topic_id))
            answer.topics[-1].partition_errors.append(
                LeaderAndIsrPartitionError(
                    partition_index=verdict.key.partition, error_code=self._role_code(verdict)
                )
            )
        return answer

    def _role_code(self, verdict: Verdict) -> ErrorCode:
        if verdict.error is not None:
            return verdict.error
        return self._storage_error(verdict.key)

    def _storage_error(self, key: PartitionKey) -> ErrorCode:
        partition = self._partitions.get(*key)
        is_there = partition is not None and not partition.is_offline
        return ErrorCode.NONE if is_there else ErrorCode.KAFKA_STORAGE_ERROR
