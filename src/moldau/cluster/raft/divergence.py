"""Where a follower's log has left its leader's, and where the follower cuts it.

A follower fetches from its end, and names the epoch of its last record. The leader answers with one
of three things: records, the place where the two logs part (KIP-595), or a snapshot to begin again
with, since the records that the follower lacks are gone (KIP-630).
"""

from __future__ import annotations

from typing import Protocol

from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import UNKNOWN_EPOCH_END, EpochEnd, LeaderEpochs


class ServedLog(Protocol):
    """A leader's log, as far as others may fetch it."""

    @property
    def epochs(self) -> LeaderEpochs: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> LeaderEpoch: ...

    @property
    def oldest_snapshot(self) -> SnapshotId | None: ...

    @property
    def newest_snapshot(self) -> SnapshotId | None: ...


def snapshot_instead(log: ServedLog, offset: int, epoch: int) -> SnapshotId | None:
    """Return the snapshot with which a log that ends like this begins again; None if it goes on.

    An empty log gets there faster by a snapshot, even if all records are still here. What came
    before the log is known by the snapshot that ends where the log begins. A log that Kafka has
    kept may begin before its oldest snapshot: then an epoch before its first one may have ended
    anywhere.
    """
    newest, oldest = log.newest_snapshot, log.oldest_snapshot
    if newest is None or oldest is None or newest.end_offset == 0:
        return None
    start = log.start_offset
    if offset == 0 or offset < start:
        return newest
    if oldest.end_offset == start:
        is_other = epoch < oldest.epoch or (offset == start and epoch != oldest.epoch)
    else:
        is_other = start > 0 and epoch < log.epochs.epoch_for(Offset(start))
    return newest if is_other else None


def diverging(log: ServedLog, offset: int, epoch: int) -> EpochEnd | None:
    """Return where a log that ends like this has left the leader's; None if it has not.

    An epoch that the leader does not know is newer than all of its own: its end is what is known.
    """
    if offset == 0 and log.start_offset == 0:
        return None
    log_end = Offset(log.end_offset)
    end = log.epochs.end_offset_for(LeaderEpoch(epoch), log_end)
    if end == UNKNOWN_EPOCH_END:
        return EpochEnd(log.last_epoch, log_end)
    return end if end.epoch != epoch or end.end_offset < offset else None


def truncation_offset(log: LogPosition, leader_end: EpochEnd) -> Offset:
    """Return where a follower cuts its log, given the end of an epoch in its leader's.

    Without records of that epoch it cuts where its own next lower one ends. The next fetch names
    that epoch then, so each turn goes back by one epoch at least.
    """
    own = log.epochs.end_offset_for(leader_end.epoch, log.end_offset)
    if own == UNKNOWN_EPOCH_END:
        return min(log.end_offset, leader_end.end_offset)
    if own.epoch == leader_end.epoch:
        return min(own.end_offset, leader_end.end_offset)
    return own.end_offset
