"""AlterPartitionReassignments 0-1, ListPartitionReassignments 0, ElectLeaders 0-2.

What is to change is decided by the controller. A partition named twice in one request is answered
once, where Kafka answers as often as it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence

from moldau.base.ids import BrokerId
from moldau.cluster.controller_requests import ControllerRequests
from moldau.cluster.elections import ElectionAnswer
from moldau.cluster.image import MetadataImage
from moldau.cluster.reassignment import ReassignmentAnswer, WantedReplicas, list_reassignments
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold_partitions, itself
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

PREFERRED, UNCLEAN = 0, 1


class ReassignmentHandlers:
    """Answers what asks to move replicas or leadership."""

    def __init__(self, image: Callable[[], MetadataImage], requests: ControllerRequests) -> None:
        self._image = image
        self._requests = requests

    # AlterPartitionReassignments

    def alter(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> Sliced[Coroutine[None, None, AlterPartitionReassignmentsResponse]]:
        """Begin to move replicas, or cancel such moves."""
        del context
        named = yield from fold_partitions(
            ((topic.name, topic.partitions) for topic in request.topics),
            lambda one: one.partition_index,
        )
        wanted = []
        for name, partitions in named.topics.items():
            for index, one in partitions.items():
                replicas = None if one.replicas is None else tuple(map(BrokerId, one.replicas))
                wanted.append(WantedReplicas(name, index, replicas))
                yield
        return self._alter(list(named.topics), wanted, request.allow_replication_factor_change)

    async def _alter(
        self, topics: list[str], wanted: list[WantedReplicas], may_change_replica_count: bool
    ) -> AlterPartitionReassignmentsResponse:
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_replica_count, error_message=None
        )
        try:
            answers = await self._requests.alter_reassignments(
                wanted, may_change_replica_count=may_change_replica_count
            )
        except (ApiError, StoreFailed) as error:
            response.error_code, response.error_message = _told(error)
            return response
        response.responses = await take_turns(_moved(topics, answers))
        return response

    # ListPartitionReassignments

    def list_ongoing(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> Sliced[ListPartitionReassignmentsResponse]:
        """Tell which replicas are being moved."""
        del context
        wanted = None
        if request.topics is not None:
            named = yield from fold_partitions(
                ((one.name, one.partition_indexes) for one in request.topics), itself
            )
            wanted = named.topics
        moving: dict[str, OngoingTopicReassignment] = {}
        for ongoing in list_reassignments(self._image(), wanted):
            if ongoing is not None:
                name, partition = ongoing
                topic = moving.setdefault(name, OngoingTopicReassignment(name))
                topic.partitions.append(
                    OngoingPartitionReassignment(
                        partition.index,
                        list(partition.replicas),
                        list(partition.adding_replicas),
                        list(partition.removing_replicas),
                    )
                )
            yield
        return ListPartitionReassignmentsResponse(error_message=None, topics=list(moving.values()))

    # ElectLeaders

    def elect(
        self, request: ElectLeadersRequest, context: RequestContext
    ) -> Sliced[ElectLeadersResponse | Coroutine[None, None, ElectLeadersResponse]]:
        """Elect leaders, or say why there is no need or no candidate."""
        del context
        preferred = request.election_type == PREFERRED
        if request.topic_partitions is None:
            return self._elect(list(self._image().topics), None, preferred=preferred)
        named = yield from fold_partitions(
            ((one.topic, one.partitions) for one in request.topic_partitions), itself
        )
        if request.election_type in (PREFERRED, UNCLEAN):
            return self._elect(list(named.topics), named.topics, preferred=preferred)
        return (yield from _unknown_type(request.election_type, named.topics))

    async def _elect(
        self, topics: list[str], wanted: dict[str, dict[int, int]] | None, *, preferred: bool
    ) -> ElectLeadersResponse:
        response = ElectLeadersResponse()
        try:
            answers = await self._requests.elect_leaders(wanted, preferred=preferred)
        except (ApiError, StoreFailed) as error:
            response.error_code, _ = _told(error)
            return response
        response.replica_election_results = await take_turns(_elected(topics, answers))
        return response


def _moved(
    topics: Iterable[str], answers: Sequence[ReassignmentAnswer]
) -> Sliced[list[ReassignableTopicResponse]]:
    told = {name: ReassignableTopicResponse(name) for name in topics}
    for one in answers:
        result = ReassignablePartitionResponse(one.index, one.error, one.message)
        told[one.topic].partitions.append(result)
        yield
    return list(told.values())


def _elected(
    topics: Iterable[str], answers: Sequence[ElectionAnswer]
) -> Sliced[list[ElectLeadersTopicResult]]:
    told = {name: ElectLeadersTopicResult(name) for name in topics}
    for one in answers:
        # A topic may have been made since the request came.
        topic = told.setdefault(one.topic, ElectLeadersTopicResult(one.topic))
        result = ElectLeadersPartitionResult(one.index, one.error, one.message)
        topic.partition_result.append(result)
        yield
    return list(told.values())


def _unknown_type(
    election_type: int, wanted: dict[str, dict[int, int]]
) -> Sliced[ElectLeadersResponse]:
    response = ElectLeadersResponse()
    if wanted:
        response.error_code = ErrorCode.INVALID_REQUEST
    problem = f"Unknown election type {election_type}"
    for topic, indexes in wanted.items():
        answered = ElectLeadersTopicResult(topic)
        response.replica_election_results.append(answered)
        for index in indexes:
            answered.partition_result.append(
                ElectLeadersPartitionResult(index, ErrorCode.INVALID_REQUEST, problem)
            )
            yield
    return response


def _told(error: ApiError | StoreFailed) -> tuple[ErrorCode, str | None]:
    if isinstance(error, ApiError):
        return error.code, error.message
    return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
