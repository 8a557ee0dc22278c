"""Where a follower's log has left its leader's, and where the follower cuts it.

A follower fetches from its end, and names the epoch of its last record. The leader answers with one
of three things: records, the place where the two logs part (KIP-595), or a snapshot to begin again
with, since the records that the follower lacks are gone (KIP-630).
"""

from __future__ import annotations

from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import UNKNOWN_EPOCH_END, EpochEnd


def snapshot_instead(log: LogPosition, offset: Offset, epoch: LeaderEpoch) -> SnapshotId | None:
    """Return the snapshot with which a log that ends like this begins again; None if it goes on.

    An empty log gets there faster by a snapshot, even if all records are still here. A log that
    ends where ours begins goes on only if it ends in the epoch in which the snapshot there does.
    """
    newest, oldest = log.newest_snapshot, log.oldest_snapshot
    if newest is None or oldest is None or newest.end_offset == 0:
        return None
    needed = (
        offset == 0
        or offset < log.start_offset
        or epoch < oldest.epoch
        or (offset == oldest.end_offset == log.start_offset and epoch != oldest.epoch)
    )
    return newest if needed else None


def diverging(log: LogPosition, offset: Offset, epoch: LeaderEpoch) -> EpochEnd | None:
    """Return where a log that ends like this has left ours; None if it has not.

    An epoch that we do not know is newer than all of ours: our own end is what is known.
    """
    if offset == 0 and log.start_offset == 0:
        return None
    end = log.epochs.end_offset_for(epoch, log.end_offset)
    if end == UNKNOWN_EPOCH_END:
        return EpochEnd(log.last_epoch, log.end_offset)
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
