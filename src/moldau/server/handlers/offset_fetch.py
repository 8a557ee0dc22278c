"""OffsetFetch 0-10: the offsets that groups have committed.

Before version 8 a request asks about one group, since then about several. Only version 10 names
topics by id, so only there the metadata matters: partitions that do not exist have no offset, and
that is what is answered. Version 0 once meant ZooKeeper; it is served like version 1. An empty
group id is a group like any other, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicId
from moldau.cluster.image import MetadataImage
from moldau.coordination.answers import Answer, combined
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.outcome import Now, Outcome, Ticket
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.server.dispatch import RequestContext

_BY_ID: Final = 10
_SEVERAL_GROUPS: Final = 8
_ERROR_OF_GROUP: Final = 2


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, runtime: Runtime[GroupShard], image: Callable[[], MetadataImage]) -> None:
        self._runtime = runtime
        self._image = image

    def __call__(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> Answer[OffsetFetchResponse]:
        """Read offsets of one group or, since version 8, of several."""
        version = context.version
        if version >= _SEVERAL_GROUPS:
            answers = [
                self._fetch_group(group, request.require_stable, version)
                for group in request.groups
            ]
            return combined(answers, lambda groups: OffsetFetchResponse(groups=groups))
        group = OffsetFetchRequestGroup(
            request.group_id,
            topics=None
            if request.topics is None
            else [
                OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ],
        )
        answer = self._fetch_group(group, request.require_stable, version)
        return combined([answer], lambda groups: _of_one_group(group, groups[0], version))

    def _fetch_group(
        self, group: OffsetFetchRequestGroup, require_stable: bool, version: int
    ) -> Answer[OffsetFetchResponseGroup]:
        by_id = version >= _BY_ID
        unknown: list[OffsetFetchResponseTopics] = []
        if by_id and group.topics is not None:
            unknown = self._name_topics(group)

        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.fetch(group, ticket, require_stable=require_stable)

        answer = self._runtime.call(
            group.group_id, decide, lambda code: OffsetFetchResponseGroup(group.group_id, [], code)
        )
        if not by_id:
            return answer
        return combined([answer], lambda answered: self._with_ids(answered[0], unknown))

    def _name_topics(self, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
        """Find the names of topics asked for by id; take out, and answer, what has none."""
        image = self._image()
        named, unknown = [], []
        for topic in group.topics or ():
            found = image.topic_by_id(TopicId(topic.topic_id))
            if found is None:
                error = ErrorCode.UNKNOWN_TOPIC_ID
                results = [_no_offset(index, error) for index in topic.partition_indexes]
                unknown.append(OffsetFetchResponseTopics("", topic.topic_id, results))
            else:
                topic.name = found.name
                named.append(topic)
        group.topics = named
        return unknown

    def _with_ids(
        self, group: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
    ) -> OffsetFetchResponseGroup:
        """Say topics by id; one that has been deleted meanwhile cannot be said."""
        if group.error_code:
            return group
        image = self._image()
        said = []
        for topic in group.topics:
            if topic.topic_id == ZERO_TOPIC_ID:
                found = image.topic(topic.name)
                if found is None:
                    continue
                topic.topic_id = found.id
            said.append(topic)
        group.topics = said + unknown
        return group


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", error)


def _of_one_group(
    asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    """Answer in a version that knows one group, whose error has no place of its own before 2."""
    topics = group.topics
    if group.error_code and version < _ERROR_OF_GROUP:
        error = ErrorCode.of(group.error_code)
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                partitions=[_no_offset(index, error) for index in topic.partition_indexes],
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(topic.name, topic.partitions) for topic in topics],
        error_code=group.error_code,
    )
