"""AlterPartitionReassignments 0-1, ListPartitionReassignments 0, ElectLeaders 0-2 on one broker.

Nothing moves here, so a request is answered from the metadata alone. A partition named twice in
one request is answered once, where Kafka answers as often as it is named.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.cluster.image import MetadataImage
from moldau.cluster.reassignment import check_election, check_reassignment
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
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold_partitions, itself
from moldau.server.network.slices import Sliced

PREFERRED, UNCLEAN = 0, 1


class ReassignmentHandlers:
    """Answers what asks to move replicas or leadership."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def alter(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> Sliced[AlterPartitionReassignmentsResponse]:
        """Accept what asks for the replicas that are there."""
        del context
        image = self._image()
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
        )
        wanted = yield from fold_partitions(
            ((topic.name, topic.partitions) for topic in request.topics),
            lambda one: one.partition_index,
        )
        for name, partitions in wanted.topics.items():
            answered = ReassignableTopicResponse(name)
            response.responses.append(answered)
            for index, one in partitions.items():
                result = ReassignablePartitionResponse(index, ErrorCode.NONE, None)
                try:
                    check_reassignment(image, name, index, one.replicas)
                except ApiError as error:
                    result.error_code, result.error_message = error.code, error.message
                answered.partitions.append(result)
                yield
        return response

    def list_ongoing(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        """Say that nothing is under way."""
        del request, context
        return ListPartitionReassignmentsResponse(error_message=None)

    def elect(
        self, request: ElectLeadersRequest, context: RequestContext
    ) -> Sliced[ElectLeadersResponse]:
        """Say of each partition why it gets no other leader."""
        del context
        image = self._image()
        if request.topic_partitions is None:
            return (yield from _every_topic(image))
        wanted = yield from fold_partitions(
            ((one.topic, one.partitions) for one in request.topic_partitions), itself
        )
        response = ElectLeadersResponse()
        known = request.election_type in (PREFERRED, UNCLEAN)
        if not known and wanted.topics:
            response.error_code = ErrorCode.INVALID_REQUEST
        for topic, partitions in wanted.topics.items():
            answered = ElectLeadersTopicResult(topic)
            response.replica_election_results.append(answered)
            for index in partitions:
                answered.partition_result.append(_elected(image, request, topic, index))
                yield
        return response


def _elected(
    image: MetadataImage, request: ElectLeadersRequest, topic: str, index: int
) -> ElectLeadersPartitionResult:
    kind = request.election_type
    try:
        if kind not in (PREFERRED, UNCLEAN):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
        check_election(image, topic, index, preferred=kind == PREFERRED)
    except ApiError as error:
        return ElectLeadersPartitionResult(index, error.code, error.message)
    return ElectLeadersPartitionResult(index, ErrorCode.NONE, None)


def _every_topic(image: MetadataImage) -> Sliced[ElectLeadersResponse]:
    """Answer an election for all partitions: those that need none are left out, as by Kafka."""
    response = ElectLeadersResponse()
    for topic in image.topics:
        response.replica_election_results.append(ElectLeadersTopicResult(topic))
        yield
    return response
