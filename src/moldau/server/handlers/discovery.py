"""What a client asks before it knows where to go.

ApiVersions 0-5, Metadata 0-13, DescribeCluster 0-2, DescribeTopicPartitions 0.

Every address in an answer is that of the listener the question came in on. There is no authoriser
yet, so whoever asks for authorised operations is told all of them, as by Kafka without one.

Unlike Kafka, which creates a missing topic in the background and answers with an error the client
retries on, Metadata waits for the creation and answers with the topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, Partition, Topic
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import NewTopic, check_topic_name
from moldau.coordination.transactions.transaction import EPOCH_PER_TRANSACTION
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    FinalizedFeatureKey,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    SupportedFeatureKey,
    TopicPartitionsCursor,
)
from moldau.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, bit_field
from moldau.server.dispatch import RequestContext, Route
from moldau.server.internal_topics import INTERNAL_TOPICS, InternalTopics
from moldau.server.runtimes import TRANSACTION_FEATURE
from moldau.server.topic_admin import TopicAdmin

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
METADATA_FEATURE = "metadata.version"
LEVEL_ZERO_FROM = 4
"""The first version of ApiVersions in which a feature may have level 0 (KAFKA-17492)."""
TOPIC_IDS_FROM = 10
LOOKUP_BY_ID_FROM = 12
NOT_ASKED = -(2**31)
BROKERS, CONTROLLERS = 1, 2


class DiscoveryHandlers:
    """Answers what a client asks before it knows where to go."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        broker_id: BrokerId,
        topics: TopicAdmin,
        internal_topics: InternalTopics,
        *,
        auto_create: bool,
        partition_limit: int,
    ) -> None:
        self._image = image
        self._broker_id = broker_id
        self._topics = topics
        self._internal_topics = internal_topics
        self._auto_create = auto_create
        self._partition_limit = partition_limit
        self._api_keys: list[ApiVersion] = []

    # ApiVersions

    def serve(self, routes: Iterable[Route]) -> None:
        """Learn what to advertise."""
        self._api_keys = [
            ApiVersion(route.api.key, route.versions.first, route.versions.last)
            for route in sorted(routes, key=lambda route: route.api.key)
        ]

    def api_versions(
        self, request: ApiVersionsRequest, context: RequestContext
    ) -> ApiVersionsResponse:
        """Tell what this broker speaks."""
        if context.version >= 3:
            names = (request.client_software_name, request.client_software_version)
            if not all(SOFTWARE_NAME.fullmatch(name) for name in names):
                return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
            context.connection.software = names
        image = self._image()
        elsewhere = request.node_id not in (-1, self._broker_id)
        if elsewhere or request.cluster_id not in (None, image.cluster_id):
            return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED, self._api_keys)
        supported, finalized = _features(image, context.version)
        return ApiVersionsResponse(
            0,
            self._api_keys,
            supported_features=supported,
            finalized_features_epoch=image.version,
            finalized_features=finalized,
        )

    def unsupported_api_versions(self) -> ApiVersionsResponse:
        """Answer a client that asked in a version we do not know."""
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, self._api_keys)

    # Metadata

    def metadata(
        self, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse | Coroutine[None, None, MetadataResponse]:
        """Tell who leads what."""
        image = self._image()
        wanted = request.topics
        if wanted is None or (context.version == 0 and not wanted):
            return self._metadata(image, list(image.topics.values()), request, context)
        if context.version >= TOPIC_IDS_FROM:
            asked, wanted = wanted, _by_id_or_name(wanted)
            if context.version < LOOKUP_BY_ID_FROM and any(one.name is None for one in wanted):
                return _lookup_refused(asked)
        if len(wanted) > 1:
            wanted = _once(wanted)
        named = [topic.name for topic in wanted if topic.name is not None]
        missing = [name for name in named if name not in image.topics]
        if missing and self._auto_create and request.allow_auto_topic_creation:
            return self._create_and_tell(missing, wanted, request, context)
        topics = [_find(image, topic) for topic in wanted]
        return self._metadata(image, topics, request, context)

    async def _create_and_tell(
        self,
        missing: list[str],
        wanted: list[MetadataRequestTopic],
        request: MetadataRequest,
        context: RequestContext,
    ) -> MetadataResponse:
        refused: dict[str, ErrorCode] = {}
        for name in missing:
            try:
                if name in INTERNAL_TOPICS:
                    await self._internal_topics.create(name)
                else:
                    await self._topics.create(NewTopic(name))
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    refused[name] = error.code
            except StoreFailed:
                refused[name] = ErrorCode.KAFKA_STORAGE_ERROR
        image = self._image()
        topics: list[Topic | MetadataResponseTopic] = []
        for topic in wanted:
            if topic.name in refused:
                topics.append(MetadataResponseTopic(refused[topic.name], topic.name))
            else:
                topics.append(_find(image, topic))
        return self._metadata(image, topics, request, context)

    def _metadata(
        self,
        image: MetadataImage,
        topics: Sequence[Topic | MetadataResponseTopic],
        request: MetadataRequest,
        context: RequestContext,
    ) -> MetadataResponse:
        operations = (
            bit_field(TOPIC_OPERATIONS)
            if request.include_topic_authorized_operations
            else NOT_ASKED
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.id, host, port, broker.rack)
                for broker, host, port in _reachable(image, context)
            ],
            cluster_id=image.cluster_id,
            controller_id=self._broker_id,
            topics=[
                _described(image, topic, operations)
                if isinstance(topic, Topic)
                else _refused(topic, operations)
                for topic in topics
            ],
            cluster_authorized_operations=bit_field(CLUSTER_OPERATIONS)
            if request.include_cluster_authorized_operations
            else NOT_ASKED,
        )

    # DescribeCluster

    def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """Tell who is in the cluster."""
        if request.endpoint_type != BROKERS:
            controllers = request.endpoint_type == CONTROLLERS
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if controllers
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="This is a broker; it names brokers only.",
                endpoint_type=BROKERS,
            )
        image = self._image()
        return DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_id=self._broker_id,
            brokers=[
                DescribeClusterBroker(broker.id, host, port, broker.rack, broker.fenced)
                for broker, host, port in _reachable(
                    image, context, fenced=request.include_fenced_brokers
                )
            ],
            cluster_authorized_operations=bit_field(CLUSTER_OPERATIONS)
            if request.include_cluster_authorized_operations
            else NOT_ASKED,
        )

    # DescribeTopicPartitions

    def describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        """Tell about topics page by page, in the order of their names."""
        del context
        image = self._image()
        cursor = request.cursor
        if cursor is not None and not _reaches(cursor, request):
            return DescribeTopicPartitionsResponse(
                topics=[
                    DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name)
                    for topic in request.topics
                ]
            )
        asked = {topic.name for topic in request.topics} or set(image.topics)
        start = cursor.topic_name if cursor is not None else ""
        names = sorted(name for name in asked if name >= start)
        left = min(max(request.response_partition_limit, 1), self._partition_limit)
        response = DescribeTopicPartitionsResponse()
        for name in names:
            first = cursor.partition_index if cursor and cursor.topic_name == name else 0
            if not left:
                response.next_cursor = TopicPartitionsCursor(name, 0)
                break
            described = _page(image, name, first, left)
            response.topics.append(described)
            left -= len(described.partitions)
            topic = image.topic(name)
            end = first + len(described.partitions)
            if topic is not None and end < len(topic.partitions):
                response.next_cursor = TopicPartitionsCursor(name, end)
                break
        return response


def _features(
    image: MetadataImage, version: int
) -> tuple[list[SupportedFeatureKey], list[FinalizedFeatureKey]]:
    """Tell which features this broker knows, and which levels are in force.

    Clients that speak less than version 4 stumble over a feature that may be at level 0, so they
    are told only that it is in force.
    """
    levels = {name: image.features.get(name, 0) for name in (METADATA_FEATURE, TRANSACTION_FEATURE)}
    supported = [SupportedFeatureKey(METADATA_FEATURE, 7, levels[METADATA_FEATURE])]
    if version >= LEVEL_ZERO_FROM:
        supported.append(SupportedFeatureKey(TRANSACTION_FEATURE, 0, EPOCH_PER_TRANSACTION))
    finalized = [FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level]
    return supported, finalized


def _reachable(
    image: MetadataImage, context: RequestContext, *, fenced: bool = False
) -> list[tuple[Broker, str, int]]:
    """Return the live brokers that have the listener this client came in on."""
    listener = context.connection.endpoint.name
    return [
        (broker, endpoint.host, endpoint.port)
        for _, broker in sorted(image.brokers.items())
        if fenced or not broker.fenced
        for endpoint in broker.endpoints
        if endpoint.listener == listener
    ]


def _by_id_or_name(wanted: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Let ids, if there are any, be what is asked for: as in Kafka, names do not count then."""
    by_id = [
        MetadataRequestTopic(topic.topic_id, None)
        for topic in wanted
        if topic.topic_id != ZERO_TOPIC_ID
    ]
    return by_id or wanted


def _lookup_refused(wanted: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    """Refuse to look up by id in a version that only tells ids."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
            for topic in wanted
        ]
    )


def _find(image: MetadataImage, wanted: MetadataRequestTopic) -> Topic | MetadataResponseTopic:
    if wanted.name is not None:
        topic = image.topic(wanted.name)
        return topic or MetadataResponseTopic(_absence(wanted.name), wanted.name)
    topic = image.topic_by_id(TopicId(wanted.topic_id))
    return topic or MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)


def _refused(topic: MetadataResponseTopic, operations: int) -> MetadataResponseTopic:
    """Say of a topic that is not there what a name tells by itself."""
    topic.is_internal = topic.name in INTERNAL_TOPICS
    topic.topic_authorized_operations = operations
    return topic


def _once(wanted: Sequence[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Leave out what is asked for again."""
    return list({(topic.name, topic.topic_id): topic for topic in wanted}.values())


def _absence(name: str) -> ErrorCode:
    """Say why there is no topic of this name: there could be, or there never can be."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _reaches(cursor: TopicPartitionsCursor, request: DescribeTopicPartitionsRequest) -> bool:
    """Tell whether a page can begin at a cursor: in a topic that is asked for."""
    asked = not request.topics or any(one.name == cursor.topic_name for one in request.topics)
    return asked and cursor.partition_index >= 0


def _described(image: MetadataImage, topic: Topic, operations: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            _error(partition),
            partition.index,
            partition.leader,
            partition.leader_epoch,
            list(partition.replicas),
            list(partition.isr),
            _offline(image, partition),
        )
        for partition in topic.partitions
    ]
    internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(0, topic.name, topic.id, internal, partitions, operations)


def _page(
    image: MetadataImage, name: str, first: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topic(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            _absence(name),
            name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=bit_field(TOPIC_OPERATIONS),
        )
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            _error(partition),
            partition.index,
            partition.leader,
            partition.leader_epoch,
            list(partition.replicas),
            list(partition.isr),
            list(partition.eligible_leaders),
            list(partition.last_known_leaders),
            _offline(image, partition),
        )
        for partition in topic.partitions[first : first + limit]
    ]
    return DescribeTopicPartitionsResponseTopic(
        0, name, topic.id, name in INTERNAL_TOPICS, partitions, bit_field(TOPIC_OPERATIONS)
    )


def _error(partition: Partition) -> ErrorCode:
    return ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE


def _offline(image: MetadataImage, partition: Partition) -> list[int]:
    brokers = image.brokers
    return [
        replica
        for replica in partition.replicas
        if replica not in brokers or brokers[replica].fenced
    ]
