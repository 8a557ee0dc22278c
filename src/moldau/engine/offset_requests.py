"""The requests that commit offsets and fetch committed ones, and what their answers say.

Pure. One request is filled in for every version at once: the encoder leaves out what a version
does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.engine.broker_errors import (
    BrokerError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    broker_error,
)
from moldau.engine.errors import CorruptAnswer
from moldau.engine.metadata import NO_EPOCH
from moldau.engine.partitions import OffsetAndMetadata, TopicPartition
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
)

NEWEST_VERSION = 9
"""Of both requests. The tenth names topics by id alone, and offsets outlive a client's knowledge of
ids: those of a topic that is not in its metadata could be neither committed nor read."""

NO_OFFSET = -1
NO_GENERATION = -1
"""The generation of who is no member of the group."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def commit_request(
    group_id: str,
    offsets: Offsets,
    *,
    member_id: str = "",
    generation: int = NO_GENERATION,
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Ask to keep offsets, as this member of the group or as nobody in particular."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), kept in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=kept.offset,
                committed_leader_epoch=NO_EPOCH if kept.leader_epoch is None else kept.leader_epoch,
                committed_metadata=kept.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )


def commit_error(answer: OffsetCommitResponse, offsets: Offsets) -> BrokerError | None:
    """Return what went wrong, None if every offset is kept.

    Errors of the group stand at every partition alike. Those of single topics are named; one that
    trying again cannot cure comes first.
    """
    errors: dict[ErrorCode, list[TopicPartition]] = {}
    told = set()
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            told.add(partition)
            if each.error_code != ErrorCode.NONE:
                errors.setdefault(ErrorCode.of(each.error_code), []).append(partition)
    if not told.issuperset(offsets):
        raise CorruptAnswer("the response to a commit lacks a partition")
    if not errors:
        return None
    return _named(min(errors, key=lambda code: (code.retriable, code)), errors)


def _named(code: ErrorCode, errors: Mapping[ErrorCode, list[TopicPartition]]) -> BrokerError:
    error = broker_error(code)
    if isinstance(error, (TopicAuthorizationFailed, UnknownTopicOrPartition)):
        listed = ", ".join(str(partition) for partition in sorted(errors[code]))
        return broker_error(code, f"{code.text} {listed}")
    return error


def fetch_request(
    group_id: str, partitions: Iterable[TopicPartition], *, require_stable: bool
) -> OffsetFetchRequest:
    """Ask for committed offsets; stable ones are those no open transaction may still change."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[
                    OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
            )
        ],
        require_stable=require_stable,
    )


def committed_offsets(answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    """Read committed offsets; raises the first error. Partitions without an offset are left out."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    # Until the eighth version there was one group, at the top.
    for group in answer.groups or (answer,):
        if group.error_code != ErrorCode.NONE:
            raise broker_error(group.error_code)
        for topic in group.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                kept = _kept(partition, each)
                if kept is not None:
                    found[partition] = kept
    return found


def _kept(
    partition: TopicPartition, told: OffsetFetchResponsePartition
) -> OffsetAndMetadata | None:
    if told.error_code != ErrorCode.NONE:
        code = ErrorCode.of(told.error_code)
        raise broker_error(code, f"{code.text} {partition}")
    if told.committed_offset == NO_OFFSET:
        return None
    epoch = told.committed_leader_epoch
    return OffsetAndMetadata(
        told.committed_offset, told.metadata or "", None if epoch == NO_EPOCH else epoch
    )
