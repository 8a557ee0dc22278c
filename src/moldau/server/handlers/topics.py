"""CreateTopics 0-7, DeleteTopics 0-6, CreatePartitions 0-3.

Each topic of a request succeeds or fails by itself, in a turn of its own. A topic named twice in
one request fails, and is answered once, as in Kafka: which of the two was meant cannot be known. A
request for more than a controller of Kafka's does in one batch is refused as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable
from operator import attrgetter
from typing import Final, Protocol, cast

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from moldau.base.limits import CONFIGS_PER_RESOURCE
from moldau.base.texts import shorten_list
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Topic
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import (
    EXCESSIVE_PARTITIONS,
    PARTITIONS_PER_CHANGE_MAX,
    Assignments,
    NewTopic,
    check_new_name,
)
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
from moldau.server.lifecycle.topic_admin import TopicAdmin, assignments_of
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import Folded, fold
from moldau.server.network.slices import Sliced

_NAME: Final = attrgetter("name")
_NAME_AND_ID: Final = attrgetter("name", "topic_id")

_TOO_MANY: Final = (
    ErrorCode.POLICY_VIOLATION,
    "Unable to perform excessively large batch operation.",
)
"""What Kafka says of a request that would make a batch of metadata too large."""

_TOO_MANY_PARTITIONS: Final = (ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
"""The same for CreateTopics."""


NAMED_TWICE: Final = "Duplicate topic name."
NAMED_BY_BOTH: Final = "The provided topic name maps to an ID that was already supplied."


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

    def create_topics(
        self, request: CreateTopicsRequest, context: RequestContext
    ) -> Sliced[CreateTopicsResponse | Coroutine[None, None, CreateTopicsResponse]]:
        """Create topics, or only say whether they could be."""
        del context
        wanted = yield from fold(request.topics, _NAME)
        count = 0
        for topic in wanted.elements.values():
            count += max(len(topic.assignments), topic.num_partitions, 1)
            yield
        if count > PARTITIONS_PER_CHANGE_MAX:
            refused = CreateTopicsResponse()
            for name in wanted.elements:
                told = CreatableTopicResult(name, ZERO_TOPIC_ID, *_TOO_MANY_PARTITIONS)
                refused.topics.append(told)
                yield
            return refused
        return self._create_all(wanted, request.validate_only)

    async def _create_all(
        self, wanted: Folded[str, CreatableTopic], validate_only: bool
    ) -> CreateTopicsResponse:
        response = CreateTopicsResponse()
        for name, topic in wanted.elements.items():
            await asyncio.sleep(0)
            created = await self._create(topic, validate_only, name in wanted.repeated)
            response.topics.append(created)
        return response

    async def _create(
        self, wanted: CreatableTopic, validate_only: bool, named_twice: bool
    ) -> CreatableTopicResult:
        try:
            if len(wanted.configs) > CONFIGS_PER_RESOURCE:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG, f"No topic has {len(wanted.configs)} configs."
                )
            configs = {config.name: config.value for config in wanted.configs}
            if named_twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, NAMED_TWICE)
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
                topic = await self._topics.preview(new_topic)
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

    def delete_topics(
        self, request: DeleteTopicsRequest, context: RequestContext
    ) -> Sliced[DeleteTopicsResponse | Coroutine[None, None, DeleteTopicsResponse]]:
        """Delete topics by name or by id."""
        states: Iterable[DeleteTopicState] = request.topics
        if context.version < 6:
            states = (DeleteTopicState(name) for name in request.topic_names)
        wanted = yield from fold(states, _NAME_AND_ID)
        if len(wanted.elements) > PARTITIONS_PER_CHANGE_MAX:
            refused = DeleteTopicsResponse()
            for one in wanted.elements:
                refused.responses.append(DeletableTopicResult(*one, *_TOO_MANY))
                yield
            return refused
        return self._delete_all(wanted)

    async def _delete_all(
        self, wanted: Folded[tuple[str | None, bytes], DeleteTopicState]
    ) -> DeleteTopicsResponse:
        response = DeleteTopicsResponse()
        for key, one in wanted.elements.items():
            await asyncio.sleep(0)
            topic = self._find(one)
            if topic is None or not _is_named_by_both(topic, wanted.elements):
                response.responses.append(await self._delete(one, key in wanted.repeated))
            elif one.name is not None:  # it is answered once
                named = (topic.name, topic.id, ErrorCode.INVALID_REQUEST, NAMED_BY_BOTH)
                response.responses.append(DeletableTopicResult(*named))
        return response

    def _find(self, wanted: DeleteTopicState) -> Topic | None:
        if wanted.name is not None:
            return self._image().topic(wanted.name)
        return self._image().topic_by_id(TopicId(wanted.topic_id))

    async def _delete(self, wanted: DeleteTopicState, named_twice: bool) -> DeletableTopicResult:
        name, topic_id = wanted.name, TopicId(wanted.topic_id)
        try:
            if not self._deletion_enabled:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
            if problem := _problem(wanted, named_twice):
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
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

    def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> Sliced[CreatePartitionsResponse | Coroutine[None, None, CreatePartitionsResponse]]:
        """Add partitions to topics, or only say whether that could be."""
        del context
        wanted = yield from fold(request.topics, _NAME)
        image, count = self._image(), 0
        for one in wanted.elements.values():
            topic = image.topic(one.name)
            count += 1 if topic is None else max(one.count - len(topic.partitions), 1)
            yield
        # One topic alone is refused by itself, in other words.
        if count > PARTITIONS_PER_CHANGE_MAX and len(wanted.elements) > 1:
            refused = CreatePartitionsResponse()
            for name in wanted.elements:
                refused.results.append(CreatePartitionsTopicResult(name, *_TOO_MANY))
                yield
            return refused
        return self._grow_all(wanted, request.validate_only)

    async def _grow_all(
        self, wanted: Folded[str, CreatePartitionsTopic], validate_only: bool
    ) -> CreatePartitionsResponse:
        response = CreatePartitionsResponse()
        for name, topic in wanted.elements.items():
            await asyncio.sleep(0)
            grown = await self._grow(topic, validate_only, name in wanted.repeated)
            response.results.append(grown)
        return response

    async def _grow(
        self, wanted: CreatePartitionsTopic, validate_only: bool, named_twice: bool
    ) -> CreatePartitionsTopicResult:
        assignments = None
        if wanted.assignments is not None:
            # Not a copy of each: there may be a hundred thousand ids, to be refused at a glance.
            brokers = [one.broker_ids for one in wanted.assignments]
            assignments = cast("list[list[BrokerId]]", brokers)
        try:
            if named_twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, NAMED_TWICE)
            if validate_only:
                await self._topics.preview_growth(wanted.name, wanted.count, assignments)
            else:
                await self._topics.grow(wanted.name, wanted.count, assignments)
        except (ApiError, StoreFailed) as error:
            return CreatePartitionsTopicResult(wanted.name, *_told(error))
        return CreatePartitionsTopicResult(wanted.name)


def _is_named_by_both(topic: Topic, wanted: Container[tuple[str | None, bytes]]) -> bool:
    """Tell whether one request names a topic once by name and once by id."""
    return (topic.name, ZERO_TOPIC_ID) in wanted and (None, topic.id) in wanted


def _problem(wanted: DeleteTopicState, named_twice: bool) -> str | None:
    """Say what is wrong with the way in which a topic to delete is named; None if nothing is."""
    by_id = wanted.topic_id != ZERO_TOPIC_ID
    if wanted.name is None and not by_id:
        return "Neither topic name nor id were specified."
    if wanted.name is not None and by_id:
        return "You may not specify both topic name and topic id."
    if named_twice:
        return "Duplicate topic id." if by_id else NAMED_TWICE
    return None


def _assigned(wanted: CreatableTopic) -> Assignments:
    """Return the replicas a user has chosen, each partition once."""
    seen: set[int] = set()
    for one in wanted.assignments:
        if one.partition_index in seen:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {one.partition_index}",
            )
        seen.add(one.partition_index)
    return assignments_of([(one.partition_index, one.broker_ids) for one in wanted.assignments])


def _set_values(configs: dict[str, str | None]) -> dict[str, str]:
    """Refuse configs without a value: creating a topic has nothing to reset."""
    empty = [name for name, value in configs.items() if value is None]
    if empty:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {shorten_list(empty, ',')}",
        )
    return {name: value for name, value in configs.items() if value is not None}


def _told(error: ApiError | StoreFailed) -> tuple[ErrorCode, str]:
    if isinstance(error, ApiError):
        return error.code, error.message
    return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
