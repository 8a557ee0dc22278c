"""What a client asks before it knows where to go.

Metadata 0-13, DescribeCluster 0-2, DescribeTopicPartitions 0.

Every address in an answer is that of the listener the question came in on. A partition whose leader
has no such address has no leader for this client: LEADER_NOT_AVAILABLE, or LISTENER_NOT_FOUND where
the client knows that error. A replica is offline if its broker is fenced, unknown or without that
listener, or its log directory has failed. There is no authoriser
yet, so whoever asks for authorised operations is told all of them, as by Kafka without one.

Unlike Kafka, which creates a missing topic in the background and answers with an error the client
retries on, Metadata waits for the creation and answers with the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import is_directory_online
from moldau.cluster.model import NO_LEADER, Broker, Partition, Topic
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import PARTITIONS_PER_CHANGE_MAX, NewTopic, check_topic_name
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    TopicPartitionsCursor,
)
from moldau.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, bit_field
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS, InternalTopics
from moldau.server.lifecycle.topic_admin import TopicCreation
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold, once, sort
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

LISTENERS_FROM = 6
"""The first version of Metadata whose clients know LISTENER_NOT_FOUND."""
TOPIC_IDS_FROM = 10
LOOKUP_BY_ID_FROM = 12
NOT_ASKED = -(2**31)
BROKERS, CONTROLLERS = 1, 2
PARTITIONS_PER_STEP = 100
"""Partitions that are described between two pauses: a few tenths of a millisecond."""

_NameAndId: TypeAlias = tuple[str | None, bytes]
"""How a request names a topic: by the one or by the other."""
_NAME_AND_ID: Final = attrgetter("name", "topic_id")


class DiscoveryHandlers:
    """Answers what a client asks before it knows where to go."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        controller_id: Callable[[], int],
        topics: TopicCreation,
        internal_topics: InternalTopics,
        *,
        auto_create: bool,
        partition_limit: int,
        is_suspected: Callable[[BrokerId], bool] = lambda _: False,
    ) -> None:
        """`is_suspected` tells of brokers that may be gone, although the image has them."""
        self._image = image
        self._controller_id = controller_id
        self._topics = topics
        self._internal_topics = internal_topics
        self._auto_create = auto_create
        self._partition_limit = partition_limit
        self._is_suspected = is_suspected

    # Metadata

    def metadata(
        self, request: MetadataRequest, context: RequestContext
    ) -> Sliced[MetadataResponse | Coroutine[None, None, MetadataResponse]]:
        """Tell who leads what, of one moment."""
        image = self._image()
        if request.topics is None or (context.version == 0 and not request.topics):
            everything: list[_NameAndId] = [(name, ZERO_TOPIC_ID) for name in image.topics]
            return (yield from self._tell(image, everything, {}, request, context))
        wanted = list((yield from fold(request.topics, _NAME_AND_ID)).elements)
        if context.version >= TOPIC_IDS_FROM:
            asked, wanted = wanted, (yield from _by_id_or_name(wanted))
            if context.version < LOOKUP_BY_ID_FROM and any(name is None for name, _ in wanted):
                return (yield from _lookup_refused(asked))
        if self._auto_create and request.allow_auto_topic_creation:
            missing = []
            for name, _ in wanted:
                if name is not None and name not in image.topics:
                    missing.append(name)
                yield
            if missing:
                return self._create_and_tell(missing, wanted, request, context)
        return (yield from self._tell(image, wanted, {}, request, context))

    async def _create_and_tell(
        self,
        missing: list[str],
        wanted: list[_NameAndId],
        request: MetadataRequest,
        context: RequestContext,
    ) -> MetadataResponse:
        """Create what is missing, unless that is too much at once, and look at everything anew."""
        refused: dict[str, ErrorCode] = {}
        if len(missing) > PARTITIONS_PER_CHANGE_MAX:
            missing = []
        for name in missing:
            await asyncio.sleep(0)
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
        return await take_turns(self._tell(self._image(), wanted, refused, request, context))

    def _tell(
        self,
        image: MetadataImage,
        wanted: Iterable[_NameAndId],
        refused: Mapping[str, ErrorCode],
        request: MetadataRequest,
        context: RequestContext,
    ) -> Sliced[MetadataResponse]:
        """Describe topics as one image has them; `refused` are those that were not created."""
        response = self._cluster(image, request, context)
        reachable = _Reachable(
            image,
            context,
            self._is_suspected,
            is_listener_told=context.version >= LISTENERS_FROM,
        )
        operations = (
            bit_field(TOPIC_OPERATIONS)
            if request.include_topic_authorized_operations
            else NOT_ASKED
        )
        for name, topic_id in wanted:
            found = _find(image, name, topic_id)
            if name is not None and name in refused:
                found = MetadataResponseTopic(refused[name], name)
            if isinstance(found, Topic):
                response.topics.append((yield from _described(reachable, found, operations)))
            else:
                response.topics.append(_refused(found, operations))
            yield
        return response

    def _cluster(
        self, image: MetadataImage, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        """Begin an answer with what it says of the cluster."""
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.id, host, port, broker.rack)
                for broker, host, port in _addresses(image, context)
            ],
            cluster_id=image.cluster_id,
            controller_id=self._controller_id(),
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
            controller_id=self._controller_id(),
            brokers=[
                DescribeClusterBroker(broker.id, host, port, broker.rack, broker.fenced)
                for broker, host, port in _addresses(
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
    ) -> Sliced[DescribeTopicPartitionsResponse]:
        """Tell about topics page by page, in the order of their names."""
        image = self._image()
        reachable = _Reachable(image, context, self._is_suspected, is_listener_told=True)
        cursor = request.cursor
        named = yield from once(topic.name for topic in request.topics)
        if cursor is not None and not _reaches(cursor, named):
            refused = DescribeTopicPartitionsResponse()
            for name in named:
                told = DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, name)
                refused.topics.append(told)
                yield
            return refused
        start = cursor.topic_name if cursor is not None else ""
        asked = yield from once(name for name in named or image.topics if name >= start)
        names = yield from sort(asked)
        left = min(max(request.response_partition_limit, 1), self._partition_limit)
        response = DescribeTopicPartitionsResponse()
        for name in names:
            first = cursor.partition_index if cursor and cursor.topic_name == name else 0
            if not left:
                response.next_cursor = TopicPartitionsCursor(name, 0)
                break
            described = yield from _page(reachable, name, first, left)
            response.topics.append(described)
            left -= len(described.partitions)
            topic = image.topic(name)
            end = first + len(described.partitions)
            if topic is not None and end < len(topic.partitions):
                response.next_cursor = TopicPartitionsCursor(name, end)
                break
            yield
        return response


class _Reachable:
    """The brokers that a client can reach on its listener, and what that means for partitions."""

    __slots__ = ("_brokers", "_suspected", "_unreachable", "image")

    def __init__(
        self,
        image: MetadataImage,
        context: RequestContext,
        is_suspected: Callable[[BrokerId], bool],
        *,
        is_listener_told: bool,
    ) -> None:
        """`is_listener_told` says whether the client knows the error LISTENER_NOT_FOUND."""
        self.image = image
        self._brokers = {broker.id: broker for broker, _, _ in _addresses(image, context)}
        self._suspected = frozenset(filter(is_suspected, self._brokers))
        self._unreachable = (
            ErrorCode.LISTENER_NOT_FOUND if is_listener_told else ErrorCode.LEADER_NOT_AVAILABLE
        )

    def leader(self, partition: Partition) -> tuple[ErrorCode, int]:
        """Return a partition's leader; an error and none if this client cannot reach one."""
        if partition.leader in self._suspected:
            # Clients ask again soon, and the controller has decided by then.
            return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
        if partition.leader in self._brokers:
            return ErrorCode.NONE, partition.leader
        broker = self.image.brokers.get(partition.leader)
        if broker is None or broker.fenced:
            return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
        return self._unreachable, NO_LEADER

    def offline_replicas(self, partition: Partition) -> list[int]:
        offline: list[int] = []
        for replica in partition.replicas:
            broker = self._brokers.get(replica)
            if broker is None or not is_directory_online(broker, partition):
                offline.append(replica)
        return offline


def _addresses(
    image: MetadataImage, context: RequestContext, *, fenced: bool = False
) -> list[tuple[Broker, str, int]]:
    """Return the live brokers that have the listener this client came in on."""
    listener = context.session.listener
    return [
        (broker, endpoint.host, endpoint.port)
        for _, broker in sorted(image.brokers.items())
        if fenced or not broker.fenced
        for endpoint in broker.endpoints
        if endpoint.listener == listener
    ]


def _by_id_or_name(wanted: Sequence[_NameAndId]) -> Sliced[list[_NameAndId]]:
    """Let ids, if there are any, be what is asked for: as in Kafka, names do not count then."""
    ids: Iterable[_NameAndId] = (
        (None, topic_id) for _, topic_id in wanted if topic_id != ZERO_TOPIC_ID
    )
    return (yield from once(ids)) or list(wanted)


def _lookup_refused(wanted: Sequence[_NameAndId]) -> Sliced[MetadataResponse]:
    """Refuse to look up by id in a version that only tells ids."""
    response = MetadataResponse()
    for name, topic_id in wanted:
        told = MetadataResponseTopic(ErrorCode.INVALID_REQUEST, name or "", topic_id)
        response.topics.append(told)
        yield
    return response


def _find(image: MetadataImage, name: str | None, topic_id: bytes) -> Topic | MetadataResponseTopic:
    if name is not None:
        topic = image.topic(name)
        return topic or MetadataResponseTopic(_absence(name), name)
    topic = image.topic_by_id(TopicId(topic_id))
    return topic or MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)


def _refused(topic: MetadataResponseTopic, operations: int) -> MetadataResponseTopic:
    """Say of a topic that is not there what a name tells by itself."""
    topic.is_internal = topic.name in INTERNAL_TOPICS
    topic.topic_authorized_operations = operations
    return topic


def _absence(name: str) -> ErrorCode:
    """Say why there is no topic of this name: there could be, or there never can be."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _reaches(cursor: TopicPartitionsCursor, named: Collection[str]) -> bool:
    """Tell whether a page can begin at a cursor: in a topic that is asked for."""
    return (not named or cursor.topic_name in named) and cursor.partition_index >= 0


def _described(
    reachable: _Reachable, topic: Topic, operations: int
) -> Sliced[MetadataResponseTopic]:
    partitions = []
    for count, partition in enumerate(topic.partitions, 1):
        error, leader = reachable.leader(partition)
        partitions.append(
            MetadataResponsePartition(
                error,
                partition.index,
                leader,
                partition.leader_epoch,
                list(partition.replicas),
                list(partition.isr),
                reachable.offline_replicas(partition),
            )
        )
        if not count % PARTITIONS_PER_STEP:
            yield
    internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(0, topic.name, topic.id, internal, partitions, operations)


def _page(
    reachable: _Reachable, name: str, first: int, limit: int
) -> Sliced[DescribeTopicPartitionsResponseTopic]:
    topic = reachable.image.topic(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            _absence(name),
            name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=bit_field(TOPIC_OPERATIONS),
        )
    partitions = []
    for count, partition in enumerate(topic.partitions[first : first + limit], 1):
        error, leader = reachable.leader(partition)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error,
                partition.index,
                leader,
                partition.leader_epoch,
                list(partition.replicas),
                list(partition.isr),
                list(partition.eligible_leaders),
                list(partition.last_known_leaders),
                reachable.offline_replicas(partition),
            )
        )
        if not count % PARTITIONS_PER_STEP:
            yield
    return DescribeTopicPartitionsResponseTopic(
        0, name, topic.id, name in INTERNAL_TOPICS, partitions, bit_field(TOPIC_OPERATIONS)
    )
