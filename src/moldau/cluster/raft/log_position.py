"""What the core knows of its log: where it begins and ends, in which epochs, and what is durable.

The caller has the log itself. The core moves this picture of it when it tells the caller to append
or to cut, so that the next decision stands on what the log will be, not on what it was.

Syncs run beside other work, and may end after a truncation that came later. So a sync is told by
its mark: the end of the log when it began, and how often the log had been cut until then. The mark
of an earlier cut says nothing about what is in the log now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from moldau.base.tuples import NamedTuple
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import LeaderEpochs

_EMPTY: Final = Offset(0)


class LogEnd(NamedTuple):
    """How new a log is. Compared in this order: a later epoch beats a longer log."""

    epoch: LeaderEpoch
    offset: Offset


class LogMark(NamedTuple):
    """The end of the log at one moment, for telling how far a sync has come."""

    cut_count: int
    end_offset: Offset


@dataclass(slots=True)
class LogPosition:
    """One log, without its records."""

    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    start_offset: Offset = _EMPTY
    end_offset: Offset = _EMPTY
    synced_offset: Offset = _EMPTY
    """Everything before it survives a power cut."""
    oldest_snapshot: SnapshotId | None = None
    newest_snapshot: SnapshotId | None = None
    cut_count: int = 0

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.last_epoch, self.end_offset)

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record, in the log or in the snapshot before it; -1 without."""
        if self.epochs.latest == NO_LEADER_EPOCH and self.newest_snapshot is not None:
            return LeaderEpoch(self.newest_snapshot.epoch)
        return self.epochs.latest

    @property
    def mark(self) -> LogMark:
        return LogMark(self.cut_count, self.end_offset)

    @property
    def is_synced(self) -> bool:
        return self.synced_offset == self.end_offset

    def append(self, epoch: LeaderEpoch, count: int) -> Offset:
        """Grow by so many records; return the offset of the first."""
        base = self.end_offset
        self.epochs.assign(epoch, base)
        self.end_offset = Offset(base + count)
        return base

    def synced(self, mark: LogMark) -> bool:
        """Take note of a sync; return whether more is durable now."""
        if mark.cut_count != self.cut_count or mark.end_offset <= self.synced_offset:
            return False
        self.synced_offset = mark.end_offset
        return True

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log at an offset."""
        self.cut_count += 1
        self.end_offset = end_offset
        self.synced_offset = min(self.synced_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def restart(self, snapshot: SnapshotId) -> None:
        """Drop the log and go on behind a snapshot, which is durable."""
        self.cut_count += 1
        self.epochs.clear()
        self.start_offset = self.end_offset = self.synced_offset = Offset(snapshot.end_offset)
        self.oldest_snapshot = self.newest_snapshot = snapshot

    def take_snapshot(self, snapshot: SnapshotId) -> None:
        """Take note of a snapshot of this node's own."""
        self.newest_snapshot = snapshot
        if self.oldest_snapshot is None:
            self.oldest_snapshot = snapshot

    def trim(self, start_offset: Offset, oldest_snapshot: SnapshotId) -> None:
        """Let the log begin later: a snapshot has what came before."""
        self.start_offset = start_offset
        self.oldest_snapshot = oldest_snapshot
        self.epochs.truncate_from_start(start_offset)
