"""Fetch of the metadata log and FetchSnapshot: what replicas ask their leader for.

Fetch names the topic up to version 12, and its id from 13 on; an answer repeats what the request
had. Directories came with version 17 (KIP-853), the high watermark with 18 (KIP-1166).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.base.files import Buffer
from moldau.base.ids import NO_OFFSET, LeaderEpoch, Offset
from moldau.base.network import Part
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.kraft.apis.checks import (
    METADATA_PARTITION,
    Known,
    known,
    log_end_of,
    require,
    told_epoch,
)
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft import requests as core
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages import data
from moldau.protocol.messages import raft as wire
from moldau.storage.epochs import EpochEnd

_NOT_TOLD: Final = 2**63 - 1
"""The high watermark of a request that does not name it; read from all versions before 18."""


# Fetch


def fetch_message(request: core.FetchRequest, _own: Voter, fetch_bytes: int) -> data.FetchRequest:
    wanted = data.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.last.offset,
        last_fetched_epoch=told_epoch(request.last),
        replica_directory_id=request.replica.directory,
        high_watermark=request.high_watermark,
    )
    return data.FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.node,
        replica_state=data.FetchReplicaState(request.replica.node),
        max_wait_ms=round(request.max_wait_s * 1000),
        max_bytes=fetch_bytes,
        topics=[data.FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [wanted])],
    )


def fetch_of(message: data.FetchRequest, _receiver: NodeId) -> core.FetchRequest:
    wanted = _fetched_partition(message)
    node = max(message.replica_id, message.replica_state.replica_id)
    is_told = wanted.high_watermark != _NOT_TOLD
    require(min(node, message.max_wait_ms) >= 0)
    require(wanted.last_fetched_epoch <= wanted.current_leader_epoch)
    require(wanted.high_watermark >= NO_OFFSET)
    return core.FetchRequest(
        cluster_id=message.cluster_id,
        replica=ReplicaKey(NodeId(node), wanted.replica_directory_id),
        epoch=LeaderEpoch(wanted.current_leader_epoch),
        last=log_end_of(wanted.last_fetched_epoch, wanted.fetch_offset),
        high_watermark=Offset(wanted.high_watermark) if is_told else NO_OFFSET,
        max_wait_s=message.max_wait_ms / 1000,
    )


def _fetched_partition(message: data.FetchRequest) -> data.FetchPartition:
    topics = message.topics
    require(len(topics) == 1 and len(topics[0].partitions) == 1)
    topic, wanted = topics[0], topics[0].partitions[0]
    require(topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID)
    require(wanted.partition == METADATA_PARTITION)
    return wanted


def fetch_response(
    message: data.FetchRequest, answer: core.FetchAnswer, records: Sequence[Part] | bytes
) -> data.FetchResponse:
    partition = data.FetchablePartitionResponse(
        METADATA_PARTITION,
        answer.error,
        answer.high_watermark,
        current_leader=data.LeaderIdAndEpoch(answer.leader, answer.epoch),
        aborted_transactions=None,
        records=records,
    )
    if answer.diverging is not None:
        partition.diverging_epoch = data.DivergingEpoch(*answer.diverging)
    if answer.snapshot is not None:
        partition.snapshot_id = data.FetchSnapshotId(*answer.snapshot)
    topic = message.topics[0]
    answered = data.FetchableTopicResponse(topic.topic, topic.topic_id, [partition])
    return data.FetchResponse(responses=[answered])


def fetch_known(response: data.FetchResponse) -> Known:
    told = _answered_fetch(response)
    return known(told.error_code, told.current_leader.leader_epoch, told.current_leader.leader_id)


def fetch_answer(response: data.FetchResponse, told: Known) -> core.FetchAnswer:
    partition = _answered_fetch(response)
    parts, snapshot = partition.diverging_epoch, partition.snapshot_id
    is_parting = _is_given(parts.epoch, parts.end_offset)
    is_snapshot = _is_given(snapshot.epoch, snapshot.end_offset)
    has_records = bool(_bytes_of(partition.records))
    if is_parting + is_snapshot + has_records > 1 or partition.high_watermark < NO_OFFSET:
        raise PeerUnavailable("answered a fetch with things that exclude each other")
    return core.FetchAnswer(
        *told,
        high_watermark=Offset(partition.high_watermark),
        diverging=EpochEnd(LeaderEpoch(parts.epoch), Offset(parts.end_offset))
        if is_parting
        else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch) if is_snapshot else None,
    )


def fetched_records(response: data.FetchResponse) -> Buffer:
    """Return the batches of an answer, as they came."""
    return _bytes_of(_answered_fetch(response).records)


def _answered_fetch(response: data.FetchResponse) -> data.FetchablePartitionResponse:
    topics = response.responses
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, told = topics[0], topics[0].partitions[0]
        is_metadata = topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID
        if is_metadata and told.partition_index == METADATA_PARTITION:
            return told
    raise PeerUnavailable("answered a fetch for other partitions than the metadata's")


def _is_given(epoch: int, end_offset: int) -> bool:
    """Tell whether a place in the log is named; -1 and -1 is none."""
    if (epoch, end_offset) == (-1, -1):
        return False
    if min(epoch, end_offset) < 0:
        raise PeerUnavailable(f"answered a fetch with offset {end_offset} of epoch {epoch}")
    return True


def _bytes_of(records: Buffer | Sequence[Part] | None) -> Buffer:
    if records is None:
        return b""
    if not isinstance(records, bytes | bytearray | memoryview):
        raise PeerUnavailable("answered with records that have not arrived")
    return records


# FetchSnapshot


def snapshot_message(
    request: core.FetchSnapshotRequest, _own: Voter, fetch_bytes: int
) -> wire.FetchSnapshotRequest:
    wanted = wire.FetchSnapshotPartition(
        METADATA_PARTITION,
        request.epoch,
        wire.SnapshotId(*request.snapshot),
        request.position,
        request.replica.directory,
    )
    topic = wire.FetchSnapshotTopic(METADATA_TOPIC, [wanted])
    return wire.FetchSnapshotRequest(request.cluster_id, request.replica.node, fetch_bytes, [topic])


def snapshot_of(message: wire.FetchSnapshotRequest, _receiver: NodeId) -> core.FetchSnapshotRequest:
    """Read a request. The leader has no snapshot or position that cannot be, and says so."""
    require(len(message.topics) == 1 and len(message.topics[0].partitions) == 1)
    topic, wanted = message.topics[0], message.topics[0].partitions[0]
    if topic.name != METADATA_TOPIC or wanted.partition != METADATA_PARTITION:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    require(min(message.replica_id, wanted.current_leader_epoch) >= 0)
    return core.FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica=ReplicaKey(NodeId(message.replica_id), wanted.replica_directory_id),
        epoch=LeaderEpoch(wanted.current_leader_epoch),
        snapshot=SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch),
        position=wanted.position,
    )


def unknown_snapshot_response(message: wire.FetchSnapshotRequest) -> wire.FetchSnapshotResponse:
    """Answer for another partition than the metadata's as Kafka does: under its own name."""
    topic = message.topics[0]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = wire.FetchSnapshotPartitionResponse(
        topic.partitions[0].partition, unknown, unaligned_records=b""
    )
    answered = wire.FetchSnapshotTopicResponse(topic.name, [partition])
    return wire.FetchSnapshotResponse(topics=[answered])


def snapshot_response(
    _message: wire.FetchSnapshotRequest,
    answer: core.FetchSnapshotAnswer,
    records: Sequence[Part] | bytes,
) -> wire.FetchSnapshotResponse:
    partition = wire.FetchSnapshotPartitionResponse(
        METADATA_PARTITION,
        answer.error,
        wire.SnapshotId(*answer.snapshot),
        wire.FetchSnapshotLeader(answer.leader, answer.epoch),
        answer.size,
        answer.position,
        records,
    )
    topic = wire.FetchSnapshotTopicResponse(METADATA_TOPIC, [partition])
    return wire.FetchSnapshotResponse(topics=[topic])


def snapshot_known(response: wire.FetchSnapshotResponse) -> Known:
    told = _answered_snapshot(response)
    return known(told.error_code, told.current_leader.leader_epoch, told.current_leader.leader_id)


def snapshot_answer(response: wire.FetchSnapshotResponse, told: Known) -> core.FetchSnapshotAnswer:
    part = _answered_snapshot(response)
    if min(part.size, part.position, part.snapshot_id.end_offset, part.snapshot_id.epoch) < 0:
        raise PeerUnavailable("answered with a part of a snapshot that cannot be")
    return core.FetchSnapshotAnswer(
        *told,
        snapshot=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        position=part.position,
        # A copy: the frame that the part has come in goes.
        data=bytes(_bytes_of(part.unaligned_records)),
        size=part.size,
    )


def _answered_snapshot(
    response: wire.FetchSnapshotResponse,
) -> wire.FetchSnapshotPartitionResponse:
    topics = response.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, told = topics[0], topics[0].partitions[0]
        if topic.name == METADATA_TOPIC and told.index == METADATA_PARTITION:
            return told
    raise PeerUnavailable("answered with a snapshot of other partitions than the metadata's")
