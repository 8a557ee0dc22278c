"""The APIs of the newer group protocols, answered as by a Kafka where they are disabled.

`group.version`, `share.version` and `streams.version` are at level 0 here. A Kafka whose features
are disabled still advertises these APIs and answers UNSUPPORTED_VERSION; a client that is set to
use one of the protocols hears so at once, and its user reads what to do. If the APIs were not
advertised at all, some clients would wait for a broker that has them.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)
from moldau.protocol.messages.share_groups import (
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponse,
    DescribedShareGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatResponse,
)
from moldau.protocol.messages.share_state import (
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    ReadStatePartitionResult,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryTopicResult,
    ReadStateTopicResult,
    ShareStatePartitionResult,
    ShareStateTopicResult,
    WriteShareGroupStateResponse,
)
from moldau.protocol.messages.streams_groups import (
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from moldau.server.network.dispatch import Handler, RequestContext
from moldau.server.network.repeats import fold_partitions, once
from moldau.server.network.slices import Sliced

UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION

CONSUMER: Final = (
    "This broker has classic groups only (group.version is 0): set group.protocol=classic."
)
SHARE: Final = "This broker has no share groups (share.version is 0)."
STREAMS: Final = (
    "This broker has no streams groups (streams.version is 0): set group.protocol=classic."
)


def _refused(response: type[Any], text: str) -> Handler:
    """Return what answers a request as a whole."""

    def refuse(request: Any, context: RequestContext) -> Any:
        del request, context
        return response(error_code=UNSUPPORTED, error_message=text)

    return refuse


def _each_group(response: type[Any], described: type[Any]) -> Handler:
    """Return what answers for each group that is to be described."""

    def refuse(request: Any, context: RequestContext) -> Sliced[Any]:
        del context
        answer = response()
        for group_id in (yield from once(request.group_ids)):
            answer.groups.append(described(UNSUPPORTED, None, group_id))
            yield
        return answer

    return refuse


def _each_partition(response: type[Any], topic: type[Any], partition: type[Any]) -> Handler:
    """Return what answers for each partition of a share group whose state is asked for."""

    def refuse(request: Any, context: RequestContext) -> Sliced[Any]:
        del context
        answer = response()
        asked = yield from fold_partitions(
            ((one.topic_id, one.partitions) for one in request.topics),
            lambda one: int(one.partition),
        )
        for topic_id, partitions in asked.topics.items():
            answered = topic(topic_id)
            answer.results.append(answered)
            for index in partitions:
                answered.partitions.append(partition(index, UNSUPPORTED))
                yield
        return answer

    return refuse


def describe_share_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> Sliced[DescribeShareGroupOffsetsResponse]:
    """Answer for each group whose offsets are asked for."""
    del context
    answer = DescribeShareGroupOffsetsResponse()
    for group_id in (yield from once(group.group_id for group in request.groups)):
        answer.groups.append(
            DescribeShareGroupOffsetsResponseGroup(group_id, error_code=UNSUPPORTED)
        )
        yield
    return answer


DISABLED_ROWS: Final[tuple[tuple[int, str, Handler], ...]] = (
    (68, "0-1", _refused(ConsumerGroupHeartbeatResponse, CONSUMER)),
    (69, "0-1", _each_group(ConsumerGroupDescribeResponse, DescribedConsumerGroup)),
    (76, "1", _refused(ShareGroupHeartbeatResponse, SHARE)),
    (77, "1", _each_group(ShareGroupDescribeResponse, DescribedShareGroup)),
    (78, "1-2", _refused(ShareFetchResponse, SHARE)),
    (79, "1-2", _refused(ShareAcknowledgeResponse, SHARE)),
    (
        83,
        "0",
        _each_partition(
            InitializeShareGroupStateResponse, ShareStateTopicResult, ShareStatePartitionResult
        ),
    ),
    (
        84,
        "0",
        _each_partition(
            ReadShareGroupStateResponse, ReadStateTopicResult, ReadStatePartitionResult
        ),
    ),
    (
        85,
        "0-1",
        _each_partition(
            WriteShareGroupStateResponse, ShareStateTopicResult, ShareStatePartitionResult
        ),
    ),
    (
        86,
        "0",
        _each_partition(
            DeleteShareGroupStateResponse, ShareStateTopicResult, ShareStatePartitionResult
        ),
    ),
    (
        87,
        "0-1",
        _each_partition(
            ReadShareGroupStateSummaryResponse,
            ReadStateSummaryTopicResult,
            ReadStateSummaryPartitionResult,
        ),
    ),
    (88, "0-1", _refused(StreamsGroupHeartbeatResponse, STREAMS)),
    (89, "0-1", _each_group(StreamsGroupDescribeResponse, DescribedStreamsGroup)),
    (90, "0-1", describe_share_offsets),
    (91, "0", _refused(AlterShareGroupOffsetsResponse, SHARE)),
    (92, "0", _refused(DeleteShareGroupOffsetsResponse, SHARE)),
    (93, "0", _refused(StreamsGroupTopologyDescriptionUpdateResponse, STREAMS)),
)
"""An API's key, its versions, and what refuses it."""
