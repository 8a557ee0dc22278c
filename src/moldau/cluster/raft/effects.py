"""What the caller of a core has to do: the outputs, to be carried out in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from moldau.base.ids import NO_OFFSET, LeaderEpoch, Offset
from moldau.cluster.raft.log_position import LogMark
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    Batch,
    FetchAnswer,
    FetchSnapshotAnswer,
    LeaderChange,
    QuorumAnswer,
    SentRequest,
    Token,
    VotersChange,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import NodeId
from moldau.cluster.snapshots import SnapshotId


@dataclass(frozen=True, slots=True)
class PersistQuorumState:
    """Write and sync this, then tell QuorumStateDurable. Nothing else leaves the core before."""

    quorum: QuorumState


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request; its answer or its failure comes back under this id."""

    request_id: int
    to: NodeId | None
    """None for any of the nodes that the settings name (`controller.quorum.bootstrap.servers`)."""
    request: SentRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request."""

    token: Token
    answer: QuorumAnswer


@dataclass(frozen=True, slots=True)
class AnswerWithRecords:
    """Answer a fetch with batches from an offset on, read from the log as it is now."""

    token: Token
    answer: FetchAnswer
    read_from: Offset


@dataclass(frozen=True, slots=True)
class AnswerWithSnapshot:
    """Answer with a part of a snapshot, from the position in the answer, and with its size.

    POSITION_OUT_OF_RANGE if it ends before.
    """

    token: Token
    answer: FetchSnapshotAnswer


@dataclass(frozen=True, slots=True)
class AppendAsLeader:
    """Append a batch of this leader's: of the controller's records, or control records."""

    base_offset: Offset
    epoch: LeaderEpoch
    content: object | LeaderChange | VotersChange


@dataclass(frozen=True, slots=True)
class AppendRefused:
    """The records of an AppendWanted were not taken: this node does not lead."""

    content: object


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append batches as the leader has sent them."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class SyncLog:
    """Make the log durable up to its present end, then tell LogSynced with this mark.

    Several may wait for one sync. A node that never votes need not sync, and tells it at once.
    """

    mark: LogMark


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Cut the log. The cut has to be durable before what is appended after it is."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class StoreSnapshotPart:
    """Keep a part of a snapshot that is being fetched; position 0 begins it again."""

    snapshot: SnapshotId
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FinishSnapshot:
    """The last part is there: check and sync, then tell SnapshotDownloaded or SnapshotRefused.

    Most of the checking should be done part by part: in the meantime the node does not fetch.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Put a downloaded snapshot in its place, and begin the log anew behind it."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Everything before this offset is committed. It only grows in one life of a node."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """The node has another role, another epoch, or another leader."""

    role: Role
    epoch: LeaderEpoch
    leader: NodeId
    epoch_start: Offset = NO_OFFSET
    """Of a leader: where its epoch begins. It may decide once it has applied all before."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A clean stop is complete; the core does nothing any more."""


Effect: TypeAlias = (
    PersistQuorumState
    | SendRequest
    | Answer
    | AnswerWithRecords
    | AnswerWithSnapshot
    | AppendAsLeader
    | AppendRefused
    | AppendFetched
    | SyncLog
    | TruncateLog
    | StoreSnapshotPart
    | FinishSnapshot
    | InstallSnapshot
    | HighWatermarkMoved
    | RoleChanged
    | Stopped
)
