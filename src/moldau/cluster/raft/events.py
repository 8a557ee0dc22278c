"""What can happen to a node: the inputs of the core, one at a time, each with the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from moldau.base.ids import Offset
from moldau.cluster.raft.log_position import LogMark
from moldau.cluster.raft.requests import QuorumAnswer, Request, Token
from moldau.cluster.raft.voters import NodeId, VoterSet
from moldau.cluster.snapshots import SnapshotId


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The core's `deadline_s` has come; also harmless at any other time."""


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """Another node, or a tool, asks."""

    token: Token
    request: Request


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """The answer to a request that the core sent."""

    request_id: int
    answer: QuorumAnswer


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request was not sent, or its connection ended before the answer."""

    request_id: int


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """The connection to a node was reset or refused: its process is most likely gone.

    Tell it only on such evidence, not when a connection is closed because it was idle.
    """

    node: NodeId


@dataclass(frozen=True, slots=True)
class QuorumStateDurable:
    """The write that the last PersistQuorumState asked for has been synced."""


@dataclass(frozen=True, slots=True)
class LogSynced:
    """The log is durable up to a mark that SyncLog named. A later mark stands for earlier ones."""

    mark: LogMark


@dataclass(frozen=True, slots=True)
class AppendWanted:
    """The active controller wants to append records, as one batch."""

    content: object
    count: int


@dataclass(frozen=True, slots=True)
class SnapshotDownloaded:
    """A fetched snapshot is whole, checked and durable, though not in its place yet."""

    snapshot: SnapshotId
    voters: VoterSet | None
    """The voters that it names; None if it names none (kraft.version 0)."""


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """A fetched snapshot is damaged."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """This node has written a snapshot of its own."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class LogTrimmed:
    """Records and snapshots that are not needed any more are about to be deleted."""

    start_offset: Offset
    oldest_snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class ResignWanted:
    """The active controller asks not to lead any more, as when its disk is full."""


@dataclass(frozen=True, slots=True)
class StopWanted:
    """The node stops cleanly: a leader hands over first. Ends with the effect Stopped."""


SnapshotEvent: TypeAlias = SnapshotDownloaded | SnapshotRefused | SnapshotTaken | LogTrimmed

Event: TypeAlias = (
    TimerFired
    | RequestArrived
    | AnswerArrived
    | RequestFailed
    | ConnectionReset
    | QuorumStateDurable
    | LogSynced
    | AppendWanted
    | SnapshotEvent
    | ResignWanted
    | StopWanted
)
