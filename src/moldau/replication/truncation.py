"""Where two logs part, and where a follower cuts its own so that it can go on behind its leader's.

A follower never cuts at its high watermark where it can help it: the high watermark is late, and
what lies above it may be committed. It compares epochs instead (KIP-101, KIP-279):

    the follower fetches from an offset and names the epoch of the record before it
    the leader says where that epoch ends in its own log, if the two differ (`diverging`)
    the follower cuts where both agree, as far as it can tell (`truncation_offset`), and asks again

Each answer is taken only in the epoch in which it was asked for: another leader's log would
mislead. And only the answer to the fetch that is in flight is taken, once: an older one may be for
a log that was cut since and has grown to the same end again.

Pure: the epochs of a log and numbers in, an offset out.
"""

from __future__ import annotations

from moldau.base.files import Buffer
from moldau.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from moldau.records.batch import iter_batches, parse_header
from moldau.replication.role import Role
from moldau.storage.epochs import EpochEnd, LeaderEpochs


def must_check_log(old: Role, new: Role) -> bool:
    """Tell whether a follower must compare its log with the leader's again before it takes more.

    By the epoch, and not by the leader: the same leader may return after an epoch of which this
    broker never heard, with another log than before (KAFKA-7164).
    """
    return old.leader_epoch != new.leader_epoch


def epoch_end(
    epochs: LeaderEpochs, leader_epoch: LeaderEpoch, log_end_offset: Offset, epoch: LeaderEpoch
) -> EpochEnd:
    """Say where an epoch ends in a leader's log; its own goes on, also before its first record.

    One in which nobody wrote ends where the leader's began. That is the log's end, for the leader
    has not written either: else the log would know of a later epoch (KAFKA-7415).
    """
    if epochs.latest < epoch < leader_epoch:
        wrote_last = epoch if epochs.latest == NO_LEADER_EPOCH else epochs.latest
        return EpochEnd(wrote_last, log_end_offset)
    if epoch == leader_epoch:
        return EpochEnd(epoch, log_end_offset)
    return epochs.end_offset_for(epoch, log_end_offset)


def diverging(
    epochs: LeaderEpochs,
    leader_epoch: LeaderEpoch,
    log_end_offset: Offset,
    last_fetched_epoch: LeaderEpoch,
    fetch_offset: int,
) -> EpochEnd | None:
    """Say where a reader's log parts from the leader's, if it does (KIP-595).

    An epoch of -1 in the answer says that the reader's last epoch was never the leader's.
    """
    if last_fetched_epoch < 0:
        return None
    ours = epoch_end(epochs, leader_epoch, log_end_offset, last_fetched_epoch)
    if ours.epoch < last_fetched_epoch or ours.end_offset < fetch_offset:
        return ours
    return None


def truncation_offset(
    epochs: LeaderEpochs, leader_end: EpochEnd, log_end_offset: Offset, high_watermark: Offset
) -> Offset:
    """Say where a follower cuts its log, given the end of an epoch in the leader's.

    A follower without the leader's epoch cuts where its own next lower one ends. The leader says
    then, at the next fetch, where that one ends in its log. Each turn goes at least one epoch back.
    """
    if leader_end.end_offset < 0:
        return high_watermark  # The leader knows no epochs; nothing better is known.
    end = min(leader_end.end_offset, log_end_offset)
    if leader_end.epoch < 0:
        return end
    own = epochs.end_offset_for(leader_end.epoch, log_end_offset)
    if own.end_offset < 0:
        return end
    if own.epoch != leader_end.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, end)


def up_to_epoch(batches: Buffer, leader_epoch: LeaderEpoch) -> memoryview:
    """Cut off the first batch of a later epoch than the fetch was sent in, and all behind it.

    The leader may have changed while it answered. What a later leader wrote belongs behind a
    truncation that this follower has not made yet (KAFKA-18723).
    """
    view = memoryview(batches)
    for batch in iter_batches(view, allow_cut=True):
        if is_from_later_leader(parse_header(view, batch.position).leader_epoch, leader_epoch):
            return view[: batch.position]
    return view


def is_from_later_leader(batch_epoch: int, fetched_epoch: int) -> bool:
    """Tell whether a batch is not to be taken in answer to a fetch that was sent in this epoch."""
    return batch_epoch > fetched_epoch
