"""The requests of a node that copies the metadata log, and what their answers hold. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.base.files import Buffer
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.metadata_source import SourceUnavailable
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.protocol.messages.raft import (
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
)
from moldau.protocol.messages.raft import SnapshotId as WireSnapshotId

FETCH_WAIT_MS: Final = 500
"""How long the leader may park a fetch, as in Kafka."""


class FetchState(NamedTuple):
    """Who fetches, and what it has."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    leader_epoch: int
    next_offset: int
    last_epoch: int
    start_offset: int
    high_watermark: int


def fetch_request(state: FetchState, max_bytes: int) -> FetchRequest:
    """Ask for what follows a log."""
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=state.leader_epoch,
        fetch_offset=state.next_offset,
        last_fetched_epoch=state.last_epoch,
        log_start_offset=state.start_offset,
        replica_directory_id=state.directory_id,
        high_watermark=state.high_watermark,
    )
    return FetchRequest(
        cluster_id=state.cluster_id,
        replica_id=state.node_id,
        replica_state=FetchReplicaState(state.node_id),
        max_wait_ms=FETCH_WAIT_MS,
        max_bytes=max_bytes,
        topics=[FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [wanted])],
    )


def fetch_snapshot_request(
    cluster_id: str,
    node_id: int,
    directory_id: bytes,
    leader_epoch: int,
    snapshot: SnapshotId,
    position: int,
    max_bytes: int,
) -> FetchSnapshotRequest:
    """Ask for a piece of a snapshot."""
    wanted = FetchSnapshotPartition(
        0, leader_epoch, WireSnapshotId(*snapshot), position, directory_id
    )
    topics = [FetchSnapshotTopic(METADATA_TOPIC, [wanted])]
    return FetchSnapshotRequest(cluster_id, node_id, max_bytes, topics)


def fetched_partition(response: FetchResponse) -> FetchablePartitionResponse:
    """Return the answer for the one partition; SourceUnavailable if there is none."""
    if response.error_code:
        raise SourceUnavailable(f"answered with {error_name(response.error_code)}")
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise SourceUnavailable("answered for other partitions than the metadata's")
    return response.responses[0].partitions[0]


def fetched_piece(
    response: FetchSnapshotResponse, snapshot: SnapshotId, position: int
) -> tuple[int, Buffer]:
    """Return the size of the snapshot and the bytes that were asked for."""
    if response.error_code:
        raise SourceUnavailable(f"answered with {error_name(response.error_code)}")
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise SourceUnavailable("answered for other partitions than the metadata's")
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        name = error_name(answer.error_code)
        raise SourceUnavailable(f"answered for snapshot {snapshot.name} with {name}")
    given = SnapshotId(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
    data = answer.unaligned_records
    if (given, answer.position) != (snapshot, position) or not isinstance(
        data, bytes | bytearray | memoryview
    ):
        raise SourceUnavailable(f"answered with another piece than {position} of {snapshot.name}")
    return answer.size, data


def error_name(code: int) -> str:
    """Name an error code, also one that we do not know."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
