"""An administrator: creates and deletes topics, deletes records, and looks whether it took.

What was acknowledged in the metadata is durable, also through a power cut: a topic created is
there, one deleted is gone, whatever happens to the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.base.ids import TopicId
from moldau.engine.errors import ConnectionLost
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.sim.history import Violation
from moldau.sim.workload.client import GONE_ERRORS, RETRY_S, Client, Link
from moldau.sim.workload.targets import Targets, TopicTarget


class Administrator(Client):
    """Does one thing at a time, each until it is known to have happened."""

    def __init__(self, targets: Targets, name: str = "administrator") -> None:
        super().__init__(targets, name)
        self._link: Link | None = None

    async def _surely(self, attempt: Callable[[Link], Coroutine[Any, Any, bool]]) -> None:
        """Try again, over as many connections as it takes."""
        while True:
            link = self._link = self._link or await self.connect()
            if link is None:
                return
            try:
                if await attempt(link):
                    return
            except (ConnectionLost, OSError):
                link.close()
                self._link = None
            await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        """Give the connection back."""
        if self._link is not None:
            self._link.close()
            self._link = None

    async def create(self, topic: TopicTarget) -> None:
        """Create a topic; one that exists is the one whose answer was lost."""
        configs = [CreatableTopicConfig(name, value) for name, value in topic.configs.items()]
        wanted = CreatableTopic(topic.name, topic.partition_count, 1, [], configs)

        async def attempt(link: Link) -> bool:
            response = await link.call(CreateTopicsRequest([wanted]))
            result = response.topics[0]
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                metadata = await link.call(MetadataRequest(None, False))
                found = _ids(metadata).get(topic.name)
                if found is None:
                    raise Violation(f"P8: topic {topic.name} exists and is not in the metadata")
                topic.begin(found, self.targets.era)
                return True
            if result.error_code:
                self.check_refusal(topic, "creation", result.error_code, result.error_message)
                return False
            topic.begin(TopicId(result.topic_id), self.targets.era)
            return True

        self.targets.topics.append(topic)
        await self._surely(attempt)
        self.targets.seen["topic created"] += 1

    async def delete(self, topic: TopicTarget) -> None:
        """Delete a topic; one that is unknown is the one whose answer was lost."""
        topic.deleting = True

        async def attempt(link: Link) -> bool:
            wanted = (
                DeleteTopicState(None, topic.id) if topic.by_id else DeleteTopicState(topic.name)
            )
            response = await link.call(DeleteTopicsRequest([wanted], timeout_ms=1000))
            result = response.responses[0]
            if result.error_code:
                self.check_refusal(topic, "deletion", result.error_code, result.error_message)
                return ErrorCode.of(result.error_code) in GONE_ERRORS
            return True

        await self._surely(attempt)
        topic.deleted = True
        self.targets.seen["topic deleted"] += 1

    async def delete_records(self, topic: TopicTarget, index: int, before: int) -> None:
        """Let a partition start later."""
        history = topic.histories[index]
        if history.start_limit is not None:
            history.start_limit = max(history.start_limit, before)

        async def attempt(link: Link) -> bool:
            partitions = [DeleteRecordsPartition(index, before)]
            request = DeleteRecordsRequest([DeleteRecordsTopic(topic.name, partitions)], 1000)
            response = await link.call(request)
            result = response.topics[0].partitions[0]
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and history.end < before:
                return True  # a power cut has taken what was to be deleted
            if result.error_code and not topic.deleting:
                self.check_refusal(topic, "deletion of records", result.error_code, None)
                return False
            return True

        await self._surely(attempt)
        self.targets.seen["records deleted"] += 1

    async def check_topics(self) -> None:
        """Compare the topics there are with those there must be."""

        async def attempt(link: Link) -> bool:
            known = [topic for topic in self.targets.topics if topic.id]
            there = set(_ids(await link.call(MetadataRequest(None, False))).values())
            for topic in known:
                if topic.deleted and topic.id in there:
                    raise Violation(f"P8: topic {topic.name} was deleted and is back")
                if not topic.deleting and topic.id not in there:
                    raise Violation(f"P8: topic {topic.name} was created and is gone")
            return True

        await self._surely(attempt)


def _ids(metadata: MetadataResponse) -> dict[str, TopicId]:
    return {topic.name or "": TopicId(topic.topic_id) for topic in metadata.topics}
