"""What a node can be in its quorum, and what it keeps while it is that.

    Unattached   knows no leader of its epoch. Its election time-out runs. It may have voted.
    Prospective  asks whether it would be elected (KIP-996). It has promised nothing to anybody.
    Candidate    has raised the epoch, voted for itself, and asks for votes.
    Leader       appends, counts what a majority has, and resigns when no majority fetches.
    Follower     fetches from the leader. Its fetch time-out runs.
    Resigned     led in this epoch, and will not again. It tells the others.

An observer is a node that the voter set does not name. It is Unattached or a Follower, and begins
no election. These classes hold data; `transitions` says what leads from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import ClassVar, TypeAlias

from moldau.base.ids import NO_OFFSET, Offset
from moldau.base.tuples import NamedTuple
from moldau.cluster.raft.ballot import Ballot
from moldau.cluster.raft.requests import (
    FetchRequest,
    RaiseKraftVersionRequest,
    Token,
    VoterChangeRequest,
)
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter
from moldau.cluster.snapshots import SnapshotId


class Role(Enum):
    """The name of a state."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


@dataclass(slots=True)
class Unattached:
    """Waits for a leader, or for its turn to become one."""

    role: ClassVar[Role] = Role.UNATTACHED
    deadline_s: float
    """Of the election time-out; an observer has none."""


@dataclass(slots=True)
class Prospective:
    """Asks for pre-votes, in the epoch, with the vote and with the leader that it knows."""

    role: ClassVar[Role] = Role.PROSPECTIVE
    ballot: Ballot
    deadline_s: float
    retry_s: float = inf
    """When those that have refused are asked again."""


@dataclass(slots=True)
class Candidate:
    """Asks for votes."""

    role: ClassVar[Role] = Role.CANDIDATE
    ballot: Ballot
    deadline_s: float


@dataclass(slots=True)
class Download:
    """A snapshot that is being fetched."""

    snapshot: SnapshotId
    position: int = 0
    is_complete: bool = False
    """Whether all of it is here; it is being checked then."""


@dataclass(slots=True)
class Follower:
    """Fetches from the leader."""

    role: ClassVar[Role] = Role.FOLLOWER
    deadline_s: float
    """Of the fetch time-out; an observer that has missed it has none."""
    has_fetched: bool = False
    """Whether this leader has answered a fetch. Such a follower grants no pre-vote."""
    download: Download | None = None
    own_change_due_s: float = inf
    """From when on it may ask for a change of its own entry (`own_entry`)."""
    has_told_entry: bool = False
    """Whether this leader knows its entry; the log does not say under kraft.version 0."""


@dataclass(slots=True)
class Progress:
    """What a leader knows of another replica, by its fetches in this epoch."""

    fetched_s: float
    begin_due_s: float
    """When it is told (again) who leads, if it is a voter and does not fetch before."""
    end_offset: Offset = NO_OFFSET
    """The end of its log, all of which is durable there; -1 before its first fetch."""
    caught_up_s: float = -inf
    """When it last had all that the leader had."""
    offered_offset: Offset = NO_OFFSET
    """The end of the leader's log at its last fetch."""
    offered_s: float = -inf
    """When that was."""


class ParkedFetch(NamedTuple):
    """A fetch that waits for something new."""

    token: Token
    request: FetchRequest
    until_s: float


class PendingVoterChange(NamedTuple):
    """A voter change that waits for its commit."""

    token: Token
    request: VoterChangeRequest | RaiseKraftVersionRequest
    offset: Offset


@dataclass(slots=True)
class Leader:
    """Leads its epoch."""

    role: ClassVar[Role] = Role.LEADER
    epoch_start: Offset
    replicas: dict[ReplicaKey, Progress] = field(default_factory=dict)
    """Voters by the keys of the voter set, observers by their own."""
    parked: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict)
    change: PendingVoterChange | None = None
    told: dict[NodeId, Voter] = field(default_factory=dict)
    """What voters of the settings have said of themselves (UpdateRaftVoter)."""


@dataclass(slots=True)
class Resigned:
    """Has led its epoch; a former life may have."""

    role: ClassVar[Role] = Role.RESIGNED
    deadline_s: float
    successors: tuple[ReplicaKey, ...]
    """Who should lead next, the best first; empty if that is not known."""
    untold: set[ReplicaKey]
    """Voters that do not know yet."""


State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
