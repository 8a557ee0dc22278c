"""Messages of the Raft quorum that keeps a KRaft cluster's metadata (KIP-595, KIP-630, KIP-853).

Replicas pull with Fetch, so there is no append message: only elections, snapshots and membership.
Every message names one topic with one partition, `__cluster_metadata-0`.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.files import Buffer
from moldau.base.network import Part
from moldau.protocol.fields import (
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    struct_field,
    uint16,
    uuid,
)


@struct
class VotePartition:
    """Who wants to lead which epoch, and how long its log is."""

    partition_index: int = int32()
    replica_epoch: int = int32()  # the epoch stood for; a pre-vote leaves it as it is
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


@struct
class VoteTopic:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[VotePartition] = array(VotePartition)


@message(key=52, versions="0-2", flexible="0+")
class VoteRequest:
    """Ask a voter for its vote.

    Version 1 adds directory ids (KIP-853), 2 asks without a new epoch first (pre-vote,
    KIP-996).
    """

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteTopic] = array(VoteTopic)


@struct
class VotePartitionResponse:
    """The vote for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@struct
class VoteTopicResponse:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[VotePartitionResponse] = array(VotePartitionResponse)


@struct
class RaftNodeEndpoint:
    """Where to find the leader named in the answer."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(key=52, versions="0-2", flexible="0+")
class VoteResponse:
    """The vote, and the leader if the voter knows one."""

    error_code: int = int16()
    topics: list[VoteTopicResponse] = array(VoteTopicResponse)
    node_endpoints: list[RaftNodeEndpoint] = array(RaftNodeEndpoint, "1+", tag=0)


@struct
class BeginQuorumEpochPartition:
    """Who leads which epoch."""

    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class BeginQuorumEpochTopic:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[BeginQuorumEpochPartition] = array(BeginQuorumEpochPartition)


@struct
class RaftListener:
    """One address of a quorum member."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    """From a new leader to the voters: I lead this epoch."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginQuorumEpochTopic] = array(BeginQuorumEpochTopic)
    leader_endpoints: list[RaftListener] = array(RaftListener, "1+")


@struct
class QuorumEpochPartitionResponse:
    """The leader and epoch the voter knows."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class QuorumEpochTopicResponse:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[QuorumEpochPartitionResponse] = array(QuorumEpochPartitionResponse)


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    """Whether the voter follows."""

    error_code: int = int16()
    topics: list[QuorumEpochTopicResponse] = array(QuorumEpochTopicResponse)
    node_endpoints: list[RaftNodeEndpoint] = array(RaftNodeEndpoint, "1+", tag=0)


@struct
class PreferredCandidate:
    """One voter that should stand for election."""

    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


@struct
class EndQuorumEpochPartition:
    """Who led which epoch, and who should follow."""

    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[PreferredCandidate] = array(PreferredCandidate, "1+")


@struct
class EndQuorumEpochTopic:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[EndQuorumEpochPartition] = array(EndQuorumEpochPartition)


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    """From a leaving leader to the voters: elect another, preferably in this order."""

    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[EndQuorumEpochTopic] = array(EndQuorumEpochTopic)
    leader_endpoints: list[RaftListener] = array(RaftListener, "1+")


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    """Whether the voter heard it."""

    error_code: int = int16()
    topics: list[QuorumEpochTopicResponse] = array(QuorumEpochTopicResponse)
    node_endpoints: list[RaftNodeEndpoint] = array(RaftNodeEndpoint, "1+", tag=0)


@struct
class SnapshotId:
    """A snapshot, named by the log end it stands for."""

    end_offset: int = int64()
    epoch: int = int32()


@struct
class FetchSnapshotPartition:
    """Which snapshot to read, from which position."""

    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct_field(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0)


@struct
class FetchSnapshotTopic:
    """The metadata topic."""

    name: str = string()
    partitions: list[FetchSnapshotPartition] = array(FetchSnapshotPartition)


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    """Read a piece of a snapshot, after Fetch said that the log no longer goes back far enough."""

    cluster_id: str | None = string(nullable="0+", tag=0, default=None)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2**31 - 1)
    topics: list[FetchSnapshotTopic] = array(FetchSnapshotTopic)


@struct
class FetchSnapshotLeader:
    """Who leads the quorum now."""

    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class FetchSnapshotPartitionResponse:
    """One piece of the snapshot."""

    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct_field(SnapshotId)
    current_leader: FetchSnapshotLeader = struct_field(FetchSnapshotLeader, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer | Sequence[Part] | None = records()


@struct
class FetchSnapshotTopicResponse:
    """The metadata topic."""

    name: str = string()
    partitions: list[FetchSnapshotPartitionResponse] = array(FetchSnapshotPartitionResponse)


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    """A piece of a snapshot, cut without regard to batches."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[FetchSnapshotTopicResponse] = array(FetchSnapshotTopicResponse)
    node_endpoints: list[RaftNodeEndpoint] = array(RaftNodeEndpoint, "1+", tag=0)


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """Add a voter; version 1 can have the answer before the change is committed."""

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[RaftListener] = array(RaftListener)
    ack_when_committed: bool = boolean("1+", default=True)


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """Remove a voter."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class RaftVersionFeature:
    """The range of `kraft.version` a voter can run at."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    """From a voter to the leader: my endpoints or supported versions have changed."""

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[RaftListener] = array(RaftListener)
    kraft_version_feature: RaftVersionFeature = struct_field(RaftVersionFeature)


@struct
class UpdateRaftVoterLeader:
    """Who leads the quorum now, and where it is."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    """What became of it, and who leads."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: UpdateRaftVoterLeader = struct_field(UpdateRaftVoterLeader, tag=0)
