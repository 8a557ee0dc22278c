"""CreateTopics 0-7, DeleteTopics 0-6, CreatePartitions 0-3.

Each topic of a request succeeds or fails by itself. A topic named twice in one request fails, as in
Kafka: which of the two was meant cannot be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from moldau.base.texts import shorten
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Topic
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import Assignments, NewTopic, add_partitions, check_new_name
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatedTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.server.dispatch import RequestContext
from moldau.server.topic_admin import TopicAdmin, assignments_of

AnyTopic = TypeVar("AnyTopic", CreatableTopic, DeleteTopicState, CreatePartitionsTopic)


class TopicConfigs(Protocol):
    """What is known of topic configs."""

    def check(self, configs: dict[str, str]) -> None:
        """Raise ApiError INVALID_CONFIG unless these may be set."""
        ...

    def described(self, topic: str, configs: dict[str, str]) -> list[CreatedTopicConfig]:
        """Return every config of a topic as it is, or would be, in force."""
        ...


class TopicHandlers:
    """Answers what changes topics."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        topics: TopicAdmin,
        configs: TopicConfigs,
        *,
        deletion_enabled: bool,
    ) -> None:
        self._image = image
        self._topics = topics
        self._configs = configs
        self._deletion_enabled = deletion_enabled

    # CreateTopics

    async def create_topics(
        self, request: CreateTopicsRequest, context: RequestContext
    ) -> CreateTopicsResponse:
        """Create topics, or only say whether they could be."""
        del context
        twice = _repeated(topic.name for topic in request.topics)
        return CreateTopicsResponse(
            topics=[
                await self._create(topic, request.validate_only, topic.name in twice)
                for topic in _once(request.topics)
            ]
        )

    async def _create(
        self, wanted: CreatableTopic, validate_only: bool, named_twice: bool
    ) -> CreatableTopicResult:
        configs = {config.name: config.value for config in wanted.configs}
        try:
            if named_twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is named twice.")
            # Kafka looks at the name before the configs, and at the rest after them.
            check_new_name(self._image(), wanted.name)
            new_topic = NewTopic(
                wanted.name,
                wanted.num_partitions,
                wanted.replication_factor,
                _assigned(wanted),
                _set_values(configs),
            )
            self._configs.check(dict(new_topic.configs))
            if validate_only:
                topic = self._topics.preview(self._image(), new_topic)
            else:
                topic = await self._topics.create(new_topic)
        except (ApiError, StoreFailed) as error:
            code, message = _told(error)
            return CreatableTopicResult(wanted.name, error_code=code, error_message=message)
        return self._created(topic, dict(new_topic.configs), validate_only)

    def _created(
        self, topic: Topic, configs: dict[str, str], validate_only: bool
    ) -> CreatableTopicResult:
        return CreatableTopicResult(
            topic.name,
            ZERO_TOPIC_ID if validate_only else topic.id,
            error_message=None,
            num_partitions=len(topic.partitions),
            replication_factor=len(topic.partitions[0].replicas),
            configs=self._configs.described(topic.name, configs),
        )

    # DeleteTopics

    async def delete_topics(
        self, request: DeleteTopicsRequest, context: RequestContext
    ) -> DeleteTopicsResponse:
        """Delete topics by name or by id."""
        wanted = request.topics
        if context.version < 6:
            wanted = [DeleteTopicState(name) for name in request.topic_names]
        twice = _repeated(one.name for one in wanted if one.name is not None)
        by_both = self._named_by_both(wanted)
        responses = [
            DeletableTopicResult(
                topic.name, topic.id, ErrorCode.INVALID_REQUEST, "A topic is named twice."
            )
            for topic in by_both
        ]
        spared = {topic.name for topic in by_both} | {topic.id for topic in by_both}
        responses += [
            await self._delete(one, one.name in twice)
            for one in _once(wanted)
            if one.name not in spared and one.topic_id not in spared
        ]
        return DeleteTopicsResponse(responses=responses)

    def _named_by_both(self, wanted: Sequence[DeleteTopicState]) -> list[Topic]:
        """Find topics that one request names once by name and once by id."""
        image = self._image()
        by_name = [image.topic(one.name) for one in wanted if one.name is not None]
        ids = {one.topic_id for one in wanted if one.name is None}
        return [topic for topic in by_name if topic is not None and topic.id in ids]

    async def _delete(self, wanted: DeleteTopicState, named_twice: bool) -> DeletableTopicResult:
        name, topic_id = wanted.name, TopicId(wanted.topic_id)
        try:
            if not self._deletion_enabled:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
            if named_twice or (name is not None) == (topic_id != ZERO_TOPIC_ID):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "A topic is named once, by name or by id."
                )
            if name is None:
                topic = self._image().topic_by_id(topic_id)
                name = None if topic is None else topic.name
                await self._topics.delete_by_id(topic_id)
            else:
                topic = self._image().topic(name)
                topic_id = ZERO_TOPIC_ID if topic is None else topic.id
                await self._topics.delete(name)
        except (ApiError, StoreFailed) as error:
            return DeletableTopicResult(name, topic_id, *_told(error))
        return DeletableTopicResult(name, topic_id)

    # CreatePartitions

    async def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        """Add partitions to topics, or only say whether that could be."""
        del context
        twice = _repeated(topic.name for topic in request.topics)
        return CreatePartitionsResponse(
            results=[
                await self._grow(topic, request.validate_only, topic.name in twice)
                for topic in _once(request.topics)
            ]
        )

    async def _grow(
        self, wanted: CreatePartitionsTopic, validate_only: bool, named_twice: bool
    ) -> CreatePartitionsTopicResult:
        assignments = None
        if wanted.assignments is not None:
            assignments = [
                [BrokerId(broker) for broker in one.broker_ids] for one in wanted.assignments
            ]
        try:
            if named_twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is named twice.")
            if validate_only:
                add_partitions(self._image(), wanted.name, wanted.count, assignments)
            else:
                await self._topics.grow(wanted.name, wanted.count, assignments)
        except (ApiError, StoreFailed) as error:
            return CreatePartitionsTopicResult(wanted.name, *_told(error))
        return CreatePartitionsTopicResult(wanted.name)


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _once(topics: Sequence[AnyTopic]) -> list[AnyTopic]:
    """Leave out what repeats a name: a topic named twice is refused, and answered, once."""
    named: set[str] = set()
    found = []
    for topic in topics:
        if topic.name is None:
            found.append(topic)
        elif topic.name not in named:
            named.add(topic.name)
            found.append(topic)
    return found


def _assigned(wanted: CreatableTopic) -> Assignments:
    """Return the replicas a user has chosen, each partition once."""
    assigned = assignments_of([(one.partition_index, one.broker_ids) for one in wanted.assignments])
    if len(assigned) < len(wanted.assignments):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned replicas twice."
        )
    return assigned


def _set_values(configs: dict[str, str | None]) -> dict[str, str]:
    """Refuse configs without a value: creating a topic has nothing to reset."""
    for name, value in configs.items():
        if value is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for {shorten(name)}."
            )
    return {name: value for name, value in configs.items() if value is not None}


def _told(error: ApiError | StoreFailed) -> tuple[ErrorCode, str]:
    if isinstance(error, ApiError):
        return error.code, error.message
    return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
