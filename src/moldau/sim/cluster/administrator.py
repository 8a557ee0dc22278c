"""An administrator of a cluster: it creates topics, deletes them, and creates them again."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.base.ids import TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.sim.cluster.client import RETRY_S, ClusterClient, NoAnswer
from moldau.sim.cluster.swarm import TopicPlan

CHANGED = TopicPlan("phoenix", 2, 3, 2)
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
PAUSE_S = 1.5
TIMEOUT_MS = 2_000


class ClusterAdministrator(ClusterClient):
    """Creates and deletes topics, and asks again until that is done."""

    async def create(self, plan: TopicPlan) -> TopicId:
        """Create a topic; one that exists is the one whose answer was lost."""
        configs = [
            CreatableTopicConfig(name, value)
            for name, value in (
                ("min.insync.replicas", str(plan.min_insync_replicas)),
                *plan.configs,
            )
        ]
        wanted = CreatableTopic(
            plan.name, plan.partition_count, plan.replication_factor, [], configs
        )
        while True:
            result = (await self._ask(CreateTopicsRequest([wanted]))).topics[0]
            if not result.error_code:
                return TopicId(result.topic_id)
            error = ErrorCode.of(result.error_code)
            if error == ErrorCode.TOPIC_ALREADY_EXISTS:
                existing = await self._existing(plan)
                if existing is not None:
                    return existing
            elif error != ErrorCode.INVALID_REPLICATION_FACTOR:  # not all brokers are there yet
                self.check_refusal(f"topic {plan.name}", error, result.error_message)
            await asyncio.sleep(RETRY_S)

    async def _existing(self, plan: TopicPlan) -> TopicId | None:
        """Return the id of a topic, unless the broker that is asked does not know it.

        It may not have heard of it yet. Or a controller that was replaced has answered from memory.
        """
        for topic in (await self._ask(MetadataRequest(None, False))).topics:
            if topic.name == plan.name:
                return TopicId(topic.topic_id)
        return None

    async def delete(self, topic_id: TopicId) -> None:
        """Delete a topic; one that is unknown is the one whose answer was lost."""
        request = DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=TIMEOUT_MS)
        while True:
            result = (await self._ask(request)).responses[0]
            if not result.error_code or result.error_code in GONE:
                return
            self.check_refusal("a deletion", result.error_code, result.error_message)
            await asyncio.sleep(RETRY_S)

    async def _ask(self, request: Any) -> Any:
        """Ask one broker after the other until one answers."""
        while True:
            try:
                return await self.call(self.any_node(), request)
            except NoAnswer:
                await asyncio.sleep(RETRY_S)


class TopicChanger(ClusterAdministrator):
    """Creates a topic and deletes it, over and over under one name, while brokers come and go."""

    async def run(self) -> None:
        """Go on until the run stops; the topic may be there then or not."""
        while not self.targets.stopped:
            topic_id = await self.create(CHANGED)
            self.targets.seen["topic created"] += 1
            await asyncio.sleep(self.chance.expovariate(1 / PAUSE_S))
            await self.delete(topic_id)
            self.targets.seen["topic deleted"] += 1
            await asyncio.sleep(self.chance.expovariate(1 / PAUSE_S))
        self.close()
