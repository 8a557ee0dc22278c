"""OffsetFetch 0-10: the offsets that groups have committed.

Before version 8 a request asks about one group, since then about several. Only version 10 names
topics by id, so only there the metadata matters: partitions that do not exist have no offset, and
that is what is answered. Version 0 once meant ZooKeeper; it is served like version 1. An empty
group id is a group like any other, as in Kafka.

A group, or a partition of it, that is asked for twice is told once; Kafka tells it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from operator import attrgetter
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicId
from moldau.cluster.image import MetadataImage
from moldau.coordination.answers import Answer
from moldau.coordination.groups.offset_fetching import GroupOffsets, TopicOffsets
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.outcome import Now, Outcome, Ticket
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ApiError, ErrorCode
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
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.gathering import gather
from moldau.server.network.repeats import fold_all, fold_partitions, itself
from moldau.server.network.slices import Sliced

_BY_ID: Final = 10
_SEVERAL_GROUPS: Final = 8
_ERROR_OF_GROUP: Final = 2

_TOPIC_SIZE, _PARTITION_SIZE = 24, 24
"""Bytes in an answer, besides texts."""


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, runtime: Runtime[GroupShard], image: Callable[[], MetadataImage]) -> None:
        self._runtime = runtime
        self._image = image

    def __call__(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> Sliced[OffsetFetchResponse | Coroutine[None, None, OffsetFetchResponse]]:
        """Read offsets of one group or, since version 8, of several."""
        version = context.version
        several = version >= _SEVERAL_GROUPS
        groups = request.groups if several else [(yield from _only_group(request))]
        wanted = yield from _fold_groups(groups)
        by_id = version >= _BY_ID
        unknown: dict[str, list[OffsetFetchResponseTopics]] = {}
        if by_id:
            for group in wanted:
                unknown[group.group_id] = yield from self._name_topics(group)
        room = AnswerRoom()

        found = (self._take(group, request.require_stable) for group in wanted)
        if several:
            return (
                yield from gather(
                    found,
                    lambda one: self._tell(one, unknown.get(one.group_id, []), room, by_id=by_id),
                    lambda groups: OffsetFetchResponse(groups=groups),
                )
            )
        return (
            yield from gather(
                found,
                lambda one: self._tell_alone(one, wanted[0], room, version),
                lambda answers: answers[0],
            )
        )

    def _take(self, group: OffsetFetchRequestGroup, require_stable: bool) -> Answer[GroupOffsets]:
        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.fetch(group, ticket, require_stable=require_stable)

        return self._runtime.call(
            group.group_id, decide, lambda code: GroupOffsets(group.group_id, [], code)
        )

    def _tell_alone(
        self, found: GroupOffsets, asked: OffsetFetchRequestGroup, room: AnswerRoom, version: int
    ) -> Sliced[OffsetFetchResponse]:
        """Read a group's offsets for a version that knows one group only."""
        group = yield from self._tell(found, [], room, by_id=False)
        return (yield from _of_one_group(asked, group, version))

    def _tell(
        self,
        found: GroupOffsets,
        unknown: list[OffsetFetchResponseTopics],
        room: AnswerRoom,
        *,
        by_id: bool,
    ) -> Sliced[OffsetFetchResponseGroup]:
        """Read a group's offsets, unless they are too much for the answer."""
        group_id, topics, error = found
        if error:
            return OffsetFetchResponseGroup(group_id, [], error)
        told = []
        try:
            for topic in topics:
                topic_id = self._id_of(topic) if by_id else topic.topic_id
                if topic_id is None:
                    continue  # deleted meanwhile: it cannot be said by id
                results = []
                for partition in topic.partitions:
                    result = topic.tell(partition)
                    room.take(_PARTITION_SIZE + len(result.metadata or ""))
                    results.append(result)
                    yield
                room.take(_TOPIC_SIZE + len(topic.name))
                told.append(OffsetFetchResponseTopics(topic.name, topic_id, results))
                yield
        except ApiError as refusal:
            return OffsetFetchResponseGroup(group_id, [], refusal.code)
        return OffsetFetchResponseGroup(group_id, told + unknown)

    def _name_topics(
        self, group: OffsetFetchRequestGroup
    ) -> Sliced[list[OffsetFetchResponseTopics]]:
        """Find the names of topics asked for by id; take out, and answer, what has none."""
        if group.topics is None:
            return []
        image = self._image()
        named, unknown = [], []
        for topic in group.topics:
            found = image.topic_by_id(TopicId(topic.topic_id))
            if found is None:
                error = ErrorCode.UNKNOWN_TOPIC_ID
                results = []
                for index in topic.partition_indexes:
                    results.append(_no_offset(index, error))
                    yield
                unknown.append(OffsetFetchResponseTopics("", topic.topic_id, results))
            else:
                topic.name = found.name
                named.append(topic)
            yield
        group.topics = named
        return unknown

    def _id_of(self, topic: TopicOffsets) -> bytes | None:
        if topic.topic_id != ZERO_TOPIC_ID:
            return topic.topic_id
        found = self._image().topic(topic.name)
        return None if found is None else found.id


def _only_group(request: OffsetFetchRequest) -> Sliced[OffsetFetchRequestGroup]:
    """Return the group of a request that knows one only, in the form of those that know more."""
    topics = None
    if request.topics is not None:
        topics = []
        for topic in request.topics:
            indexes = topic.partition_indexes
            topics.append(OffsetFetchRequestTopics(topic.name, partition_indexes=indexes))
            yield
    return OffsetFetchRequestGroup(request.group_id, topics=topics)


def _fold_groups(
    groups: Iterable[OffsetFetchRequestGroup],
) -> Sliced[list[OffsetFetchRequestGroup]]:
    """Fold a request: every group once, with all partitions it is asked for, or with everything."""
    folded = yield from fold_all(groups, attrgetter("group_id"))
    wanted = []
    for group_id, same in folded.items():
        if any(one.topics is None for one in same):
            wanted.append(OffsetFetchRequestGroup(group_id, topics=None))
            continue
        named = (
            ((topic.name, topic.topic_id), topic.partition_indexes)
            for one in same
            for topic in one.topics or ()
        )
        folded_topics = (yield from fold_partitions(named, itself)).topics
        topics = []
        for (name, topic_id), partitions in folded_topics.items():
            topics.append(OffsetFetchRequestTopics(name, topic_id, list(partitions)))
            yield
        wanted.append(OffsetFetchRequestGroup(group_id, topics=topics))
        yield
    return wanted


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", error)


def _of_one_group(
    asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, version: int
) -> Sliced[OffsetFetchResponse]:
    """Answer in a version that knows one group, whose error has no place of its own before 2."""
    response = OffsetFetchResponse(error_code=group.error_code)
    for told in group.topics:
        response.topics.append(OffsetFetchResponseTopic(told.name, told.partitions))
        yield
    if group.error_code and version < _ERROR_OF_GROUP:
        error = ErrorCode.of(group.error_code)
        for topic in asked.topics or ():
            results = []
            for index in topic.partition_indexes:
                results.append(_no_offset(index, error))
                yield
            response.topics.append(OffsetFetchResponseTopic(topic.name, results))
            yield
    return response
