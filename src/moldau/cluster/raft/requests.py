"""What nodes of a quorum say to each other, as values: the APIs of KRaft without their bytes.

Every request names the cluster, and every answer the epoch and the leader that its sender knows. So
whatever a node says, the other one learns of a newer epoch by it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from moldau.base.ids import NO_OFFSET, LeaderEpoch, Offset
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEnd

_NO_SNAPSHOT: Final = SnapshotId(-1, -1)

Token: TypeAlias = Hashable
"""Names a request that has arrived; the caller gives it, and gets it back with the answer."""


# Records


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch, as the core sees it."""

    base_offset: Offset
    end_offset: Offset
    """The offset after its last record."""
    epoch: LeaderEpoch
    content: object
    """The caller's: the bytes, in whatever form it wants to append them."""
    voters: VoterSet | None = None
    """Of a batch with a KRAFT_VOTERS record: the set that is in force from here on."""
    voters_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The records that begin a leader epoch, one control batch.

    `logged_voters` are stated in it too, with their kraft.version, where the log does not name
    them yet or the leader's own entry has changed.
    """

    leader: NodeId
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]
    logged_voters: VoterSet | None = None


@dataclass(frozen=True, slots=True)
class VotersChange:
    """The control record that states another set of voters; for the first set of a log, two."""

    voters: VoterSet
    states_version: bool = False
    """Whether the record of `kraft.version` 1 stands before it, in the same batch."""

    @property
    def record_count(self) -> int:
        return 2 if self.states_version else 1


# Answers


@dataclass(frozen=True, slots=True)
class QuorumAnswer:
    """What all answers have."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId


@dataclass(frozen=True, slots=True)
class VoteAnswer(QuorumAnswer):
    """Whether the vote is granted."""

    granted: bool = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochAnswer(QuorumAnswer):
    """The receiver knows the leader."""


@dataclass(frozen=True, slots=True)
class EndQuorumEpochAnswer(QuorumAnswer):
    """The receiver knows that the leader has resigned."""


@dataclass(frozen=True, slots=True)
class FetchAnswer(QuorumAnswer):
    """Records, or what stands in their way; only one of the three is there."""

    high_watermark: Offset = NO_OFFSET
    batches: tuple[Batch, ...] = ()
    """Filled in by the leader's caller (`effects.AnswerWithRecords`)."""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotAnswer(QuorumAnswer):
    """A part of a snapshot."""

    snapshot: SnapshotId = _NO_SNAPSHOT
    position: int = 0
    data: bytes = b""
    """Filled in by the leader's caller, as is the size of the whole (`AnswerWithSnapshot`)."""
    size: int = 0


@dataclass(frozen=True, slots=True)
class VoterChangeAnswer(QuorumAnswer):
    """What became of a request for another voter set."""


# Requests


class _OfAnEpoch:
    """A request that names the epoch in which it was made."""

    __slots__ = ()
    epoch: LeaderEpoch

    @property
    def stated_epoch(self) -> int:
        return self.epoch


class _OfNoEpoch:
    """A request of a tool, which knows no epochs."""

    __slots__ = ()
    stated_epoch: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class VoteRequest(_OfAnEpoch):
    """A node asks for a vote, or with a pre-vote whether it would get one (KIP-996)."""

    answer_type: ClassVar[type[QuorumAnswer]] = VoteAnswer
    cluster_id: str | None
    epoch: LeaderEpoch
    candidate: ReplicaKey
    voter: ReplicaKey
    last: LogEnd
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest(_OfAnEpoch):
    """A leader says that it leads."""

    answer_type: ClassVar[type[QuorumAnswer]] = BeginQuorumEpochAnswer
    cluster_id: str | None
    epoch: LeaderEpoch
    leader: NodeId
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest(_OfAnEpoch):
    """A leader says that it has resigned, and who should be the next: the best first."""

    answer_type: ClassVar[type[QuorumAnswer]] = EndQuorumEpochAnswer
    cluster_id: str | None
    epoch: LeaderEpoch
    leader: NodeId
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest(_OfAnEpoch):
    """A replica asks for the records behind the end of its log, all of which is durable there."""

    answer_type: ClassVar[type[QuorumAnswer]] = FetchAnswer
    cluster_id: str | None
    replica: ReplicaKey
    epoch: LeaderEpoch
    last: LogEnd
    high_watermark: Offset
    """-1 where the version of the request does not tell it (before 18)."""
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest(_OfAnEpoch):
    """A replica asks for a part of a snapshot."""

    answer_type: ClassVar[type[QuorumAnswer]] = FetchSnapshotAnswer
    cluster_id: str | None
    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class AddVoterRequest(_OfNoEpoch):
    """A tool, or the node itself, asks for one more voter.

    The caller has asked the node which versions it supports.
    """

    answer_type: ClassVar[type[QuorumAnswer]] = VoterChangeAnswer
    cluster_id: str | None
    voter: Voter
    ack_when_committed: bool = True
    """Else it is answered once the record is in the leader's log (KIP-1186)."""


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest(_OfNoEpoch):
    """A tool asks for one voter less."""

    answer_type: ClassVar[type[QuorumAnswer]] = VoterChangeAnswer
    cluster_id: str | None
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest(_OfAnEpoch):
    """A voter has other endpoints, or supports other versions, than its entry says."""

    answer_type: ClassVar[type[QuorumAnswer]] = VoterChangeAnswer
    cluster_id: str | None
    epoch: LeaderEpoch
    voter: Voter


@dataclass(frozen=True, slots=True)
class RaiseKraftVersionRequest(_OfNoEpoch):
    """The controller in this process asks for `kraft.version` 1: the log is to name the voters."""

    answer_type: ClassVar[type[QuorumAnswer]] = VoterChangeAnswer
    cluster_id: str | None


VoterChangeRequest: TypeAlias = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest

SentRequest: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | VoterChangeRequest
)
"""What a core sends by itself."""

Request: TypeAlias = SentRequest | RaiseKraftVersionRequest
